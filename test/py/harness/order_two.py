"""Which checks of rules go on to order two in the fast tests.

Order two differentiates the programs that rules emit, which takes two thirds of a check's time. In the fast tests, a
check goes on to order two if it asks for a rule, or a rule emits a kind of op, that no earlier check of its file did;
`python -m pytest test/py/rules` goes on in all checks.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from harness.evidence import Recorder
from tiduc.program import Program

_OP = re.compile(r"\b(?:stablehlo|chlo|tidu)\.\w+|@[\w.]+")
"""A kind of op, or the target of a custom call."""


class OrderTwo:
    """The rules, and the kinds of ops that they emit, that a file has checked to order two."""

    def __init__(self) -> None:
        self._file: Path | None = None
        self._reached: set[object] = set()

    def sample(self, file: Path | None) -> None:
        """Samples the checks of this file of tests from now on; without a file, all checks go on to order two."""
        if file != self._file:
            self._file, self._reached = file, set()

    def is_due(self, recorder: Recorder, derived: Iterable[Program]) -> bool:
        """Whether the check of a program with these derivatives goes on to order two."""
        if self._file is None:
            return True
        reached = {*recorder.met, *(op for program in derived for op in _OP.findall(str(program)))}
        is_due = not reached <= self._reached
        self._reached |= reached
        return is_due


ORDER_TWO = OrderTwo()
