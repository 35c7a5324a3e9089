"""Shared by the factorizations: batches of matrices, masks, indices, numbers, and settings of calls."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from torch_mlir import ir

from tiduc.backends.iree.emitter import Emitter, signless
from tiduc.backends.iree.refused import refused
from tiduc.dialect.lapack import Settings
from tiduc.dialect.types import element, is_complex, is_open, shape, with_element, with_shape

BLOCK = 32
"""The columns, or rows, done one by one before a product of matrices does the rest of the work."""


def blocks(n: int) -> int:
    """The number of blocks for n columns; a small matrix is one block."""
    return 1 if n <= 2 * BLOCK else -(-n // BLOCK)


def batched(b: Emitter, x: Any) -> Any:
    """Matrices with one batch dimension; f16 and bf16, which would lose too much, become f32."""
    *batch, n, m = shape(x)
    if not is_complex(x) and element(x).width < 32:
        x = b.convert(x, ir.F32Type.get())
    return b.reshape(x, [math.prod(batch), n, m])


def vectors(b: Emitter, x: Any) -> Any:
    """Vectors with one batch dimension."""
    *batch, n = shape(x)
    return b.reshape(x, [math.prod(batch), n])


def restored(b: Emitter, x: Any, type_: Any) -> Any:
    """x in the shape and element type of a result."""
    return b.convert(b.reshape(x, type_.shape), element(type_))


def checked(op: Any) -> Any:
    """The op; raises `Unsupported` if an operand has a dynamic shape."""
    if any(is_open(x.type) for x in op.operands):
        raise refused(op, "its sizes are open")
    return op


def settings(op: Any) -> Settings:
    """The settings of a call by name, as plain values; characters are integers.

    Raises `Unsupported` for a call without settings.
    """
    found = Settings(op.attributes, partial(refused, op))
    if not found:
        raise refused(op, "its backend_config is not a dictionary")
    return found


def setting(op: Any, letter: str, flag: str) -> bool | str:
    """A setting that LAPACK gives as a letter, and other libraries as a flag."""
    given = settings(op)
    if flag in given:
        return bool(given[flag])
    if letter in given:
        return chr(given[letter])
    raise refused(op, f"its backend_config has no {letter} or {flag}")


def is_lower(op: Any) -> bool:
    """Whether the call reads the lower triangle."""
    return setting(op, "uplo", "lower") in (True, "L")


# ---- masks and places ---------------------------------------------------------------------------------------


def places(b: Emitter, x: Any, dimension: int) -> Any:
    """The index of each element along a dimension, as i32."""
    return b.iota(dimension, with_element(x.type, signless(32)))


def spread(b: Emitter, x: Any, dimensions: Any, like: Any) -> Any:
    """x broadcast along dimensions of the shape of another value."""
    return b.broadcast_in_dim(x, dimensions, with_element(like.type, element(x)))


def everywhere(b: Emitter, x: Any, like: Any) -> Any:
    """A value for each batch, broadcast to the shape of another value; further dimensions of x have size 1."""
    return spread(b, x, range(len(shape(x))), like)


def compared(b: Emitter, numbers: Any, number: Any, direction: str) -> Any:
    """Compares indices with one index: a scalar, or one for each batch."""
    return b.compare(numbers, everywhere(b, number, numbers), direction)


def on_diagonal(b: Emitter, x: Any) -> Any:
    """Whether each element is on the diagonal."""
    return b.compare(places(b, x, 1), places(b, x, 2), "EQ")


def as_scalar(b: Emitter, number: int) -> Any:
    """An index as a scalar i32."""
    return b.constant(number, ir.RankedTensorType.get([], signless(32)))


def masked(b: Emitter, where: Any, x: Any) -> Any:
    """x where the mask is true, zero elsewhere."""
    return b.select(where, x, b.zeros_like(x))


def diagonal(b: Emitter, x: Any) -> Any:
    """The diagonals of square matrices, as a row for each batch."""
    return summed(b, masked(b, on_diagonal(b, x), x), [2])


def ones(b: Emitter, where: Any, like: Any) -> Any:
    """One where the mask is true, zero elsewhere, in another value's type; Vulkan cannot convert predicates."""
    type_ = with_element(where.type, element(like))
    return b.select(where, b.constant(1, type_), b.constant(0, type_))


