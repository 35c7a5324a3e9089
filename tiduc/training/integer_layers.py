"""integer_layers: finds linear layers whose weights are integers and scales in the model's file, as from torchao.

%w = (convert %codes - %zero) * (broadcast_in_dim %scales);  dot_general %x, %w        a layer named after %scales
"""

import re

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


def integer_layers(model: Model, inputs: FunctionInputs) -> dict[str, list[ir.Operation]]:
    """The layers whose weights are computed from integers: by the layer's name, the products that read its weight."""
    names = {inputs[port.name]: port.name for port in model.inputs if port.name in model.weights}
    layers: dict[str, list[ir.Operation]] = {}
    for op in within(inputs.module.operation, ("stablehlo.dot_general",)):
        of, (x, weight) = Contraction.of(op), op.operands
        if of.batches[1] or of.summed[0] != (1,) or rank(x) != 2 or rank(weight) != 2:
            continue
        arrays = _arrays(weight)
        scales = [names[each] for each in arrays if each in names and is_float(each.type)]
        are_weights = all(definition(each) is not None or each in names for each in arrays)
        if scales and are_weights and any(isinstance(element(each), ir.IntegerType) for each in arrays):
            layers.setdefault(_ENDING.sub("", scales[0]), []).append(op)
    return layers


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
