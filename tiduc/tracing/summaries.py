"""summaries: norms, extremes, and counts of NaNs and infinities of arrays. Values in loops have them per iteration."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tiduc.runtime.arrays import Array

_AT_ONCE = 2**20  # the number of elements that are converted to f64 together, to save memory

Numbers = NDArray[np.float64]


@dataclass
class Summary:
    """Facts about the arrays of one value. All fields have one dimension for each loop around the value.

    `norm` is the Euclidean norm. `low` and `high` are the least and the greatest finite element, or NaN if no element
    is finite. For complex elements, they are those of the absolute values. `ran` states in which iterations the value
    was computed. In other iterations, the other fields are 0.
    """

    shape: tuple[int, ...]  # the shape of the value in one iteration
    ran: NDArray[np.bool_]
    norm: Numbers = field(init=False)
    low: Numbers = field(init=False)
    high: Numbers = field(init=False)
    nans: NDArray[np.int64] = field(init=False)
    infinities: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        sizes = self.ran.shape
        self.norm, self.low, self.high = (np.zeros(sizes) for _ in range(3))
        self.nans, self.infinities = (np.zeros(sizes, np.int64) for _ in range(2))

    def add(self, array: Array, at: slice = slice(None)) -> None:
        """Fills the fields for `array`, which holds the values of the iterations `at` of the outermost loop.

        Outside of loops, `array` is the value itself, and `at` is ignored.
        """
        inner = self.ran.ndim
        sizes, of = array.shape[:inner], array.shape[inner:]
        rows = array.reshape((int(np.prod(sizes)), int(np.prod(of))))
        step = max(1, _AT_ONCE // max(1, rows.shape[1]))
        parts = [_facts(rows[i : i + step]) for i in range(0, len(rows), step)]
        at_all: Any = at if inner else ()
        fields = (self.norm, self.low, self.high, self.nans, self.infinities)
        for into, facts in zip(fields, zip(*parts, strict=True), strict=True):
            whole = np.concatenate(facts).reshape(sizes)
            into[at_all] = np.where(self.ran[at_all], whole, 0)


def _facts(rows: Array) -> tuple[NDArray[Any], ...]:
    """Computes the norm, the least and greatest finite element, and the numbers of NaNs and infinities of each row."""
    wide = np.abs(rows.astype(np.complex128)) if rows.dtype.kind == "c" else rows.astype(np.float64)
    finite = np.isfinite(wide)
    some = finite.any(1)
    low = np.where(some, np.min(wide, 1, initial=np.inf, where=finite), np.nan)
    high = np.where(some, np.max(wide, 1, initial=-np.inf, where=finite), np.nan)
    return _norms(wide), low, high, np.isnan(wide).sum(1), np.isinf(wide).sum(1)


def _norms(rows: Numbers) -> Numbers:
    """Returns the Euclidean norm of each row.

    The squares neither overflow nor underflow, because the rows are scaled first.
    """
    largest = np.max(np.abs(rows), 1, initial=0.0)
    scale = np.where((largest > 0) & np.isfinite(largest), largest, 1.0)
    norms: Numbers = scale * np.sqrt(np.sum(np.square(rows / scale[:, None]), 1))
    return norms