def summed(b: Emitter, x: Any, dimensions: Sequence[int]) -> Any:
    """Sums along dimensions; complex ones by parts, since a complex initial value is no constant in IREE."""
    if not is_complex(x):
        return b.reduce_sum(x, dimensions)
    return b.complex(b.reduce_sum(b.real(x), dimensions), b.reduce_sum(b.imag(x), dimensions))


def smallest(b: Emitter, x: Any, dimensions: Any, most: int) -> Any:
    """The least of integers that are at most `most`, along dimensions."""
    return b.reduce(x, b.constant(most, with_shape(x.type, [])), dimensions, "stablehlo.minimum")


def loop(
    b: Emitter, count: int, initial: Sequence[Any], body: Callable[..., Sequence[Any]]
) -> tuple[Any, ...]:
    """The loop-carried values after `body(b, i, *carries)` for each i below `count`."""
    return b.for_(count, initial, body)


# ---- products -----------------------------------------------------------------------------------------------


def product(b: Emitter, x: Any, y: Any) -> Any:
    """The products of matrices, behind a barrier.

    Without the barrier, some subtractions from products of one element do not compile.
    """
    return b.barrier(b.dot_general(x, y, ([0], [0]), ([2], [1]), {}))[0]


def transposed(b: Emitter, x: Any) -> Any:
    """The transposes of a batch of matrices."""
    return b.transpose(x, [0, 2, 1])


def adjoint(b: Emitter, x: Any) -> Any:
    """The adjoints of a batch of matrices."""
    return b.conj(transposed(b, x))


def resized(b: Emitter, x: Any, rows: int, columns: int) -> Any:
    """The first `rows` and `columns` of matrices, filled up with zeros."""
    batch, m, n = shape(x)
    if rows < m or columns < n:
        x = b.slice(x, [0] * 3, [batch, min(m, rows), min(n, columns)], [1] * 3)
    more = [0, max(rows - m, 0), max(columns - n, 0)]
    if not any(more):
        return x
    if is_complex(x):  # complex padding does not always compile
        return b.complex(*(resized(b, part, rows, columns) for part in (b.real(x), b.imag(x))))
    return b.pad(x, b.zero(with_shape(x.type, [])), [0] * 3, more, [0] * 3)


# ---- numbers ------------------------------------------------------------------------------------------------


def real_type(x: Any) -> Any:
    """The element type, or the type of the parts of a complex one."""
    return element(x).element_type if is_complex(x) else element(x)


def epsilon(x: Any) -> float:
    """The distance from 1 to the next number, in the type of the elements or of their parts."""
    return float(np.finfo(np.float64 if real_type(x).width == 64 else np.float32).eps)


def as_element(b: Emitter, x: Any, like: Any) -> Any:
    """Real numbers in the element type of another value."""
    return b.complex(x, b.zeros_like(x)) if is_complex(like) else x


def squares(b: Emitter, x: Any) -> Any:
    """|x|^2."""
    if not is_complex(x):
        return b.multiply(x, x)
    re, im = b.real(x), b.imag(x)
    return b.add(b.multiply(re, re), b.multiply(im, im))


def sizes(b: Emitter, x: Any, both: bool = False) -> Any:
    """The larger of |re| and |im|; with `both` their sum, by which LAPACK compares elements."""
    if not is_complex(x):
        return b.abs(x)
    parts = b.abs(b.real(x)), b.abs(b.imag(x))
    return b.add(*parts) if both else b.maximum(*parts)


def largest(b: Emitter, x: Any, dimensions: Any) -> Any:
    """The maximum along dimensions of numbers that are not negative."""
    return b.reduce(x, b.zero(with_shape(x.type, [])), dimensions, "stablehlo.maximum")


