"""Fault: the record of one thing that IREE does wrong and that a pattern, a pass or a rewrite of VM text works around.

    @legalize("stablehlo.add", fault=Fault("wrong", "Adds predicates modulo two; ...", witness="add_predicates"))

The tables of docs/iree.md and the tests that IREE alone still fails come from these records. `test/sweep/faults.py`
prints the records that the installed IREE no longer needs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

Kind = Literal["wrong", "crash", "missing", "slow"]
KINDS: tuple[Kind, ...] = ("wrong", "crash", "missing", "slow")

SEEN = "3.13.0"
"""The version of IREE that the records describe."""


@dataclass(frozen=True)
class Fault:
    """One fault of IREE.

    `kind` is "wrong" if IREE computes other values, "crash" if its compiler crashes on or rejects an op that it
    supports, "missing" if it lacks the op, "slow" if it is correct but slow. `text` says what IREE does, and what
    replaces it. `witness` names a case of `test/py/cases/witnesses.py` that IREE alone fails; `untested` says why
    there is no such case, or why IREE is not run on it. `upstream` is the address of IREE's own report.
    """

    kind: Kind
    text: str
    witness: str = ""
    untested: str = ""
    seen: str = SEEN
    upstream: str = ""


Faults = Fault | tuple[Fault, ...]

FAULTS: dict[str, tuple[Fault, ...]] = {}
"""The faults that passes and rewrites of VM text work around, by the function's name."""

_Function = TypeVar("_Function", bound=Callable[..., object])


def mends(*faults: Fault) -> Callable[[_Function], _Function]:
    """Records the faults that a pass on modules, or a rewrite of VM text, works around."""

    def register(function: _Function) -> _Function:
        FAULTS[function.__name__] = faults
        return function

    return register


def listed(fault: Faults) -> Sequence[Fault]:
    """One fault or several, as a sequence."""
    return (fault,) if isinstance(fault, Fault) else fault
