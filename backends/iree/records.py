"""records: all faults of IREE that this backend works around, and the tables of docs/iree.md that list them."""

from collections.abc import Iterator
from dataclasses import dataclass

from tiduc.backends.iree.emitter import DYNAMIC, EVERYWHERE, ON_CPUS, ON_SPIRV, PATTERNS
from tiduc.backends.iree.fault import FAULTS, Fault
from tiduc.backends.iree.pipeline import PIPELINE
from tiduc.backends.iree.vm import VM_PIPELINE
from tiduc.backends.iree.vm.recordings import copies_bound_arrays

MODULES, VM_TEXT = "whole modules", "VM text"


@dataclass(frozen=True)
class Record:
    """A fault, and where it is worked around: the op of a pattern, or the name of a pass or rewrite.

    `where` is that of `Registered`, `MODULES` or `VM_TEXT`.
    """

    where: str
    name: str
    fault: Fault


def records() -> list[Record]:
    """One record for each fault of each op, pass and rewrite."""
    of_ops = [
        Record(entry.where, op, fault)
        for op, entries in sorted(PATTERNS.items())
        for entry in entries
        for fault in entry.faults
    ]
    of_passes = [
        Record(MODULES, entry.function.__name__, fault) for entry in PIPELINE for fault in entry.faults
    ]
    of_text = [
        Record(VM_TEXT, rewrite.__name__, fault)
        for rewrite in (copies_bound_arrays, *VM_PIPELINE)
        for fault in FAULTS[rewrite]
    ]
    return of_ops + of_passes + of_text


TABLES = {
    "static": (EVERYWHERE, ON_CPUS),
    "dynamic": (DYNAMIC,),
    "spirv": (ON_SPIRV,),
    "modules": (MODULES, VM_TEXT),
    "slow": (EVERYWHERE, ON_CPUS, MODULES),
}
"""The tables of docs/iree.md, with the places whose records each one lists. "slow" has those of that kind."""


def table(name: str) -> str:
    """A table in Markdown: one row for each fault, with the ops that have it."""
    slow = name == "slow"
    rows: dict[tuple[str, str], list[str]] = {}
    for record in records():
        if record.where in TABLES[name] and (record.fault.kind == "slow") == slow:
            op = f"`{record.name.removeprefix('stablehlo.')}`"
            rows.setdefault((record.fault.kind, record.fault.text), []).append(op)
    return "\n".join(_lines(rows, slow))


def _lines(rows: dict[tuple[str, str], list[str]], slow: bool) -> Iterator[str]:
    kind = "" if slow else "kind | "
    yield f"| op or pass | {kind}IREE's fault, and what replaces it |"
    yield "|---|---|" if slow else "|---|---|---|"
    for (of, text), ops in rows.items():
        yield f"| {', '.join(dict.fromkeys(ops))} | {'' if slow else f'{of} | '}{text} |"
