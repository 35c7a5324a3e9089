"""Chooses the checks of rules that include order two and subsets of the inputs in the fast tests.

The check of order two differentiates the programs that rules emit, which takes two thirds of the time of a check. In
the fast tests, a case of a parametrized test therefore includes order two and subsets only if it applies a rule, or
emits a kind of op, that no earlier case of its file covers. Tests without parameters always include them. So do tests
that pass `order=2`, for example at a zero or a kink. `python -m pytest test/py/rules` includes them in all checks.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from harness.evidence import Recorder
from tiduc.program import Program

_OP = re.compile(r"\b(?:stablehlo|chlo|tidu)\.\w+|@[\w.]+")
"""Matches the name of an op or the target of a custom call."""


class OrderTwo:
    """Records the rules and the kinds of emitted ops that the checks of a file have covered up to order two."""

    def __init__(self) -> None:
        self._last: Path | None = None
        self._is_sampled = False
        self._reached: set[object] = set()

    def sample(self, file: Path | None) -> None:
        """Begins to sample the checks of this test file. If `file` is None, all further checks include order two."""
        if file and file != self._last:
            self._last, self._reached = file, set()
        self._is_sampled = file is not None

    def is_due(self, recorder: Recorder, derived: Iterable[Program]) -> bool:
        """Returns whether the check of a program includes order two and subsets of the inputs.

        `derived` are the program's derivatives of order one. The rules and ops that they contain count as covered from
        now on.
        """
        reached = {*recorder.met, *(op for program in derived for op in _OP.findall(str(program)))}
        is_due = not self._is_sampled or not reached <= self._reached
        self._reached |= reached
        return is_due


ORDER_TWO = OrderTwo()
