"""Chooses the checks of rules that include, in the fast tests, order two and subsets of the inputs.

Order two differentiates the programs that rules emit, and takes two thirds of a check's time. In the fast tests, a case
of a parametrized test includes both if it reaches a rule, or an emitted kind of op, that no earlier case of its file
reached. Tests without parameters, and tests that pass `order=2`, for example at a zero or a kink, always include both.
`python -m pytest test/py/rules` includes both in all checks.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from harness.evidence import Recorder
from tiduc.program import Program

_OP = re.compile(r"\b(?:stablehlo|chlo|tidu)\.\w+|@[\w.]+")
"""Matches the name of an op, or the target of a custom call."""


class OrderTwo:
    """The rules and the emitted kinds of ops that the checks of a file have covered up to order two."""

    def __init__(self) -> None:
        self._last: Path | None = None
        self._is_sampled = False
        self._reached: set[object] = set()

    def sample(self, file: Path | None) -> None:
        """From now on, samples the checks of this test file. Without a file, all checks include order two."""
        if file and file != self._last:
            self._last, self._reached = file, set()
        self._is_sampled = file is not None

    def is_due(self, recorder: Recorder, derived: Iterable[Program]) -> bool:
        """Whether the check of a program includes order two and subsets. `derived` are the program's derivatives."""
        reached = {*recorder.met, *(op for program in derived for op in _OP.findall(str(program)))}
        is_due = not self._is_sampled or not reached <= self._reached
        self._reached |= reached
        return is_due


ORDER_TWO = OrderTwo()
