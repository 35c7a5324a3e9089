"""Tests that `runs` finds all maximal periodic parts of a sequence, and is fast."""

import random
import time

import pytest

from tiduc.backends.iree.fast.compile_time.runs import runs

LAYERS = [*range(140)] * 300


def found(numbers: list[int], shortest: int) -> set[tuple[int, int, int]]:
    """The begin, end and period of each run that `runs` finds."""
    return {
        (int(start), int(end), int(period))
        for start, end, period in zip(*runs(numbers, shortest), strict=True)
    }


def expected(numbers: list[int], shortest: int) -> set[tuple[int, int, int]]:
    """The runs of a short sequence, found by comparing the sequence with copies that are shifted by each period."""
    all_runs: dict[tuple[int, int], int] = {}
    for period in range(1, len(numbers) // 2 + 1):
        start = 0
        while start + period < len(numbers):
            end = start
            while end + period < len(numbers) and numbers[end] == numbers[end + period]:
                end += 1
            if end - start >= period:
                all_runs.setdefault(
                    (start, end + period), period
                )  # keeps the shortest period, because multiples of a period come later
            start = end + 1
    return {(*run, period) for run, period in all_runs.items() if run[1] - run[0] - period >= shortest}


def test_two_and_a_half_periods() -> None:
    assert found([4, 1, 2, 1, 2, 1, 3], 2) == {(1, 6, 2)}
    assert found([4, 1, 2, 1, 2, 1, 3], 4) == found([], 1) == found([5], 1) == set()


@pytest.mark.parametrize("seed", range(8))
def test_all_runs_are_found(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(50):
        word = [rng.randrange(rng.randint(1, 4)) for _ in range(rng.randint(1, 30))]
        numbers = (word * rng.randint(1, 4))[: rng.randint(1, 60)] + word[: rng.randint(0, 9)]
        shortest = rng.randint(1, 8)
        assert found(numbers, shortest) == expected(numbers, shortest), (numbers, shortest)


def test_layers_of_many_ops() -> None:
    started = time.process_time()
    assert found(LAYERS, 80) == {(0, len(LAYERS), 140)}
    assert time.process_time() - started < 5  # `runs` takes 0.1 s; the method of `expected` takes minutes
