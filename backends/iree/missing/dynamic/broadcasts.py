"""Patterns for `dynamic_broadcast_in_dim`, and for `dynamic_conv`, which is refused."""

from collections.abc import Sequence

import numpy as np

from tiduc.backends.iree.emit.arrays import behind_barrier, computed, number, sizes_of, with_known_sizes
from tiduc.backends.iree.emit.emitter import Emitter, legalize
from tiduc.backends.iree.emit.kernels import Kernel
from tiduc.backends.iree.emit.refused import refused
from tiduc.backends.iree.emit.sizes import RunTimeSize, smaller, with_static_sizes
from tiduc.backends.iree.fault import crash, missing
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.shapes.types import dims, element

_REPEATED, _KEPT = "known_expanding_dimensions", "known_nonexpanding_dimensions"


@legalize("stablehlo.dynamic_broadcast_in_dim")
@crash(
    "IREE requires a list of the expanded dimensions; tiduc adds it, or computes the result element by element.",
    "dynamic/widened",
    upstream="https://github.com/iree-org/iree/issues/7898",
)
@crash(
    "If a size is an element of an array, some uses of the result do not compile; tiduc hides the size by a barrier.",
    "dynamic/widened_then_converted",
)
@crash(
    "Some dispatches that read sizes of arrays from a vector do not compile; tiduc reads the sizes of the arrays.",
    "dynamic/sizes_in_vectors",
    upstream="https://github.com/iree-org/iree/issues/23555",
)
def dynamic_broadcast_in_dim(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Adds explicit lists of the dimensions that the broadcast expands, and of those that it does not expand.

    If it is unknown at compile time whether a dimension is expanded, computes the result element by element.
    """
    x = op.operands[0]
    dimensions = list(op.attributes["broadcast_dimensions"])
    places = {
        name: set(op.attributes[name]) if name in op.attributes else set() for name in (_REPEATED, _KEPT)
    }
    for i, n in enumerate(x.type.shape):
        if i in places[_REPEATED] | places[_KEPT]:
            continue
        if n == 1:
            places[_REPEATED].add(i)
        elif n >= 0 or op.results[0].type.shape[dimensions[i]] == 1:
            places[_KEPT].add(i)
        else:
            return [_by_element(b, op, dimensions)]
    order = [
        int(i) for i in np.argsort(dimensions)
    ]  # IREE assumes that the operand's dimensions are in the order in which the result has them
    x = b.transpose(x, order)
    if not b.cpu and any(x.type.shape[order.index(i)] != 1 for i in places[_REPEATED]):
        # Code for GPUs would fuse the op that computes x with the broadcast, and each thread would store all of x.
        (x,) = behind_barrier(b, x)
    given = {name: dims(sorted(order.index(i) for i in of)) for name, of in places.items() if of}
    sizes = with_known_sizes(b, op.operands[1])
    return b.clone(op, {0: x, 1: sizes}, given={**given, "broadcast_dimensions": dims(sorted(dimensions))})


def _by_element(b: Emitter, op: IrOp, dimensions: Sequence[int]) -> IrValue:
    """Computes a broadcast element by element.

    Clamps each index to the operand's size along its dimension, so that the index is 0 if the size is 1.
    """
    x, sizes = op.operands
    type_, own = op.results[0].type, sizes_of(b, x)
    result = with_static_sizes(type_, [number(b, sizes, d) for d in range(len(type_.shape))])

    def fill(k: Kernel, places: Sequence[RunTimeSize], x: IrValue) -> IrValue:
        return k.element(x, *(smaller(places[d], n - 1) for d, n in zip(dimensions, own, strict=True)))

    return computed(b, result, element(x), [x], fill)


@legalize("stablehlo.dynamic_conv")
@missing(
    "The op does not compile with dynamic dimensions; tiduc refuses it.",
    untested="refused",
    upstream="https://github.com/iree-org/iree/pull/24940",
)
def not_there(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Raises `Unsupported` for the op."""
    raise refused(op, "its shapes are dynamic")
