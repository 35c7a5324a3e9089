"""apply_patterns: applies the patterns to every op of a module and to the ops that patterns emit."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

from torch_mlir import ir

from tiduc.backends.iree.emit.arrays import has_dynamic_shape
from tiduc.backends.iree.emit.emitter import (
    DYNAMIC,
    ON_CPUS,
    ON_OTHERS,
    ON_SPIRV,
    PATTERNS,
    Emitter,
    Pattern,
    rewrite,
)
from tiduc.backends.iree.settings import Settings
from tiduc.dialect.ops.ir_types import IrValue

ROOMS = ("faults", "missing", "fast", "linear_algebra")
"""The folders whose modules register patterns when they are imported."""

for _room in ROOMS:
    _folder = str(Path(__file__).parent / _room)
    for _module in walk_packages([_folder], f"{__package__}.{_room}."):
        import_module(_module.name)


def apply_patterns(module: ir.Module, settings: Settings) -> None:
    """Replaces each op of a module, in place, by the results of its first pattern that returns results, if any does.

    Emitted ops are rewritten too, unless they have the name of the op that they replace.
    """
    every = {name: _first_of(name, settings) for name in PATTERNS}
    rewrite(module, {name: first for name, first in every.items() if first}, settings, follow="others")


def _first_of(name: str, settings: Settings) -> Pattern | None:
    """Returns a pattern that tries the patterns for `name` in order, or None if the settings exclude all of them.

    Patterns for dynamic shapes are tried only on ops with dynamic shapes.
    """
    applies = {ON_CPUS: settings.cpu, ON_OTHERS: not settings.cpu, ON_SPIRV: settings.spirv}
    known = [
        entry
        for entry in PATTERNS[name]
        if applies.get(entry.where, True) and (settings.fast or not entry.is_fast)
    ]
    of_static = [entry.pattern for entry in known if entry.where != DYNAMIC]
    of_dynamic = [entry.pattern for entry in known]

    def first(b: Emitter, op: ir.Operation) -> Sequence[IrValue] | None:
        tried = (pattern(b, op) for pattern in (of_dynamic if has_dynamic_shape(op) else of_static))
        return next((results for results in tried if results is not None), None)

    return first if known else None
