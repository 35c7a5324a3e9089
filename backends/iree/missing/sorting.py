"""sort: stable where the op asks for it, and not in O(n^2) steps."""

import math
from collections.abc import Sequence
from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.emitter import ON_SPIRV, Emitter, legalize, signless
from tiduc.backends.iree.fault import crash, wrong
from tiduc.backends.iree.missing.bitonic_sort import network_sort
from tiduc.backends.iree.missing.merge_sort import merge_sort, places_along, sorted_dimension
from tiduc.backends.iree.refused import refused
from tiduc.dialect.types import is_open, shape, with_shape

ALONE = 128
"""The most elements that one GPU thread sorts by itself, in about the square of that number of steps."""


@legalize("stablehlo.sort")
@wrong("The sort is unstable, and takes O(n^2); on CPUs, emits a merge sort.", "sort_stable")
@wrong("On GPUs, one thread sorts a row, and may end early; emits a sorting network.", "vulkan/sort")
def sort(b: Emitter, op: Any) -> Sequence[Any] | None:
    """A merge sort on CPUs, a sorting network on GPUs.

    On GPUs, IREE's code needs more shared memory than there is, or crashes the compiler: emits a sorting
    network, and refuses dynamic shapes.
    """
    dimension = sorted_dimension(op)
    if is_open(op.operands[0].type):
        if not b.cpu:
            raise refused(op, "its sizes are open, which code for these GPUs cannot sort")
        return merge_sort(b, op, dimension)
    if b.cpu:
        return _on_cpus(b, op, dimension)
    return network_sort(b, op, dimension) if math.prod(shape(op.operands[0])) else list(op.operands)


@legalize("stablehlo.sort", where=ON_SPIRV)
@crash(
    "Rows of dynamic shapes crash the compiler; sorts up to 128 elements as columns, refuses more.",
    "vulkan/dynamic/sort_along_rows",
)
def sort_columns(b: Emitter, op: Any) -> Sequence[Any] | None:
    """A sort of up to 128 elements, as columns."""
    type_, dimension = op.operands[0].type, sorted_dimension(op)
    if not is_open(type_):
        return None
    if not 0 <= type_.shape[dimension] <= ALONE:
        raise refused(op, f"its sizes are open, and it sorts more than {ALONE} elements, or may")
    return _by_place(b, op, dimension)


def _on_cpus(b: Emitter, op: Any, dimension: int) -> Sequence[Any] | None:
    """The results of a sort of static shape."""
    sizes = shape(op.operands[0])
    n = sizes[dimension]
    if n < 2 or not math.prod(sizes):
        return list(op.operands)
    return merge_sort(b, op, dimension)


def _by_place(b: Emitter, op: Any, dimension: int) -> Sequence[Any]:
    """The results of a sort that breaks ties by index if it is stable.

    An array that is an operand twice is sorted once: code for both does not always compile.
    """
    distinct = list(dict.fromkeys(op.operands))
    which = [distinct.index(x) for x in op.operands]
    xs = [_columns(b, x, dimension) for x in distinct]
    stable = "is_stable" in op.attributes and op.attributes["is_stable"].value
    if stable:
        xs.append(places_along(b, xs[0], 0))
    scalars = [ir.RankedTensorType.get([], x.type.element_type) for x in xs for _ in range(2)]

    def before(b: Emitter, *arguments: Any) -> Sequence[Any]:
        pairs = [v for i in which for v in arguments[2 * i : 2 * i + 2]]
        (less,) = b.inlined(op.regions[0], pairs)
        if not stable:
            return [less]
        turned = [v for k in range(0, len(pairs), 2) for v in (pairs[k + 1], pairs[k])]
        (more,) = b.inlined(op.regions[0], turned)
        tied = b.and_(b.not_(more), b.compare(arguments[-2], arguments[-1], "LT"))
        return [b.or_(less, tied)]

    attributes = {"dimension": ir.IntegerAttr.get(signless(64), 0), "is_stable": ir.BoolAttr.get(False)}
    results = b.emit_all("stablehlo.sort", xs, [x.type for x in xs], attributes, [b.region(scalars, before)])
    return [_as_before(b, results[i], x, dimension) for i, x in zip(which, op.operands, strict=True)]


def _columns(b: Emitter, x: Any, dimension: int) -> Any:
    """x as a matrix whose columns are sorted; the number of columns is a dynamic dimension.

    The compiler crashed on rows, and on columns of static number, such as a multiple of 32.
    """
    front = _to_front(x, dimension)
    if front == [0, 1]:
        return x
    n = x.type.shape[dimension]
    count = b.constant([1], ir.RankedTensorType.get([1], signless(32)))
    for d in front[1:]:
        count = b.multiply(count, _size(b, x, d))
    return _reshaped(b, b.transpose(x, front), [_size(b, x, dimension), count], [n, _OPEN])


def _as_before(b: Emitter, y: Any, x: Any, dimension: int) -> Any:
    """Columns in the shape of x, from which `_columns` made them."""
    front = _to_front(x, dimension)
    if front == [0, 1]:
        return y
    shaped = _reshaped(b, y, [_size(b, x, d) for d in front], [x.type.shape[d] for d in front])
    return b.transpose(shaped, [front.index(d) for d in range(len(front))])


def _to_front(x: Any, dimension: int) -> list[int]:
    """The dimensions of x, the sorted one first."""
    return [dimension, *(d for d in range(x.type.rank) if d != dimension)]


_OPEN = ir.ShapedType.get_dynamic_size()


def _size(b: Emitter, x: Any, dimension: int) -> Any:
    """The size of a dimension, as an array of one element."""
    n = x.type.shape[dimension]
    return b.size_of(x, dimension) if n < 0 else b.constant([n], ir.RankedTensorType.get([1], signless(32)))


def _reshaped(b: Emitter, x: Any, sizes: Sequence[Any], known: Sequence[int]) -> Any:
    """x reshaped to `sizes`; `known` has the static ones."""
    operands = (x, b.concatenate(sizes, 0))
    return b.emit("stablehlo.dynamic_reshape", operands, with_shape(x.type, known))
