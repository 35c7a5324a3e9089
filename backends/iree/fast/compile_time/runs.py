"""runs: finds the periodic parts of a sequence of numbers.

    numbers  4 1 2 1 2 1 3   ->   a run from index 1 to 6 (exclusive), of period 2

A run is a part of the sequence with a period p: it has at least 2 p numbers, each number in it equals the one p indices
later, if this is in the part, and the part cannot be extended. A sequence has fewer runs than numbers. A run of period
p contains a Lyndon word of length p that begins at one of the run's first p indices. The word ends where the next
smaller suffix of the sequence begins, in the order of the numbers or in the reverse order. From the word, the run
extends in both directions as long as the numbers equal the numbers one period later.

Source: Bannai, I, Inenaga, Nakashima, Takeda, Tsuruta, "The 'Runs' Theorem" (2017). The suffixes are ranked by NumPy:
substrings of 1, 2, 4, ... numbers are ranked in turn. The ranks also give the length of common prefixes.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Runs(NamedTuple):
    """The start (inclusive), the end (exclusive) and the period of each run, as arrays of integers."""

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    periods: NDArray[np.int64]


def runs(numbers: Sequence[int], shortest: int) -> Runs:
    """Finds the runs in which at least `shortest` numbers equal the number one period earlier."""
    given = np.asarray(numbers, np.int64)
    ranks = _ranks(given, shortest)
    if ranks is None:
        return Runs(*np.zeros((3, 0), np.int64))
    suffixes = ranks[-1]
    found = []
    for order in (suffixes, -suffixes):
        first = np.arange(len(given))
        second = _next_smaller(order.tolist())
        within = second < len(given)
        first, second = first[within], second[within]
        starts = first - _equal_before(ranks, first, second)
        ends = second + _equal_after(ranks, first, second)
        periods = second - first
        long = (ends - starts >= 2 * periods) & (ends - starts - periods >= shortest)
        found.append(np.stack([starts, ends, periods])[:, long])
    each = {tuple(run) for some in found for run in some.T.tolist()}
    return Runs(*np.array(sorted(each), np.int64).reshape(-1, 3).T)


def _ranks(numbers: NDArray[Any], shortest: int) -> list[NDArray[Any]] | None:
    """For k = 0, 1, ..., the ranks of the substrings of 2^k numbers that begin at each index, until all ranks differ.

    Near the end of the sequence, substrings are shorter; a prefix of another substring has a lower rank. Returns None
    if no two substrings of `shortest` numbers are equal.
    """
    ranks = [np.unique(numbers, return_inverse=True)[1]]
    size = 1
    while ranks[-1].max(initial=0) < len(numbers) - 1:
        after = np.zeros(len(numbers), np.int64)
        after[:-size] = ranks[-1][size:] + 1
        ranks.append(np.unique(ranks[-1] * (len(numbers) + 1) + after, return_inverse=True)[1])
        size *= 2
    return ranks if size > shortest else None


def _next_smaller(values: Sequence[int]) -> NDArray[Any]:
    """For each index, the next index with a smaller value, or the length of the sequence if there is none."""
    places = np.empty(len(values), np.int64)
    waiting = [(min(values, default=0) - 1, len(values))]
    for i in range(len(values) - 1, -1, -1):
        while waiting[-1][0] > values[i]:
            waiting.pop()
        places[i] = waiting[-1][1]
        waiting.append((values[i], i))
    return places


def _equal_after(ranks: Sequence[NDArray[Any]], first: NDArray[Any], second: NDArray[Any]) -> NDArray[Any]:
    """For each pair of indices, the length of the longest equal substrings that begin at the two indices.

    The indices in `first` are less than those in `second`. `ranks` comes from `_ranks`.
    """
    length, n = np.zeros_like(first), len(ranks[0])
    for k in reversed(range(len(ranks))):
        fits = second + length + 2**k <= n
        at = np.where(fits, length, 0)
        length += (fits & (ranks[k][first + at] == ranks[k][second + at])) * 2**k
    return length


def _equal_before(ranks: Sequence[NDArray[Any]], first: NDArray[Any], second: NDArray[Any]) -> NDArray[Any]:
    """For each pair of indices, the length of the longest equal substrings that end before the two indices.

    The indices in `first` are less than those in `second`. `ranks` comes from `_ranks`.
    """
    length = np.zeros_like(first)
    for k in reversed(range(len(ranks))):
        fits = first - length - 2**k >= 0
        at = np.where(fits, length + 2**k, 0)
        length += (fits & (ranks[k][first - at] == ranks[k][second - at])) * 2**k
    return length
