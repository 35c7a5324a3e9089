"""Each pass of the pipeline for IREE has the name of its file, of its test and of its row in the documentation."""

import inspect
from pathlib import Path

import pytest

from tiduc.backends.iree.pipeline import PIPELINE, Entry
from tiduc.backends.iree.records import records
from tiduc.dialect.mlir.context import parse
from tiduc.opt import run_pipeline

HERE = Path(__file__).parent
NAMES = {entry.function.__name__: entry for entry in PIPELINE}


@pytest.mark.parametrize("entry", NAMES.values(), ids=NAMES)
def test_the_file_of_a_pass_has_its_name(entry: Entry) -> None:
    module, name = inspect.getmodule(entry.function), entry.function.__name__
    assert module is not None and module.__name__.rpartition(".")[2] == name
    assert str(module.__doc__).startswith(f"{name}: ")


@pytest.mark.parametrize("name", NAMES)
def test_the_test_of_a_pass_has_its_name(name: str) -> None:
    """Each pass has a Python or lit test named after it, or a witness that test_iree_faults.py runs."""
    files = HERE / f"test_iree_{name}.py", HERE.parent / "lit" / "legalize" / f"{name}.mlir"
    assert any(file.exists() for file in files) or any(
        record.name == name and record.fault.witness for record in records()
    )


@pytest.mark.parametrize("name", NAMES)
def test_the_page_on_iree_has_a_row_for_a_pass(name: str) -> None:
    page = (HERE.parents[1] / "docs" / "iree.md").read_text()
    table = page.partition("<!-- faults: passes -->")[2].partition("<!-- end -->")[0]
    assert f"\n| `{name}` |" in table


@pytest.mark.parametrize(
    "entry", PIPELINE, ids=[f"{entry.group} {entry.function.__name__}" for entry in PIPELINE]
)
def test_a_pass_has_a_description(entry: Entry) -> None:
    assert entry.description[0].isupper() and entry.description.endswith(".")


TEXT = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }"


@pytest.mark.parametrize(
    "name", [name for name, entry in NAMES.items() if entry.group not in ("legal", "tiles")]
)
def test_a_pass_runs_by_its_name(name: str) -> None:
    """`tiduc opt` runs a pass without a target, with the default settings."""
    module = parse(TEXT)
    run_pipeline(module, f"tidu-{name.replace('_', '-')}")
    assert "return %arg0" in str(module)
