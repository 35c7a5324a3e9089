"""Marks the maxima and minima in a ReLU or ReLU6, because their derivative at a kink is 0 in every framework; part of
import.

    func.func private @relu(%x: T) -> T
      %0 = stablehlo.constant dense<0.0>
      %1 = stablehlo.maximum %x, %0          ->   %1 = stablehlo.maximum %x, %0 {tidu.relu = true}

JAX exports jax.nn.relu as above. In JAX, this function has its own derivative, which the export does not contain.
Any other maximum of a value and 0 has the derivative of `maximum`, which is half of the tangent at a tie, unless the
source sets the attribute, or `mark_every_relu` does.
"""

import re

from torch_mlir import ir

from tiduc.dialect.facts.matchers import splat
from tiduc.dialect.graph.functions import within
from tiduc.dialect.graph.graph import operations
from tiduc.dialect.mlir.context import stage
from tiduc.dialect.ops.ir_types import IrOp
from tiduc.passes.rules.elementwise import RELU

_EXTREMA = {
    "relu": (("stablehlo.maximum", 0.0),),
    "relu6": (("stablehlo.maximum", 0.0), ("stablehlo.minimum", 6.0)),
}
"""Maps a function's name to the maxima and minima that it must have, in order, each with its constant operand."""

_NAME = re.compile(r"(relu6?)(_\d+)?")
"""Matches `relu` and `relu6`, perhaps with a number, because JAX appends a number to repeated names."""


def mark_relus(functions: dict[str, IrOp]) -> None:
    """Marks the maxima and minima in functions that are named `relu` or `relu6` and that compute a ReLU or ReLU6."""
    for name, function in functions.items():
        match = _NAME.fullmatch(name)
        if match is None or len(function.regions[0].blocks) != 1:
            continue
        extrema = [op for op in operations(function.regions[0].blocks[0]) if op.name in _KINKS]
        if tuple((op.name, _constant(op)) for op in extrema) == _EXTREMA[match[1]]:
            _mark(extrema)


@stage
def mark_every_relu(module: ir.Module) -> None:
    """Marks each maximum of a value and 0 in a module, so that it has the derivative of a relu."""
    _mark([op for op in within(module.operation, ("stablehlo.maximum",)) if _constant(op) == 0])


def _mark(extrema: list[IrOp]) -> None:
    """Sets `RELU` on the ops, except on those that have the attribute already."""
    for op in extrema:
        if RELU not in op.attributes:
            op.attributes[RELU] = ir.BoolAttr.get(True)  # a portable artifact cannot hold a unit attribute


_KINKS = frozenset(name for extrema in _EXTREMA.values() for name, _ in extrema)


def _constant(op: IrOp) -> float | None:
    """The number that fills the only operand known to be a splat. None if no operand or both operands are splats."""
    known = [number for x in op.operands if (number := splat(x)) is not None]
    return known[0] if len(known) == 1 else None
