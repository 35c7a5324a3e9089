"""records: collects the records of all faults of IREE that tiduc works around, and makes the tables of docs/iree.md."""

from collections.abc import Iterator
from dataclasses import replace

import tiduc.backends.iree.modules.edits  # noqa: F401  (this import records the faults of all edits)
from tiduc.backends.iree.emit.emitter import DYNAMIC, EVERYWHERE, ON_CPUS, ON_OTHERS, ON_SPIRV, PATTERNS
from tiduc.backends.iree.fast.loops.loop_forms import FORMS
from tiduc.backends.iree.fault import FAULTS, MODULES, VM_CODE, Record
from tiduc.backends.iree.pipeline import PIPELINE


def records() -> list[Record]:
    """Returns the records of all faults, sorted by the name of the op, pass or rewrite.

    The witness of a fault is the name of a program that shows it. In this name, `{op}` is replaced by the name of the
    record's op without its dialect.
    """
    patterns = [(op, entry) for op, entries in PATTERNS.items() for entry in entries]
    of_ops = [
        Record(
            entry.where, op, replace(fault, witness=fault.witness.format(op=op.removeprefix("stablehlo.")))
        )
        for op, entry in patterns
        for fault in FAULTS[entry.pattern]
    ]
    of_functions = [
        Record(VM_CODE if ".vm." in function.__module__ else MODULES, function.__name__, fault)
        for function in FAULTS.keys() - {entry.pattern for _, entry in patterns}
        for fault in FAULTS[function]
    ]
    return sorted([*of_ops, *of_functions], key=lambda record: record.name)


TABLES = {
    "static": (EVERYWHERE, ON_CPUS, ON_OTHERS),
    "dynamic": (DYNAMIC,),
    "spirv": (ON_SPIRV,),
    "modules": (MODULES, VM_CODE),
    "slow": (EVERYWHERE, ON_CPUS, ON_OTHERS, MODULES, VM_CODE),
}
"""Maps the name of each table of docs/iree.md to the values of `Record.where` whose faults the table lists.

The table "slow" lists only faults of the kind "slow". The other tables list only faults of other kinds.
"""


def table(name: str) -> str:
    """Returns a table in Markdown. It has a row for each fault, with the ops and passes that have the fault.

    Instead, the table "passes" has a row for each pass of `PIPELINE`, and the table "loops" has a row for each form in
    which a loop may be compiled.
    """
    if name in _OTHERS:
        return "\n".join(_OTHERS[name]())
    slow = name == "slow"
    rows: dict[tuple[str, str], list[str]] = {}
    for record in records():
        if record.where in TABLES[name] and (record.fault.kind == "slow") == slow:
            op = f"`{record.name.removeprefix('stablehlo.')}`"
            by = record.fault.row if slow else record.fault.kind
            rows.setdefault((by, record.fault.text), []).append(op)
    return "\n".join(_lines(rows, slow))


def _passes() -> Iterator[str]:
    """Yields the lines of a table with the group, the folder and the description of each pass, in order."""
    yield "| pass | group | room | what it does |"
    yield "|---|---|---|---|"
    for entry in PIPELINE:
        folder = "/".join(entry.function.__module__.split(".")[3:-1])
        room = f"`{folder}/`" if folder else ""
        yield f"| `{entry.function.__name__}` | {entry.group} | {room} | {entry.description} |"


def _loops() -> Iterator[str]:
    """Yields the lines of a table of the forms of loops, the best form first."""
    yield "| form | pass | what a loop gains |"
    yield "|---|---|---|"
    for form in FORMS:
        yield f"| {form.name} | `{form.made_by}` | {form.gain} |"


_OTHERS = {"passes": _passes, "loops": _loops}


def _lines(rows: dict[tuple[str, str], list[str]], slow: bool) -> Iterator[str]:
    """Yields the lines of a table. `rows` maps pairs of a fault's kind (its benchmark if `slow`) and text to ops."""
    yield f"| op or pass | {'' if slow else 'kind | '}IREE's fault, and what replaces it |{' gain | ' * slow}".rstrip()
    yield "|---|---|---|"
    for (of, text), ops in rows.items():
        names = ", ".join(dict.fromkeys(ops))
        yield f"| {names} | {text} | {of} |" if slow else f"| {names} | {of} | {text} |"
