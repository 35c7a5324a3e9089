"""Batched products on CPUs: transposes operands once, such that they begin with the batch dimensions.

    %0 = dot_general %x, %y, batching_dims = [1] x [0], contracting_dims = [0] x [1]
    ->
    %1 = transpose %x, dims = [1, 0, 2]
    %0 = dot_general %1, %y, batching_dims = [0] x [0], contracting_dims = [1] x [1]

IREE transposes such operands as well, but separately for each product, and such that the contracted dimension comes
last. An array that several products read, as in gradients, is then written several times.
"""

from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.emitter import ON_CPUS, Emitter, is_in_loop, is_static, legalize
from tiduc.backends.iree.fault import slow
from tiduc.dialect.contractions import NUMBERS, Contraction
from tiduc.dialect.traits import PRODUCTS
from tiduc.dialect.types import shape

_READERS = PRODUCTS | {"stablehlo.transpose"}


@legalize("stablehlo.dot_general", where=ON_CPUS)
@slow("Transposes an operand whose batch dimensions are not the first ones for each product; once instead.")
def with_leading_batches(b: Emitter, op: Any) -> None:
    """Changes a product in place: operands that only products read begin with the batch dimensions."""
    of = Contraction.of(op)
    leading = tuple(range(len(of.batches[0])))
    if of.batches == (leading, leading) or not all(is_static(x.type) for x in op.operands):
        return
    if is_in_loop(op):  # a kernel reads the elements where they are
        return
    places = []
    for i, x in enumerate(list(op.operands)):
        order = [*of.batches[i], *(d for d in range(len(shape(x))) if d not in of.batches[i])]
        if not _is_read_by_products(x):
            order = sorted(order)
        places.append([[order.index(d) for d in own[i]] for own in (of.batches, of.summed)])
        if order != sorted(order):
            op.operands[i] = b.transpose(x, order)
    op.attributes[NUMBERS] = Contraction.new(*zip(*places, strict=True)).attribute


def _is_read_by_products(x: Any) -> bool:
    """Whether x is computed, and has several readers, all of which are products or transposes."""
    uses = list(x.uses)
    return isinstance(x, ir.OpResult) and len(uses) > 1 and all(use.owner.name in _READERS for use in uses)
