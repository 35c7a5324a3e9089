"""Chooses which cases of an exhaustive parametrization are in the fast tests; the others are marked slow.

    @pytest.mark.sampled(12)
    @pytest.mark.parametrize("size", [1, 2, 5])
    @pytest.mark.parametrize("dtype", [...])
    def test_all(size, dtype): ...

The 12 cases are chosen one by one. Each next case is the one that adds the most parameter values, and pairs of values
of two parameters, that the chosen cases lack.
"""

import itertools
import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest


def mark_slow(items: Sequence[Any]) -> None:
    """Marks the cases of sampled tests slow that are not in their samples."""
    cases: dict[Any, list[Any]] = {}
    for item in items:
        if item.get_closest_marker("sampled") is not None:
            cases.setdefault((item.path, item.originalname), []).append(item)
    for some in cases.values():
        count = some[0].get_closest_marker("sampled").args[0]
        # Cases that share a value of a parameter have the same object.
        values = [{name: id(x) for name, x in item.callspec.params.items()} for item in some]
        kept = sample(values, count)
        for i, item in enumerate(some):
            if i not in kept:
                item.add_marker(pytest.mark.slow)


def sample(cases: Sequence[Mapping[str, int]], count: int) -> set[int]:
    """The indices of `count` cases, of which each adds the most values and pairs of values to those before it.

    A case is a number for each parameter, which stands for its value.
    """
    left = {i: _combinations(case) for i, case in enumerate(cases)}
    order = list(left)
    random.Random(0).shuffle(order)  # among equally good cases, the first ones would be alike
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
    """The values of a case, and their pairs."""
    values = sorted(case.items())
    return {*values, *itertools.combinations(values, 2)}
