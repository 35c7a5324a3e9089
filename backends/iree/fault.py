"""Fault: the record of one thing that IREE does wrong and that a pattern, a pass or a rewrite of VM text works around.

    @legalize("stablehlo.add", fault=Fault("wrong", "Adds predicates modulo two; ...", witness="add_predicates"))

The tables of docs/iree.md and the tests that IREE alone still fails come from these records. `test/sweep/faults.py`
prints the records that the installed IREE no longer needs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

Kind = Literal["wrong", "crash", "missing", "slow"]

SEEN = "3.13.0"
"""The version of IREE that the records describe."""


@dataclass(frozen=True)
class Fault:
    """One fault of IREE.

    `kind` is "wrong" if IREE computes other values, "crash" if its compiler crashes on or rejects an op that it
    supports, "missing" if it lacks the op, "slow" if it is correct but slow. `text` says what IREE does, and what
    replaces it. `witness` names a case of `test/py/cases/witnesses.py` that IREE alone fails. `untested` is the reason
    why there is no such case, or why no test runs IREE on the case. `upstream` is the address of IREE's own report.
    """

    kind: Kind
    text: str
    witness: str = ""
    untested: str = ""
    seen: str = SEEN
    upstream: str = ""


Faults = Fault | tuple[Fault, ...]

MODULES, VM_TEXT = "whole modules", "VM text"
"""Where a pass, and a rewrite of VM text, apply."""


@dataclass(frozen=True)
class Record:
    """A fault, and where it is worked around: the op of a pattern, or the name of a pass or rewrite.

    `where` is that of `emitter.Registered`, `MODULES` or `VM_TEXT`.
    """

    where: str
    name: str
    fault: Fault


RECORDS: list[Record] = []
"""One record for each fault of each op, pass and rewrite that has been imported."""

_Function = TypeVar("_Function", bound=Callable[..., object])


def record(where: str, name: str, faults: Sequence[Fault]) -> None:
    """Adds faults to `RECORDS`."""
    RECORDS.extend(Record(where, name, fault) for fault in faults)


def mends(*faults: Fault, where: str = MODULES) -> Callable[[_Function], _Function]:
    """Records the faults that a pass on modules, or a rewrite of VM text, works around."""

    def register(function: _Function) -> _Function:
        record(where, function.__name__, faults)
        return function

    return register


def listed(fault: Faults) -> Sequence[Fault]:
    """One fault or several, as a sequence."""
    return (fault,) if isinstance(fault, Fault) else fault
