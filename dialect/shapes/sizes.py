"""Symbolic sizes of dynamic dimensions: where each size is read, and arithmetic on sizes.

    %0 = stablehlo.tanh %x : tensor<?x4xf64>             sizes of %1: the size of dimension 0 of %x, then 3
    %1 = stablehlo.dot_general %0, %w : tensor<?x3xf64>

The shape rules of `origins.py` trace a dynamic size to where the program can read it: from an input of the program,
from the result of an op that determines its own sizes, or from an operand that holds a shape. The size of a tangent is
traced to its primal, so a transposed graph never reads the size of a tangent. A `Size` is not an op: a builder emits
the ops that compute the size when a program needs it.

A `Size` is a sum of integer multiples of atoms, plus a constant. An atom is a size that the program reads, or a
product, quotient, maximum or broadcast of two sizes. In this normal form, most equal sizes compare equal. If a rule
needs a dynamic size as a number, the conversion raises `UnknownSize`.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tiduc.dialect.errors import UnknownSize

Atom = tuple[str, Any, Any]
"""A size that is read, or an operation on two sizes.

A size that is read is ("dimension", value, d), ("entry", vector, i) or ("scalar", value, None). An operation is
(kind, key, key): its kind is "product", "quotient", "maximum" or "broadcast", and each `Key` is a size.
"""

Key = tuple[tuple[tuple[Atom, int], ...], int]
"""A sum of atoms: pairs of an atom and its factor, in order of appearance, and the constant term."""


class Size:
    """The size of a dynamic dimension.

    A comparison raises `UnknownSize` unless the difference of the two sizes is a known number. A conversion to int
    always raises `UnknownSize`.
    """

    __slots__ = ("key",)

    def __init__(self, key: Key) -> None:
        self.key = key

    def __add__(self, other: "int | Size") -> Any:
        return _sum([(self, 1), (other, 1)])

    def __sub__(self, other: "int | Size") -> Any:
        return _sum([(self, 1), (other, -1)])

    def __rsub__(self, other: "int | Size") -> Any:
        return _sum([(self, -1), (other, 1)])

    def __neg__(self) -> Any:
        return _sum([(self, -1)])

    def __mul__(self, other: "int | Size") -> Any:
        if isinstance(other, Size):
            return atom("product", self.key, other.key)
        return _sum([(self, int(other))])

    def __floordiv__(self, other: "int | Size") -> Any:
        if isinstance(other, Size):
            return 1 if known_equal(self, other) else atom("quotient", self.key, other.key)
        terms, constant = self.key
        if all(n % other == 0 for n in (*(factor for _, factor in terms), constant)):
            return Size((tuple((a, factor // other) for a, factor in terms), constant // other))
        return atom("quotient", self.key, ((), int(other)))

    def __rfloordiv__(self, other: int) -> Any:
        return atom("quotient", ((), int(other)), self.key)

    __radd__ = __add__
    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        return self._compared(other, lambda n: n == 0)

    def __lt__(self, other: "int | Size") -> bool:
        return self._compared(other, lambda n: n < 0)

    def __le__(self, other: "int | Size") -> bool:
        return self._compared(other, lambda n: n <= 0)

    def __gt__(self, other: "int | Size") -> bool:
        return self._compared(other, lambda n: n > 0)

    def __ge__(self, other: "int | Size") -> bool:
        return self._compared(other, lambda n: n >= 0)

    def __int__(self, *_: object) -> Any:
        raise self._unknown()

    __index__ = __float__ = __bool__ = __hash__ = __int__
    __mod__ = __rmod__ = __pow__ = __rpow__ = __truediv__ = __rtruediv__ = __int__

    def __repr__(self) -> str:
        return f"<dynamic size {self.key}>"

    def _compared(self, other: Any, holds: Callable[[int], bool]) -> bool:
        difference = self - other
        if isinstance(difference, Size):
            raise self._unknown()
        return holds(difference)

    def _unknown(self) -> UnknownSize:
        value = next((value for (kind, value, _), _ in self.key[0] if kind == "dimension"), None)
        of = f" of {value.type}" if value is not None else ""
        return UnknownSize(
            f"the rule would need a size{of} that is known only at run time; make shapes static with "
            "stablehlo-refine-shapes"
        )


Extent = int | Size
"""The size of a dimension: a number, or a `Size` if the dimension is dynamic."""


def atom(kind: str, of: Any, where: Any = None) -> Size:
    """The `Size` that consists of one atom."""
    return Size(((((kind, of, where), 1),), 0))


def positive(n: Extent) -> Any:
    """Returns max(n, 0). The result is n itself if n is a `Size` that is known not to be negative."""
    if not isinstance(n, Size):
        return max(n, 0)
    terms, constant = n.key
    if constant >= 0 and all(a[0] in ("dimension", "maximum") and factor > 0 for a, factor in terms):
        return n
    return atom("maximum", n.key, ((), 0))


def known_equal(a: Extent, b: Extent) -> bool:
    """Whether two sizes are certain to be equal. Unlike `==`, never raises `UnknownSize`."""
    if isinstance(a, Size) or isinstance(b, Size):
        difference = a - b
        return not isinstance(difference, Size) and difference == 0
    return bool(a == b)


def any_dynamic(*lists: Iterable[Extent]) -> bool:
    """Whether a size in one of the lists is a `Size`."""
    return any(isinstance(n, Size) for sizes in lists for n in sizes)


def product(sizes: Sequence[Extent]) -> Any:
    """The number of elements in an array of these sizes."""
    count: Any = 1
    for n in sizes:
        count = count * n
    return count


def _sum(parts: Sequence[tuple[Extent, int]]) -> Any:
    """The sum of size * factor over the pairs (size, factor) in `parts`; an int if all atoms cancel."""
    terms: dict[Atom, int] = {}
    constant = 0
    for part, factor in parts:
        if isinstance(part, Size):
            for a, n in part.key[0]:
                terms[a] = terms.get(a, 0) + factor * n
            constant += factor * part.key[1]
        else:
            constant += factor * int(part)
    left = tuple((a, n) for a, n in terms.items() if n)
    return Size((left, constant)) if left else constant
