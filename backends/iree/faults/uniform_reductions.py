"""Reductions of constants: IREE's CPU code takes a vector of equal constants for one of its elements.

%ones = stablehlo.constant dense<1.0>            %ones = stablehlo.constant dense<1.0>
stablehlo.reduce(%ones ...)              ->      %hidden = stablehlo.optimization_barrier %ones
                                                 stablehlo.reduce(%hidden ...)
"""

from collections.abc import Sequence
from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.emitter import Emitter, legalize
from tiduc.backends.iree.fault import wrong
from tiduc.backends.iree.missing.dynamic.arrays import has_open_sizes, of_sizes, sizes_of
from tiduc.backends.iree.missing.staged_reductions import in_stages

_FAR = 32  # limits the ops searched; StableHLO's folder leaves few between a constant and its use


@legalize("stablehlo.reduce")
@wrong(
    "Sums only some elements of a constant, such as a count of ones; a barrier hides the constant.",
    "reduce_ones",
)
@wrong(
    "On GPUs, one thread computes a reduction of several arrays or complex numbers, and may end early; emits stages.",
    "vulkan/greatest",
)
def reduce(b: Emitter, op: Any) -> Sequence[Any] | None:
    """The reduction, with constants behind a barrier and, on GPUs, in stages.

    On GPUs, a reduction that one thread would compute is split into stages. One with dynamic dimensions gets
    a barrier after it: a broadcast of its result does not compile for SPIR-V.
    """
    hide_constants(b, op)
    if b.cpu:
        return None
    return _apart(b, op) if has_open_sizes(op) else in_stages(b, op)


def _apart(b: Emitter, op: Any) -> Sequence[Any]:
    """The op's results, behind a barrier."""
    results = b.clone(op, {})
    sizes = [sizes_of(b, y) for y in results]
    return [of_sizes(b, y, n) for y, n in zip(b.barrier(*results), sizes, strict=True)]


def hide_constants(b: Emitter, op: Any) -> None:
    """Puts reduced operands that depend on constants alone behind a barrier, in place."""
    for i, x in enumerate(list(op.operands)[: len(op.results)]):
        if is_constant(x):
            op.operands[i] = b.barrier(x)[0]


def is_constant(x: Any) -> bool:
    waiting, seen = [x], set[Any]()
    while waiting:
        x = waiting.pop()
        if not isinstance(x, ir.OpResult) or len(x.owner.regions) or len(seen) >= _FAR:
            return False
        if not len(x.owner.operands) and x.owner.name != "stablehlo.constant":
            return False  # an iota, whose elements differ
        seen.add(x)
        waiting += [operand for operand in x.owner.operands if operand not in seen]
    return True
