"""integer_layers: finds linear layers whose weights the model's file stores as integers and scales, as torchao does.

It finds two forms. The name of the layer is derived from the name of the input %scales.

%w = (convert %codes - %zero) * (broadcast_in_dim %scales);  dot_general %x, %w
(dot_general %x, convert %codes) * (broadcast_in_dim %scales)
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
"""The ops by which a weight may be computed from its arrays, which are the integers, the scales and constants."""
_ENDING = re.compile(r"(\.parametrizations\.weight\.\w+|\.[^.]*)$")
"""Matches the suffix of an array's name that is not part of the layer's name, such as `.scales`."""


class Layer(NamedTuple):
    """A use of a linear layer in a program.

    `product` is the matrix product of the argument and the weight. The result of `last`, which is `product` or a
    multiplication by scales, is the layer's result without bias.
    """

    product: ir.Operation
    last: ir.Operation


def integer_layers(model: Model, inputs: FunctionInputs) -> dict[str, list[Layer]]:
    """Maps the name of each layer whose weight is computed from integers to the uses of the layer."""
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
    """Finds a multiplication of a product by scales. Returns `arrays` and the scales, and the multiplication.

    Returns an empty set if the multiplication is not the only use of the product, or if its factor is not computed from
    inputs and constants by ops of `_SCALING`.
    """
    uses = list(product.results[0].uses)
    if len(uses) != 1 or uses[0].owner.name != "stablehlo.multiply":
        return set(), product
    scaling = uses[0].owner.operation
    scales = _arrays(scaling.operands[1 - uses[0].operand_number])
    return (arrays | scales if scales else set()), scaling


def _arrays(weight: IrValue) -> set[IrValue]:
    """Returns the inputs and constants from which a weight is computed.

    Returns an empty set if an op that is not in `_SCALING` takes part in the computation.
    """
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
