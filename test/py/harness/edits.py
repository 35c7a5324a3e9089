"""Applies edits of IREE's IR (`tiduc/backends/iree/modules/`) to text, and adds edits to the compiler's process."""

from collections.abc import Callable
from typing import Any

import pytest
from iree.compiler import ir

from tiduc.backends.iree.modules import job


def after(edit: Callable[[Any], bool], text: str) -> str | None:
    """Returns the text of a module after an edit, or None if the edit changes nothing.

    The text may contain ops of dialects that are not registered.
    """
    with ir.Context() as context:
        context.allow_unregistered_dialects = True
        module = ir.Module.parse(text)
        changed = edit(module.operation)
        assert module.operation.verify()
        return str(module) if changed else None


def compiles_with(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Changes the program of the processes that edit IR, so that they run `code` first."""
    begin, main = job._PROGRAM.split("; main()")
    lines = code.replace("{", "{{").replace("}", "}}")
    monkeypatch.setattr(job, "_PROGRAM", f"{begin}\n{lines}\nmain(){main}")


def broken(name: str) -> str:
    """Returns code that adds an optional edit. The edit always raises `Broken`."""
    return f"""from tiduc.backends.iree.modules import edits, invariants
def {name}(module):
    raise invariants.Broken("modules are short")
edits.SPEED["{name}"] = {name}"""


def without_hosting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turns off the edit that stores temporary arrays in the memory of results."""
    code = "from tiduc.backends.iree.modules import edits\nedits.SPEED['host_arrays'] = lambda module: False"
    compiles_with(monkeypatch, code)
