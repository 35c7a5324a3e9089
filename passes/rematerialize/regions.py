"""regions: chooses where to divide a schedule into two execution regions, of which the second allocates its results.

    x1 x2 x3 c3 g3 c2 g2 c1 g1     ->     x1 x2 x3 c3 g3 | c2 g2 c1 g1        g2 and g1 are allocated at |

IREE allocates all results of an execution region before the region runs. The pass `late_results` for IREE can end a
region in the middle of a program. The values that pass from the first region to the second share one allocation, which
is live in both. All other values are live between their op and their last reader. Arrays in this file have one entry
per place in the schedule. Finding the best place takes linear time in the length of the schedule.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_SMALL = 2**20
"""A program becomes two regions only if the peak falls by at least this many bytes."""

_GAIN = 0.98
"""A program becomes two regions only if the peak, without arguments, falls to this share or less."""

_MOST = 128
"""The largest number of places for which the peak of a division is computed. Most schedules need fewer than five."""

Bytes = NDArray[np.float64]
"""Bytes by place in the schedule. They are floats, because sizes in invalid programs may exceed 64 bits."""


@dataclass(frozen=True)
class Spans:
    """For each place of a schedule, the sizes of the values that its op computes, and how long they are live.

    `last` is the place of the last reader. `results` are the bytes of program results, `taken` those of other values,
    and `inside` further bytes that are live only while the op runs.
    """

    last: NDArray[np.int64]
    taken: Bytes
    results: Bytes
    inside: Bytes

    def live(self) -> Bytes:
        """The live bytes besides arguments and results, if the schedule is one region."""
        return _live(self.taken, self.last) + self.inside

    def live_in_two(self, end: int) -> Bytes:
        """The live bytes besides arguments and results, if a region ends after the place `end`.

        At places of the first region, the bytes of results of the second region are subtracted, because the caller adds
        the bytes of all results.
        """
        places = np.arange(len(self.last))
        passes = (places <= end) & (self.last > end)
        own = _live(np.where(passes, 0, self.taken), self.last) + self.inside
        late = np.where(places <= end, self.results[end + 1 :].sum(), 0)
        return np.asarray(own + self.taken[passes].sum() - late, np.float64)


def _live(taken: Bytes, last: NDArray[np.int64]) -> Bytes:
    """The live bytes at each place. The value at place i is live from i to `last[i]`."""
    change = np.append(taken, 0)
    np.subtract.at(change, last + 1, taken)
    live: Bytes = np.cumsum(change)[:-1]
    return live


def best_end(spans: Spans, ends: Sequence[int]) -> tuple[float, int] | None:
    """Returns the lowest peak besides arguments, and the place in `ends` after which a region must end to reach it.

    Returns None if two regions would save too few bytes. Each place has a lower bound of the peak, because values that
    are live with one region are also live with two. The peaks of at most `_MOST` places are computed, in the order of
    their bounds, until a bound is not below the lowest peak so far.
    """
    total = spans.results.sum()
    if total < _SMALL or not len(ends):
        return None
    computed, live = np.cumsum(spans.results), spans.live()
    whole = total + live.max(initial=0)
    best = min(whole - _SMALL, _GAIN * whole)
    if (computed + live).max(initial=0) >= best:  # results are allocated once they are computed
        return None
    before = np.maximum.accumulate(live)
    after = np.append(np.maximum.accumulate(live[:0:-1])[::-1], 0)
    bounds, found = np.maximum(computed + before, total + after)[ends], None
    for i in bounds.argsort(kind="stable")[:_MOST].tolist():
        if bounds[i] >= best:
            break
        peak = total + spans.live_in_two(ends[i]).max()
        if peak < best:
            best, found = peak, (float(peak), ends[i])
    return found