def scale(b: Emitter, x: Any) -> Any:
    """The power of two up to each number, by which to multiply and divide exactly; 1 where there is none."""
    wide = real_type(x).width == 64
    bits = b.bitcast(x, signless(64 if wide else 32))
    exponent = 0x7FF0000000000000 if wide else 0x7F800000
    power = b.and_(bits, b.constant(exponent, bits))
    none = b.or_(
        b.compare(power, b.constant(0, bits), "EQ"), b.compare(power, b.constant(exponent, bits), "EQ")
    )
    return b.select(none, b.constant(1, x), b.bitcast(power, real_type(x)))


def quotient(b: Emitter, x: Any, y: Any) -> Any:
    """x / y without the intermediate overflow of complex `divide`; y may be real where x is complex."""
    if not is_complex(x):
        return b.divide(x, y)
    if not is_complex(y):
        return b.complex(b.divide(b.real(x), y), b.divide(b.imag(x), y))
    unit = scale(b, sizes(b, y))
    y = quotient(b, y, unit)
    return quotient(b, quotient(b, b.multiply(x, b.conj(y)), squares(b, y)), unit)


def in_order(b: Emitter, w: Any, descending: bool = False) -> Any:
    """Matrices of the permutations that sort numbers: row k and column i is true where number i comes k-th."""
    count, n = shape(w)
    pairs = with_shape(w.type, [count, n, n])
    here, other = b.broadcast_in_dim(w, [0, 2], pairs), b.broadcast_in_dim(w, [0, 1], pairs)
    before = b.compare(other, here, "GT" if descending else "LT")
    earlier = b.compare(places(b, here, 1), places(b, here, 2), "LT")
    before = b.or_(before, b.and_(b.compare(other, here, "EQ"), earlier))
    place = b.reduce_sum(b.convert(before, signless(32)), [1])
    return b.compare(
        places(b, here, 1), b.broadcast_in_dim(place, [0, 2], with_element(pairs, signless(32))), "EQ"
    )


def sorted_by(b: Emitter, order: Any, x: Any) -> Any:
    """Numbers, or rows of matrices, permuted by the matrices of `in_order`."""
    if len(shape(x)) == 2:
        return b.reduce_sum(masked(b, order, spread(b, x, [0, 2], order)), [2])
    return product(b, ones(b, order, x), x)


def swapped_places(b: Emitter, x: Any, p: Any, j: Any) -> Any:
    """Numbers with those at index p, one for each batch, and at index j exchanged."""
    batch, _ = shape(x)
    place = places(b, x, 1)
    chosen, current = compared(b, place, p, "EQ"), compared(b, place, j, "EQ")
    at_p = b.reshape(b.reduce_sum(masked(b, chosen, x), [1]), [batch, 1])
    at_j = b.dynamic_slice(x, (b.zeros_like(j), j), [batch, 1])
    return b.select(chosen, everywhere(b, at_j, x), b.select(current, everywhere(b, at_p, x), x))


def failed_at(b: Emitter, failed: Any, type_: Any) -> Any:
    """`info` in a result's type: the first index that failed, counted from one, or zero."""
    at = b.iota(1, with_element(failed.type, signless(32)))
    n = shape(failed)[1]
    first = smallest(b, b.select(failed, at, b.constant(n, at)), [1], n)
    info = b.select(
        b.compare(first, b.constant(n, first), "EQ"), b.zeros_like(first), b.add(first, b.constant(1, first))
    )
    return restored(b, info, type_)


def unsettled(b: Emitter, last: Any, most: float, total: Any) -> Any:
    """One for each batch whose measure is above `most`, or whose total is not finite; zero for others."""
    settled = b.compare(last, b.constant(most, last), "LE")
    finite = b.compare(total, b.constant(math.inf, total), "LT")
    return b.convert(b.not_(b.and_(settled, finite)), signless(32))
