"""regions: where an execution region of a schedule ends, so that the results after it are allocated when it has ended.

    x1 x2 x3 c3 g3 c2 g2 c1 g1     ->     x1 x2 x3 c3 g3 | c2 g2 c1 g1        g2 and g1 are allocated at |

IREE allocates all results of a region before the region runs, and `tiduc compile` ends a region amid a program
(`backends/iree/fast/late_results.py`). The values that pass from the first region to the second share one allocation,
which is live in both. In each region, the values that only its own ops read are live beside it. All figures are by
place in the schedule. The best place takes time that is almost linear in the length of the schedule.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_SMALL = 2**20
"""A region ends amid a program only if the peak falls by so many bytes."""

_GAIN = 0.98
"""A region ends amid a program only if the peak, without arguments, falls to this share."""

Bytes = NDArray[np.float64]
"""Bytes by place; floats, since sizes of invalid programs exceed 64 bits."""


@dataclass(frozen=True)
class Spans:
    """The values of a schedule, by the places of their ops.

    `last` is the place of the last reader. `results` are the bytes of results of the program, `taken` the bytes of
    other values, and `inside` further bytes that are live at the op only.
    """

    last: NDArray[np.int64]
    taken: Bytes
    results: Bytes
    inside: Bytes

    def live(self) -> Bytes:
        """The live bytes beside arguments and results, where the schedule is one region."""
        return _live(self.taken, self.last) + self.inside

    def live_in_two(self, end: int) -> Bytes:
        """The live bytes beside arguments and results, where a region ends after a place.

        In the first region they are fewer, by the bytes of the results that are allocated later.
        """
        places = np.arange(len(self.last))
        passes = (places <= end) & (self.last > end)
        own = _live(np.where(passes, 0, self.taken), self.last) + self.inside
        late = np.where(places <= end, self.results[end + 1 :].sum(), 0)
        return np.asarray(own + self.taken[passes].sum() - late, np.float64)


def _live(taken: Bytes, last: NDArray[np.int64]) -> Bytes:
    """The bytes of values at each place, if each value is live from its own place to its last one."""
    change = np.append(taken, 0)
    np.subtract.at(change, last + 1, taken)
    live: Bytes = np.cumsum(change)[:-1]
    return live


def best_end(spans: Spans, ends: Iterable[int]) -> tuple[float, int] | None:
    """The lowest peak beside arguments, and the place, of `ends`, after which a region then ends.

    None if one region takes about as little.
    """
    total = spans.results.sum()
    if total < _SMALL:
        return None
    computed, live = np.cumsum(spans.results), spans.live()
    whole = total + live.max(initial=0)
    best = min(whole - _SMALL, _GAIN * whole)
    if (computed + live).max(initial=0) >= best:  # results that are computed are allocated
        return None
    places, found = np.arange(len(live)), None
    passed = _live(spans.taken, spans.last - 1)
    starts = _peaks_of_starts(places, spans.last, spans.taken, spans.inside)
    # The values live in the second region are those live in the first region of the reversed schedule.
    back = len(live) - 1 - places
    rests = [0.0, *_peaks_of_starts(back[spans.last], back, spans.taken, spans.inside[::-1])][-2::-1]
    for place in ends:
        peak = passed[place] + max(computed[place] + starts[place], total + rests[place])
        if peak < best:
            best, found = peak, (float(peak), place)
    return found


def _peaks_of_starts(
    first: NDArray[np.int64], last: NDArray[np.int64], taken: Bytes, inside: Bytes
) -> list[float]:
    """For each place, the most bytes that are live at once, up to the place, of the values that are not read later.

    A value that ends at a place adds to the bytes at all places from its first one up to this one. A place with no more
    bytes than a later one never has more again, and is dropped. The others keep the difference of their bytes to those
    of the next one, so that a value changes two differences. (Gabow and Tarjan, 1985, find minima offline in this way.)
    """
    count, peaks = len(inside), list[float]()
    is_begin = inside != 0
    is_begin[1:] |= inside[:-1] < 0  # a loop takes the memory of an array that is read at the next place
    is_begin[first[taken > 0]] = True
    begins, at_op = is_begin.tolist(), inside.tolist()
    # By place, counted from 1: the difference, the place before and after, and a place up to which all are dropped.
    more, before, after = [0.0] * (count + 1), [0] * (count + 1), [0] * (count + 1)
    below = list(range(-1, count))
    order = [i for i in np.argsort(last, kind="stable").tolist() if taken[i]]
    firsts, lasts, sizes = first[order].tolist(), [*last[order].tolist(), count], taken[order].tolist()
    peak, newest, ended = 0.0, 0, 0

    def add(x: int, bytes_: float) -> float:
        """Adds bytes to all places after x; gives the change of the peak."""
        more[newest] += bytes_
        if not x:
            return bytes_
        more[x] -= bytes_
        while x and more[x] <= 0:  # the next place has as many bytes
            earlier, later = before[x], after[x]
            below[x], after[earlier], before[later] = earlier, later, earlier
            if not earlier:
                return -more[x]
            more[earlier] += more[x]
            x = earlier
        return 0.0

    for place in range(count):
        if begins[place]:
            x, newest = newest, place + 1
            before[newest], after[x], below[newest] = x, newest, newest
            peak += add(x, at_op[place])
        while lasts[ended] == place:
            x = firsts[ended]  # from 1, this is the place before
            while below[x] != x and x:
                below[x] = below[below[x]] if below[x] else 0
                x = below[x]
            peak += add(x, sizes[ended])
            ended += 1
        peaks.append(max(peak, 0.0))
    return peaks
