"""The tutorial notebook: its cells run in order, and print the stored outputs."""

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import pytest

NOTEBOOK = Path(__file__).parents[2] / "examples" / "tutorial.ipynb"


@pytest.mark.slow
@pytest.mark.more
def test_the_tutorial_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "examples").symlink_to(NOTEBOOK.parent)
    monkeypatch.chdir(tmp_path)
    space: dict[str, Any] = {}
    cells = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]
    assert cells
    for cell in cells:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec("".join(cell["source"]), space)
        stored = "".join(line for output in cell["outputs"] for line in output["text"])
        assert printed.getvalue() == stored, "".join(cell["source"])
