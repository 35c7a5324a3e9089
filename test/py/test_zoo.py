"""The harnesses of the model zoo and of the sweep over architectures, with models that need only PyTorch."""

import json
import math
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

FOLDER = Path(__file__).parents[1] / "zoo"


@pytest.fixture
def zoo(monkeypatch: pytest.MonkeyPatch) -> dict[str, ModuleType]:
    """The modules of the zoo's harness by name. They import each other as scripts do."""
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


# ---- all architectures ----------------------------------------------------------------------------------------


class Perceptron(torch.nn.Module):  # type: ignore[misc]
    """Two linear layers with a ReLU between them. In training mode, it also has dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(3, 4), torch.nn.Linear(4, 2)

    def forward(self, x: Any) -> Any:
        return self.second(torch.nn.functional.dropout(self.first(x).relu(), 0.5, self.training))


class DataDependent(torch.nn.Module):  # type: ignore[misc]
    def forward(self, x: Any) -> Any:
        return x if x.sum() > 0 else -x


@pytest.fixture
def sweep(monkeypatch: pytest.MonkeyPatch) -> dict[str, ModuleType]:
    """The modules of the sweep over architectures, by name."""
    monkeypatch.syspath_prepend(str(FOLDER))
    import against_torch
    import architecture_page
    import catalog

    return {"catalog": catalog, "comparison": against_torch, "page": architecture_page}


def architecture(sweep: dict[str, ModuleType], module: Any, training: bool = False) -> Any:
    def build() -> Any:
        return module(), (torch.randn(3, 3),)

    return sweep["catalog"].Architecture("own", module.__name__, lambda size: iter([build]), training)


@pytest.mark.parametrize("training", [False, True])
def test_an_architecture_is_right_on_iree(sweep: dict[str, ModuleType], training: bool) -> None:
    found = sweep["comparison"].record(architecture(sweep, Perceptron, training), "iree")
    assert found["outcome"] == "ok" and found["error"] < 1e-5 and found["weights"] == 26


def test_the_reference_is_in_f32_where_f64_is_not_finite(sweep: dict[str, ModuleType]) -> None:
    class Narrow(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return x * (math.nan if x.dtype == torch.float64 else 2.0)

    found = sweep["comparison"].record(architecture(sweep, Narrow), "iree")
    assert found["outcome"] == "ok" and "torch_error" not in found


def test_the_reference_is_in_f64_where_a_module_asks_for_f32(sweep: dict[str, ModuleType]) -> None:
    class Angles(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return (x.float() * 1e4).sin() + (x.to(torch.float32) * 1e4).cos()

    found = sweep["comparison"].record(architecture(sweep, Angles), "iree")
    assert found["outcome"] == "ok" and found["torch_error"] > 1e-6


def test_a_size_is_reduced_where_none_is_published(sweep: dict[str, ModuleType]) -> None:
    def candidates(size: Any) -> Any:
        return iter([] if size.published else [lambda: (Perceptron(), (torch.randn(3, 3),))])

    own = sweep["catalog"].Architecture("own", "perceptron", candidates)
    record = sweep["comparison"].record
    found = record(own, "none", ["published", "reduced"])
    assert (found["outcome"], found["size"]) == ("differentiated", "reduced")
    assert record(own, "none", ["published"])["outcome"] == "not built"
    assert [record(own, "none", ["reduced"], n)["outcome"] for n in (3, 4)] == ["left out", "differentiated"]


def test_one_wrong_gradient_is_wrong(sweep: dict[str, ModuleType], monkeypatch: pytest.MonkeyPatch) -> None:
    run = sweep["comparison"]._run

    def off(gradient: Any, inputs: Any, engine: str) -> Any:
        results = run(gradient, inputs, "xla")
        return [*results[:-1], results[-1] * (1 + 1e-3)]

    monkeypatch.setattr(sweep["comparison"], "_run", off)
    found = sweep["comparison"].record(architecture(sweep, Perceptron), "iree")
    assert found["outcome"] == "wrong" and "XLA too: gradient 4 differs from PyTorch's" in found["why"]


def test_what_does_not_import(sweep: dict[str, ModuleType]) -> None:
    def outcome(module: Any) -> str:
        return sweep["comparison"].record(architecture(sweep, module), "none")["outcome"]

    assert outcome(DataDependent) == "not exported"
    assert outcome(Perceptron) == "differentiated"

    class Broken(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return x @ torch.zeros(7, 7)

    assert outcome(Broken) == "not built"


def test_a_sweep_of_architectures_continues(
    sweep: dict[str, ModuleType], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import architectures

    asked: list[str] = []

    class Answers:
        errors = "Fatal Python error: Segmentation fault"

        def __init__(self, command: object) -> None: ...

        def asked(self, request: list[str], seconds: float) -> Any:
            asked.append(request[0])
            right = {"outcome": "ok", "why": "", "size": "reduced", "weights": 1234, "error": 3.4e-7}
            return {"own/a": right, "own/b": "crash", "own/d": {"outcome": "left out", "why": ""}}.get(
                request[0], {"outcome": "refused", "why": "torch-mlir lowers no torch.aten.x to StableHLO"}
            )

        def close(self) -> None: ...

    monkeypatch.setattr(architectures, "Worker", Answers)
    journal = tmp_path / "journal.jsonl"
    given = SimpleNamespace(
        journal=journal, engine="iree", again=["crash"], limit=1, seconds=60, size="published", shapes=5
    )
    for _ in range(2):
        found = architectures.run(["own/d", "own/c", "own/b", "own/a"], given)
    assert asked == ["own/d", "own/c", "own/b", "own/a", "own/d", "own/b"]
    titles = [json.loads(line)["title"] for line in journal.read_text().splitlines()]
    assert titles == ["own/a", "own/b", "own/c"]
    assert found["own/b"]["why"] == Answers.errors
    page = sweep["page"].page(found, 9)
    assert "3 of 9 architectures have been tried so far" in page
    assert f"| own/a | reduced | 1,234 | 3e-07 |  |  | {found['own/a']['day']} | right |" in page
    assert "| own | 1 | 0 | 1 | 0 | 1 | 0 | 0 | 0 | 0 | 0 |" in page
    assert "| refused | op without StableHLO: torch.aten.x | own/c |" in page


@pytest.mark.parametrize(
    ("ends", "outcome"), [("raise MemoryError", "too large"), ("import os; os.abort()", "crash")]
)
def test_the_last_words_of_a_worker_tell_whether_memory_was_missing(ends: str, outcome: str) -> None:
    from architectures import dead
    from worker import Worker

    worker = Worker([sys.executable, "-c", f"input(); {ends}"])
    assert dead(worker.asked(["own/a"], 60), worker.errors)["outcome"] == outcome


def test_the_page_is_that_of_the_record(sweep: dict[str, ModuleType]) -> None:
    import architectures
    from table import PAGE, section_of

    section = section_of(PAGE.read_text())
    listed = int(section.split(" architectures have been tried")[0].rpartition(" ")[2])
    assert section == sweep["page"].page(architectures.known(architectures.JOURNAL), listed)


def test_draws_are_repeatable(sweep: dict[str, ModuleType]) -> None:
    draw = sweep["catalog"].draw
    every = [architecture(sweep, type(f"M{i}", (Perceptron,), {})) for i in range(20)]
    names = [[each.name for each in draw(seed, count, every)] for seed, count in ((1, 5), (1, 9), (2, 5))]
    assert names[1][:5] == names[0] != names[2] and len(set(names[1])) == 9


def test_configurations_of_transformers_are_small(sweep: dict[str, ModuleType]) -> None:
    pytest.importorskip("transformers")
    # This call imports torchvision, even if the operators of torchvision cannot be loaded.
    sweep["catalog"].architectures()
    import shrinking
    import transformers

    first = next(shrinking.attempts(transformers.LlamaConfig, sweep["catalog"].SMALL))
    assert (first.hidden_size, first.num_hidden_layers, first.num_attention_heads) == (32, 2, 4)
    assert first.vocab_size == shrinking.VOCABULARY > max(first.bos_token_id, first.eos_token_id)
