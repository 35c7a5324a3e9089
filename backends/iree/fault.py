"""`Fault`: a record of one fault of IREE, which a pattern, a pass or an edit of VM code works around.

    @legalize("stablehlo.add")
    @wrong("IREE adds predicates modulo two; tiduc emits their disjunction.", "add_predicates")
    def add(b, op): ...

docs/iree.md lists these records. Most records name a witness, a program on which a test expects IREE without tiduc to
fail. `test/sweep/faults.py` prints the faults that the installed IREE no longer has.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeVar

Kind = Literal["wrong", "crash", "missing", "slow"]

SEEN = "3.13.0"
"""The version of IREE in which the recorded faults were seen."""


@dataclass(frozen=True)
class Fault:
    """One fault of IREE.

    - `kind`: "wrong" if IREE computes wrong values, "crash" if its compiler crashes on or rejects an op that it
      supports, "missing" if it lacks the op, "slow" if it is correct but slow.
    - `text`: what IREE does, and what tiduc does instead.
    - `witness`: the name of a case of `test/py/cases/witnesses.py` on which IREE without tiduc fails.
    - `untested`: the reason why there is no such case, or why no test runs IREE on the case.
    - `seen`: the version of IREE with the fault.
    - `upstream`: the address of a public report of the fault, or of a pull request that fixes it.
    - `row`: for a "slow" fault, the row of a benchmark in `test/bench/` that shows the gain, as in "flags.py: argmax".
    """

    kind: Kind
    text: str
    witness: str = ""
    untested: str = ""
    seen: str = SEEN
    upstream: str = ""
    row: str = ""


@dataclass(frozen=True)
class Record:
    """A fault, and the pattern, pass or edit of VM code that works around it.

    `where` is `Registered.where` (`emit/emitter.py`) for a pattern, `MODULES` for a pass, `VM_CODE` for an edit of VM
    code.
    """

    where: str
    name: str
    fault: Fault


MODULES, VM_CODE = "whole modules", "VM code"
"""The values of `Record.where` for passes on modules, and for edits of VM code."""

FAULTS: dict[Callable[..., Any], tuple[Fault, ...]] = {}
"""The faults that each pattern, pass or edit of VM code works around, in the order of decorators."""

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _fault(
    kind: Kind, text: str, witness: str = "", untested: str = "", upstream: str = "", row: str = ""
) -> Callable[[_Function], _Function]:
    def record(function: _Function) -> _Function:
        # Python applies the lowest decorator first.
        faults = FAULTS.get(function, ())
        FAULTS[function] = (Fault(kind, text, witness, untested, SEEN, upstream, row), *faults)
        return function

    return record


wrong, crash = partial(_fault, "wrong"), partial(_fault, "crash")
missing = partial(_fault, "missing")
"""Decorators of the function that works around a fault. Each records a fault of the kind that its name says."""


def slow(text: str, row: str) -> Callable[[_Function], _Function]:
    """A decorator that records a "slow" fault. `row` is the row of a benchmark that shows the gain (see `Fault`)."""
    return _fault("slow", text, row=row)
