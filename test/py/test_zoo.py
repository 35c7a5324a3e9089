"""The harness of the zoo, with a model that needs no package but PyTorch."""

import json
from pathlib import Path
from types import ModuleType

import pytest

torch = pytest.importorskip("torch")

FOLDER = Path(__file__).parents[1] / "zoo"


@pytest.fixture
def zoo(monkeypatch: pytest.MonkeyPatch) -> dict[str, ModuleType]:
    """The modules of the harness, which import one another as scripts do."""
    monkeypatch.syspath_prepend(str(FOLDER))
    import entries
    import run
    import table
    import verdict

    return {"entries": entries, "run": run, "table": table, "verdict": verdict}


def test_a_model_is_measured_and_its_row_is_written(zoo: dict[str, ModuleType], tmp_path: Path) -> None:
    figures = zoo["run"].measured("perceptron", "xla", 300, 6000)
    assert figures.keys() >= {
        "weights",
        "ops",
        "import",
        "transform",
        "compile",
        "run",
        "torch_run",
        "peak",
    }, figures
    assert zoo["verdict"].is_right(figures)
    journal = tmp_path / "zoo.jsonl"
    journal.write_text(json.dumps(["perceptron", "xla", figures]) + "\n")
    entry = zoo["entries"].Entry("perceptron", "tables", "small", lambda: None)
    page = zoo["table"].page([entry], zoo["run"].known(journal))
    assert "| small | 1 | 1 | 1 | 1 | 0 | 0 |" in page
    assert "| perceptron | 5,569 |" in page


def test_a_model_that_exceeds_its_time_has_a_reason(zoo: dict[str, ModuleType]) -> None:
    figures = zoo["run"].measured("perceptron", "none", 0.1, 6000)
    assert figures == {"failed": "no result in 0.1 s"}
    entry = zoo["entries"].Entry("perceptron", "tables", "small", lambda: None)
    page = zoo["table"].page([entry], {("perceptron", "none"): figures})
    assert "| perceptron | the import | no result in 0.1 s |" in page


def test_a_gradient_that_is_wrong_in_f32_must_be_right_in_f64(zoo: dict[str, ModuleType]) -> None:
    is_right, moved = zoo["verdict"].is_right, {"error": 1e-3, "torch_error": 1e-7}
    wide_errors = ({}, {"wide_error": 1e-15}, {"wide_error": 1e-8}, {"wide_error": 1e-6})
    assert [is_right(moved | wide) for wide in wide_errors] == [False, True, True, False]
