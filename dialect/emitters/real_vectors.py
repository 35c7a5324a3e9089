"""Flattens several arrays to one vector of real numbers, and back: y1 (2x3xf64), y2 (complex<f64>)  <->  8xf64.

A complex array becomes its real parts, then its imaginary parts.
"""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from math import prod

from torch_mlir import ir

from tiduc.dialect.emitters.associative import part
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.graph import Value
from tiduc.dialect.shapes.types import element, is_complex, rank, shape, with_element, with_shape


def reals(x: Value) -> int:
    """The number of real numbers in an array. A complex element has two."""
    count: int = prod(shape(x)) * (2 if is_complex(x) else 1)
    return count


def real_type(like: Sequence[Value], sizes: Sequence[int]) -> ir.RankedTensorType:
    """The type of a tensor of shape `sizes` whose elements are real numbers of the precision of `like[0]`."""
    own = element(like[0])
    return with_element(with_shape(like[0].type, sizes), own.element_type if is_complex(like[0]) else own)


def flattened(b: StablehloBuilder, values: Sequence[Value], batch: Sequence[int] = ()) -> Value:
    """Concatenates the real numbers of all values along one dimension.

    The first dimensions of each value are batch dimensions of the sizes `batch`. The result has them, too.
    """
    count, parts = prod(batch), list[Value]()
    for v in values:
        rows = b.reshape(v, [*batch, prod(shape(v)) // count])
        parts += [b.real(rows), b.imag(rows)] if is_complex(v) else [rows]
    return parts[0] if len(parts) == 1 else b.concatenate(parts, len(batch))


def unflattened(b: StablehloBuilder, x: Value, like: Sequence[Value]) -> list[Value]:
    """The inverse of `flattened`: splits the last dimension of x into arrays of the element types and shapes of `like`.

    The other dimensions of x come first in each array.
    """
    last, ends = rank(x) - 1, accumulate(map(reals, like), initial=0)
    found = []
    for y, (start, end) in zip(like, pairwise(ends), strict=True):
        middle = start + prod(shape(y))
        own = part(b, [x], last, start, middle)[0]
        own = b.complex(own, part(b, [x], last, middle, end)[0]) if is_complex(y) else own
        found.append(b.reshape(own, [*shape(x)[:-1], *shape(y)]))
    return found
