"""Runs edits of IREE's IR (`backends/iree/modules/`) on text, and adds edits to the compiler's process."""

from collections.abc import Callable
from typing import Any

import pytest
from iree.compiler import ir

from tiduc.backends.iree.modules import job


def after(edit: Callable[[Any], bool], text: str) -> str | None:
    """The text of a module after an edit, or None if the edit changes nothing.

    The text may contain ops of unknown dialects.
    """
    with ir.Context() as context:
        context.allow_unregistered_dialects = True
        module = ir.Module.parse(text)
        changed = edit(module.operation)
        assert module.operation.verify()
        return str(module) if changed else None


def compiles_with(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Makes each process that edits IR run this code first."""
    begin, main = job._PROGRAM.split("; main()")
    lines = code.replace("{", "{{").replace("}", "}}")
    monkeypatch.setattr(job, "_PROGRAM", f"{begin}\n{lines}\nmain(){main}")


def broken(name: str) -> str:
    """Code that adds an edit for speed. The edit always fails, because an invariant is broken."""
    return f"""from tiduc.backends.iree.modules import edits, invariants
def {name}(module):
    raise invariants.Broken("modules are short")
edits.SPEED["{name}"] = {name}"""


def without_hosting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turns off the edit that places arrays in the memory of results."""
    code = "from tiduc.backends.iree.modules import edits\nedits.SPEED['host_arrays'] = lambda module: False"
    compiles_with(monkeypatch, code)
