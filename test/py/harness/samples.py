"""Chooses the cases of a parametrized test that run in the fast tests. The other cases get the mark `slow`.

    @pytest.mark.sampled(12)
    @pytest.mark.parametrize("size", [1, 2, 5])
    @pytest.mark.parametrize("dtype", [...])
    def test_all(size, dtype): ...

The 12 cases are chosen one after the other. Each case adds the most new values of parameters and pairs of values.
"""

import itertools
import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest


def mark_slow(items: Sequence[Any]) -> None:
    """Adds the mark `slow` to the cases of sampled tests that are not in the sample."""
    cases: dict[Any, list[Any]] = {}
    for item in items:
        if item.get_closest_marker("sampled") is not None:
            cases.setdefault((item.path, item.originalname), []).append(item)
    for some in cases.values():
        count = some[0].get_closest_marker("sampled").args[0]
        # Cases with the same value of a parameter share the object. Its id therefore identifies the value.
        values = [{name: id(x) for name, x in item.callspec.params.items()} for item in some]
        kept = sample(values, count)
        for i, item in enumerate(some):
            if i not in kept:
                item.add_marker(pytest.mark.slow)


def sample(cases: Sequence[Mapping[str, int]], count: int) -> set[int]:
    """Chooses `count` cases and returns their indices.

    Each case adds the most values and pairs of values that no case before it has. A case maps each parameter to a
    number that stands for a value.
    """
    left = {i: _combinations(case) for i, case in enumerate(cases)}
    order = list(left)
    random.Random(0).shuffle(
        order
    )  # random order, because successive cases are alike, and the first of equally good cases is chosen
    chosen: set[int] = set()
    while order and len(chosen) < count:
        best = max(order, key=lambda i: len(left[i]))
        order.remove(best)
        chosen.add(best)
        new = left.pop(best)
        for some in left.values():
            some -= new
    return chosen


def _combinations(case: Mapping[str, int]) -> set[Any]:
    """Returns the values of a case and all pairs of the values."""
    values = sorted(case.items())
    return {*values, *itertools.combinations(values, 2)}
