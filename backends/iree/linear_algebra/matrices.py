"""Shared by the factorizations: batches of matrices, masks, indices, numbers, and settings of calls."""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from torch_mlir import ir

from tiduc.backends.iree.emitter import Emitter, signless
from tiduc.backends.iree.refused import refused
from tiduc.dialect.lapack import Settings
from tiduc.dialect.types import element, is_complex, is_open, shape, with_element, with_shape


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


def restored_all(b: Emitter, op: Any, values: Sequence[Any]) -> list[Any]:
    """The values in the shapes and element types of an op's results."""
    return [restored(b, x, y.type) for x, y in zip(values, op.results, strict=True)]


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


def on_diagonal(b: Emitter, x: Any) -> Any:
    """Whether each element is on the diagonal."""
    return b.compare(places(b, x, 1), places(b, x, 2), "EQ")


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


# ---- products -----------------------------------------------------------------------------------------------


def transposed(b: Emitter, x: Any) -> Any:
    """The transposes of a batch of matrices."""
    return b.transpose(x, [0, 2, 1])


def adjoint(b: Emitter, x: Any) -> Any:
    """The adjoints of a batch of matrices."""
    return b.conj(transposed(b, x))


def integers(batch: int, n: int) -> Any:
    """The type of n integers for each batch."""
    return ir.RankedTensorType.get([batch, n], signless(32))


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


def failed_at(b: Emitter, failed: Any) -> Any:
    """`info` for each batch: the first index that failed, counted from one, or zero."""
    at = b.iota(1, with_element(failed.type, signless(32)))
    n = shape(failed)[1]
    first = smallest(b, b.select(failed, at, b.constant(n, at)), [1], n)
    return b.select(
        b.compare(first, b.constant(n, first), "EQ"), b.zeros_like(first), b.add(first, b.constant(1, first))
    )


def scaled(b: Emitter, x: Any) -> tuple[Any, Any, Any]:
    """The powers of two that scale matrices to entries of about one, the scaled matrices, and their |x|^2."""
    unit = scale(b, largest(b, sizes(b, x), [1, 2]))
    x = quotient(b, x, everywhere(b, unit, x))
    return unit, x, b.reduce_sum(squares(b, x), [1, 2])


def unsettled(b: Emitter, last: Any, most: float, total: Any) -> Any:
    """One for each batch whose measure is above `most`, or whose total is not finite; zero for others."""
    settled = b.compare(last, b.constant(most, last), "LE")
    finite = b.compare(total, b.constant(math.inf, total), "LT")
    return b.convert(b.not_(b.and_(settled, finite)), signless(32))
