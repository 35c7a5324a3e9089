"""segments: nested segments of the ops before a peak, whose values are recomputed together.

    x1 x2 x3 x4 x5 x6 | c6 c5 c4 c3 c2 c1      ->      [x1 x2 [x3 x4]] [x5 x6] |      cuts before x5, then before x3

Readers after the peak read the last segment first, so earlier segments are recomputed later, one by one. A cut divides
a segment into two parts. Values that cross the cut are stored while the segment is recomputed. The first part can use
all memory of the segment; the second part, the memory without the crossing values. If the values of a part exceed its
memory, the part is cut again, and its values are recomputed once more.

Assume memory for s values, one of which each cut stores. With t recomputations of each value, C(s + t, t) values can be
recomputed: this is the binomial schedule. The cuts of segments are placed near the cuts of this schedule, where the
fewest bytes cross. For chains of equal layers, the binomial schedule is optimal: Griewank, Walther, "Algorithm 799:
revolve" (2000).
"""

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Segment = tuple[int, int]
"""The places of a segment: the first one, and the one after the last."""

MOST_RUNS = 8
"""The largest number of recomputations of a value for which the cuts of a segment are planned."""

_LEAST, _MOST = 0.5, 1.1
"""The least and the greatest length of a segment's first part, as multiples of the wanted length."""

_RARE = 10
"""The planner assumes that one place in this many is a good place for a cut: few bytes cross there."""


@dataclass(frozen=True)
class Candidate:
    """An op before the peak that can run again: its place, and the place of its last reader before the peak.

    `size` is the size of its results in bytes; `held` is this size if readers after the peak keep the results alive,
    else 0. `price` is the time of the op per byte of its results.
    """

    op: int
    last: int
    size: int
    held: int
    price: float


class Segments:
    """Divides the ops before a peak into nested segments. `candidates` are the values that may be recomputed."""

    def __init__(self, candidates: Sequence[Candidate], peak: int) -> None:
        self.candidates, self.peak = candidates, peak
        crossing, stored, held = np.zeros(peak + 2), np.zeros(peak + 2), np.zeros(peak + 2)
        for c in candidates:
            crossing[c.op + 1] += c.size
            crossing[c.last + 1] -= c.size
            stored[c.op + 1] += c.held
            stored[c.last + 1] -= c.held
            held[c.op + 1] += c.held
        # For each place: the bytes that cross a cut before it, those of them that are held, and all bytes held so far.
        self.crossing: NDArray[np.float64] = np.cumsum(crossing)
        self.stored: NDArray[np.float64] = np.cumsum(stored)
        self.held: NDArray[np.float64] = np.cumsum(held)

    def within(self, memory: float) -> Mapping[int, Segment] | None:
        """Maps the candidates that are recomputed to their segments, for `memory` bytes. Returns None without cuts.

        A value belongs to the smallest segment that contains its readers before the peak. Values that cross cuts of the
        last segments are not recomputed, because their first run is right before the peak.
        """
        cuts: dict[int, Segment] = {}  # maps each cut to the segment that it divides, outer segments first
        stack = [(0, self.peak, memory)]
        while stack:
            first, end, bytes_ = stack.pop()
            length = self._length(first, end, bytes_)
            if length is not None:
                cut = self._cut(first, end, length)
                cuts[cut] = first, end
                stack += [(first, cut, bytes_), (cut, end, bytes_ - self.crossing[cut])]
        return self._by_op(cuts) if cuts else None

    def whole(self) -> Mapping[int, Segment]:
        """All candidates, in one segment."""
        return self._by_op({})

    def _by_op(self, cuts: Mapping[int, Segment]) -> Mapping[int, Segment]:
        """Maps the op of each candidate to its segment. Omits values that cross cuts of the last segments."""
        places = sorted(cuts)
        bounds = [0, *places, self.peak]
        number = {place: i for i, place in enumerate(cuts)}
        segments: dict[int, Segment] = {}
        for c in self.candidates:
            before, after = bisect_right(places, c.op), bisect_right(places, c.last)
            if before == after:
                segments[c.op] = bounds[before], bounds[before + 1]
            else:
                segment = cuts[min(places[before:after], key=number.__getitem__)]
                if segment[1] < self.peak:
                    segments[c.op] = segment
        return segments

    def _length(self, first: int, end: int, memory: float) -> float | None:
        """Returns how many bytes the first part of a segment should hold, or None if no cut is needed or possible."""
        across = self.crossing[first + 1 : end]
        own = self.held[end] - self.held[first] - (self.stored[end] if end < self.peak else 0)
        if own <= memory or not len(across):
            return None
        rare = len(across) // _RARE
        unit = max(1.0, float(np.partition(across, rare)[rare]))  # the unit of crossing bytes
        slots, values = int(memory / unit), math.ceil(own / unit) + 1
        if slots < 1:
            return None
        runs = 2
        while runs < MOST_RUNS and math.comb(slots + runs, runs) < values:
            runs += 1
        rest = values - math.comb(slots + runs - 2, runs - 1)
        return float(unit * max(1, min(math.comb(slots + runs - 1, runs - 1), rest)))

    def _cut(self, first: int, end: int, length: float) -> int:
        """Returns the place at which to cut a segment: where the fewest bytes cross, near `length` held bytes."""
        least, near, most = (
            int(np.searchsorted(self.held, self.held[first] + share * length)) for share in (_LEAST, 1, _MOST)
        )
        near = min(max(near, first + 1), end - 1)
        least, most = min(max(least, first + 1), near), max(min(most, end - 1), near)
        window = self.crossing[least : most + 1]
        places = np.flatnonzero(window == window.min()) + least
        return int(places[np.abs(places - near).argmin()])
