"""Arithmetic on sizes that are static (int) or dynamic (`RunTimeSize`), with Python's operators.

(n - 1) // 2 + 1        an int if n is an int; else a `RunTimeSize`, whose ops are emitted where the size is read
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeGuard, TypeVar

from torch_mlir import ir

from tiduc.dialect.ops.ir_types import IrValue

_NEUTRAL = {"addi": 0, "subi": 0, "muli": 1, "floordivsi": 1}
"""For each op, the neutral second operand: with it, the op returns its first operand."""


class EmitsIndices(Protocol):
    """An emitter of ops on indices, such as a `Kernel`."""

    def index(self, n: "int | RunTimeSize | IrValue") -> IrValue: ...
    def arith(self, name: str, *xs: "int | RunTimeSize | IrValue") -> IrValue: ...
    def equal(self, x: "int | RunTimeSize | IrValue", y: "int | RunTimeSize | IrValue") -> IrValue: ...
    def select_scalar(
        self, condition: IrValue, x: "int | RunTimeSize | IrValue", y: "int | RunTimeSize | IrValue"
    ) -> IrValue: ...


@dataclass(frozen=True)
class RunTimeSize:
    """A size, or another integer, that is known only at run time.

    `at(kernel)` emits the ops that compute the integer, and returns a value of type index.
    """

    at: Callable[[EmitsIndices], IrValue]

    def __add__(self, n: "int | RunTimeSize") -> "RunTimeSize":
        return _computed("addi", self, n)

    def __sub__(self, n: "int | RunTimeSize") -> "RunTimeSize":
        return _computed("subi", self, n)

    def __mul__(self, n: "int | RunTimeSize") -> "RunTimeSize":
        return _computed("muli", self, n)

    def __floordiv__(self, n: "int | RunTimeSize") -> "RunTimeSize":
        return _computed("floordivsi", self, n)

    def __mod__(self, n: int) -> "RunTimeSize":
        return _computed("remsi", self, n)

    def __rsub__(self, n: int) -> "RunTimeSize":
        return _computed("subi", n, self)

    def __rfloordiv__(self, n: int) -> "RunTimeSize":
        return _computed("floordivsi", n, self)

    __radd__, __rmul__ = __add__, __mul__


SizeLike = int | RunTimeSize
"""The type of sizes: an integer if the size is static, and otherwise a `RunTimeSize`."""


N = TypeVar("N", bound=SizeLike, covariant=True)
"""The type of sizes in generic records: `int` when a dispatch is planned, `SizeLike` when its code is emitted."""


def are_known(sizes: Sequence[SizeLike]) -> TypeGuard[Sequence[int]]:
    """Whether all sizes are integers."""
    return all(isinstance(n, int) for n in sizes)


def known(n: SizeLike) -> int:
    """Asserts that the size n is static, and returns it."""
    assert isinstance(n, int)
    return n


IndexLike = SizeLike | IrValue
"""The types that `Kernel.index` converts to a value of type index."""


def read(value: IrValue) -> RunTimeSize:
    """Returns a value of type index as a size."""
    return RunTimeSize(lambda _: value)


def larger(m: SizeLike, n: SizeLike) -> SizeLike:
    """The larger of m and n."""
    return max(m, n) if isinstance(m, int) and isinstance(n, int) else _computed("maxsi", m, n)


def smaller(m: SizeLike, n: SizeLike) -> SizeLike:
    """The smaller of m and n."""
    return min(m, n) if isinstance(m, int) and isinstance(n, int) else _computed("minsi", m, n)


def broadcast(m: SizeLike, n: SizeLike) -> SizeLike:
    """The size to which two dimensions of sizes m and n are broadcast: n if m is 1, else m."""
    if isinstance(m, int):
        return n if m == 1 else m
    return RunTimeSize(lambda k: k.select_scalar(k.equal(m.at(k), k.index(1)), k.index(n), m.at(k)))


def clamped(n: SizeLike, most: SizeLike) -> SizeLike:
    """n, clamped to [0, most]."""
    return larger(smaller(n, most), 0)


def with_static_sizes(type_: ir.RankedTensorType, sizes: Sequence[SizeLike]) -> list[SizeLike]:
    """The sizes of an array of this type: the static sizes of the type, and `sizes[d]` for each dynamic dimension d."""
    return [m if m >= 0 else n for m, n in zip(type_.shape, sizes, strict=True)]


def padded(sizes: Sequence[SizeLike], *paddings: Sequence[SizeLike]) -> list[SizeLike]:
    """The sizes of an array after padding. `paddings` are (low, high, interior), as in `stablehlo.pad`."""
    return [
        n + larger(n - 1, 0) * interior + (low + high)
        for n, low, high, interior in zip(sizes, *paddings, strict=True)
    ]


def window_count(n: SizeLike, size: int, stride: int, dilation: int) -> SizeLike:
    """The number of windows of `size` elements along a dimension of n elements, including padding."""
    return larger((n - ((size - 1) * dilation + 1)) // stride + 1, 0)


def _computed(name: str, m: SizeLike, n: SizeLike) -> RunTimeSize:
    if isinstance(m, RunTimeSize) and isinstance(n, int) and n == _NEUTRAL.get(name):
        return m
    return RunTimeSize(lambda k: k.arith(name, *map(k.index, (m, n))))
