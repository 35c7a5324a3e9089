"""Computes the number of elements of an `arange` with integers. torch-mlir computes it with floats.

    convert(ceil(divide(convert(n), convert(step))))    ->    -floor(-n / step)

The floats of torch-mlir are f64, which some targets lack. Besides, tiduc tracks sizes of arrays through integers only.
"""

from torch_mlir import ir

from tiduc.dialect.emitters.bodies import IrEmitter
from tiduc.dialect.graph.functions import outer_first
from tiduc.dialect.graph.matching import defined_by
from tiduc.dialect.mlir.constants import integer_in
from tiduc.dialect.mlir.context import stage
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.models.legalize import floor_divide


@stage
def count_in_integers(module: ir.Module) -> None:
    """Rewrites each rounded-up quotient of two integers so that it needs no floats. Changes the module in place."""
    for op in outer_first(module.operation):
        if op.name == "stablehlo.convert" and (found := _dividend_and_divisor(op)):
            n, step = found
            b = IrEmitter(ir.InsertionPoint(op), op.location)
            count = n if _is_one(step) else b.negate(floor_divide(b, b.negate(n), step))
            op.result.replace_all_uses_with(count)


def _dividend_and_divisor(op: IrOp) -> tuple[IrValue, IrValue] | None:
    """The dividend and the divisor if `op` returns a rounded-up quotient of two integers. Otherwise returns None.

    Also returns None if the result of `op` has another type than the two integers.
    """
    ceil = defined_by(op.operands[0], "stablehlo.ceil")
    quotient = None if ceil is None else defined_by(ceil.operands[0], "stablehlo.divide")
    if quotient is None:
        return None
    widened = [defined_by(x, "stablehlo.convert") for x in quotient.operands]
    integers = [each.operands[0] for each in widened if each is not None]
    if len(integers) < len(widened):
        return None
    n, step = integers
    return (n, step) if n.type == step.type == op.result.type else None


def _is_one(x: IrValue) -> bool:
    constant = defined_by(x, "stablehlo.constant")
    return constant is not None and integer_in(constant.attributes["value"]) == 1
