"""integer_layers: finds linear layers whose weights are integers and scales in the model's file, as from torchao.

%w = (convert %codes - %zero) * (broadcast_in_dim %scales);  dot_general %x, %w        a layer named after %scales
(dot_general %x, convert %codes) * (broadcast_in_dim %scales)                           such a layer, too
"""

import re
from collections.abc import Collection
from typing import NamedTuple

from torch_mlir import ir

from tiduc.dialect.graph.functions import within
from tiduc.dialect.graph.matching import definition
from tiduc.dialect.ops.contractions import Contraction
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.shapes.types import element, is_float, rank
from tiduc.models.model import Model
from tiduc.training.function_inputs import FunctionInputs

_SCALING = frozenset(
    f"stablehlo.{name}"
    for name in "broadcast_in_dim constant convert multiply reshape subtract transpose".split()
)
"""The ops between the arrays of a weight and a product."""
_ENDING = re.compile(r"(\.parametrizations\.weight\.\w+|\.[^.]*)$")
"""Matches the part of an array's name that follows the name of the layer."""


class Layer(NamedTuple):
    """A use of a linear layer: the product of its argument and its weight, and the last op before the bias."""

    product: ir.Operation
    last: ir.Operation


def integer_layers(model: Model, inputs: FunctionInputs) -> dict[str, list[Layer]]:
    """The layers whose weights are computed from integers: by the layer's name, its uses."""
    names = {inputs[port.name]: port.name for port in model.inputs if port.name in model.weights}
    layers: dict[str, list[Layer]] = {}
    for op in within(inputs.module.operation, ("stablehlo.dot_general",)):
        of, (x, weight) = Contraction.of(op), op.operands
        if of.batches[1] or of.summed[0] != (1,) or rank(x) != 2 or rank(weight) != 2:
            continue
        arrays, last = _arrays(weight), op
        if not any(isinstance(element(each), ir.IntegerType) for each in arrays):
            continue
        if not any(is_float(each.type) and each in names for each in arrays):
            arrays, last = _scaled(arrays, op)
        scales = [names[each] for each in arrays if each in names and is_float(each.type)]
        if scales and _are_weights(arrays, names):
            layers.setdefault(_ENDING.sub("", scales[0]), []).append(Layer(op, last))
    return layers


def _are_weights(arrays: Collection[IrValue], weights: Collection[IrValue]) -> bool:
    return all(definition(each) is not None or each in weights for each in arrays)


def _scaled(arrays: set[IrValue], product: ir.Operation) -> tuple[set[IrValue], ir.Operation]:
    """The arrays with the scales by which a product is multiplied, and the multiplication.

    The arrays are empty if the product has another use.
    """
    uses = list(product.results[0].uses)
    if len(uses) != 1 or uses[0].owner.name != "stablehlo.multiply":
        return set(), product
    scaling = uses[0].owner.operation
    scales = _arrays(scaling.operands[1 - uses[0].operand_number])
    return (arrays | scales if scales else set()), scaling


def _arrays(weight: IrValue) -> set[IrValue]:
    """The inputs and constants from which ops of `_SCALING` compute a weight; empty if there are other ops."""
    found, seen, waiting = set[IrValue](), set[IrValue](), [weight]
    while waiting:
        x = waiting.pop()
        op: IrOp | None = definition(x)
        if op is not None and op.name not in _SCALING:
            return set()
        if op is None or not len(op.operands):
            found.add(x)
        seen.add(x)
        waiting += [each for each in op.operands if each not in seen] if op is not None else []
    return found
