"""apply_patterns: applies the patterns to every op of a module and to the ops that patterns emit."""

from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

from tiduc.backends.iree.emit.arrays import has_dynamic_shape
from tiduc.backends.iree.emit.emitter import (
    DYNAMIC,
    ON_CPUS,
    ON_OTHERS,
    ON_SPIRV,
    PATTERNS,
    Pattern,
    rewriting,
    within,
)
from tiduc.backends.iree.settings import Settings
from tiduc.dialect.graph.functions import replace

ROOMS = ("faults", "missing", "fast", "linear_algebra")
"""The folders whose modules register patterns when they are imported."""

for _room in ROOMS:
    _folder = str(Path(__file__).parent / _room)
    for _module in walk_packages([_folder], f"{__package__}.{_room}."):
        import_module(_module.name)


def apply_patterns(module: Any, settings: Settings) -> None:
    """Replaces ops by the results of the first pattern that gives any, in place."""
    waiting = within(module.operation)[::-1]
    known: dict[tuple[str, bool], list[Pattern]] = {}
    while waiting:
        op = waiting.pop()
        name = op.name
        if name not in PATTERNS:
            continue
        kind = name, has_dynamic_shape(op)
        if kind not in known:
            known[kind] = _patterns(*kind, settings)
        if not known[kind]:
            continue
        with rewriting(op, settings) as b:
            tried = (pattern(b, op) for pattern in known[kind])
            results = next((values for values in tried if values is not None), None)
        # An emitted op with the replaced op's name is final; emitted ops with other names may need a pattern.
        emitted = [inner for outer in b.emitted if outer is not None for inner in within(outer)]
        waiting += [inner for inner in dict.fromkeys(emitted) if inner.name != name][::-1]
        if results is not None:
            if len(op.regions):
                inside = set(within(op))
                waiting = [inner for inner in waiting if inner not in inside]
            replace(op, results)


def _patterns(name: str, is_dynamic: bool, settings: Settings) -> list[Pattern]:
    """The patterns for ops of a name, with or without dynamic shapes, in the order in which they are tried."""
    applies = {
        ON_CPUS: settings.cpu,
        ON_OTHERS: not settings.cpu,
        ON_SPIRV: settings.spirv,
        DYNAMIC: is_dynamic,
    }
    return [
        entry.pattern
        for entry in PATTERNS[name]
        if applies.get(entry.where, True) and (settings.fast or not entry.is_fast)
    ]
