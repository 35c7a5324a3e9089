"""`Parts`: a number of items divided into parts of nearly equal size."""

from dataclasses import dataclass
from typing import Generic

from tiduc.backends.iree.emit.sizes import N, SizeLike, smaller


@dataclass(frozen=True)
class Parts(Generic[N]):
    """A number of items in `count` parts: first `more` parts of `low` + 1 items each, then parts of `low` items."""

    count: N
    low: N
    more: N

    @property
    def numbers(self) -> tuple[N, N, N]:
        """The fields, for the code of a kernel, which reads them at run time."""
        return self.count, self.low, self.more

    def start(self, i: SizeLike) -> SizeLike:
        """The index of the first item in part i."""
        return i * self.low + smaller(i, self.more)

    def size(self, i: SizeLike) -> SizeLike:
        """The number of items in part i."""
        return self.start(i + 1) - self.start(i)


def parts(n: int, most: int, least: int = 1) -> Parts[int]:
    """Divides n items into the fewest parts of at most `most` items, but into at least min(`least`, n) parts."""
    count = max(-(-n // most), min(n, least))
    return Parts(count, *divmod(n, count))


def parts_in_vectors(n: int, most: int, vector: int) -> Parts[int]:
    """Divides n items into the fewest parts of equal size. The size is a multiple of `vector`, and at most `most`.

    n and `most` must be multiples of `vector`.
    """
    size = next(size for size in range(most, 0, -vector) if n % size == 0)
    return parts(n, size)
