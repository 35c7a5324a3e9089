"""Quantization rounds, so its exact derivative is zero. It is differentiated only with an attribute, and then by the
straight-through estimator:

    %q = stablehlo.uniform_quantize %x {tidu.straight_through} : ...    dq = dx where x is in the range of the type,
                                                                       and 0 where it saturates
    %y = stablehlo.uniform_dequantize %q : ...                         dy = dq

The tangent of a quantized value has the float type that the value expresses. Only a dequantization may read the
tangent. Source: Bengio, Leonard, Courville, "Estimating or Propagating Gradients Through Stochastic Neurons" (2013),
section 4.
"""

from collections import defaultdict
from collections.abc import Mapping

import numpy as np
from torch_mlir.dialects import quant

from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.graph import Definition, Graph, Value
from tiduc.dialect.shapes.types import element, is_float, with_element
from tiduc.passes.rules.opset import linearize, unsupported
from tiduc.passes.rules.registry import Tangents

STRAIGHT_THROUGH = "tidu.straight_through"


@linearize("stablehlo.uniform_quantize")
def uniform_quantize(b: StablehloBuilder, op: Definition, dx: Tangents) -> list[Value]:
    """The tangent is that of x where x is in range, and zero elsewhere.

    The range ends at the values that result from quantizing and dequantizing -inf and inf.
    """
    x, q = op.operands[0], op.result
    if STRAIGHT_THROUGH not in op.attributes:
        raise unsupported(
            "jvp", op, f"it rounds; set the attribute {STRAIGHT_THROUGH} to pass tangents through"
        )
    if not is_float(x) or _readers(b, q.graph)[q] - {"stablehlo.uniform_dequantize"}:
        raise unsupported(
            "jvp",
            op,
            "a straight-through tangent needs a float operand and a result that only "
            "stablehlo.uniform_dequantize reads",
        )

    def end(value: float) -> Value:
        bits = b.emit(op.name, (b.constant(value, x),), q.type)
        return b.emit("stablehlo.uniform_dequantize", (bits,), x.type)

    inside = b.and_(b.compare(end(-np.inf), x, "LE"), b.compare(x, end(np.inf), "LE"))
    return [b.select(inside, dx[0], b.zeros_like(x))]


@linearize("stablehlo.uniform_dequantize")
def uniform_dequantize(b: StablehloBuilder, op: Definition, dx: Tangents) -> list[Value]:
    return [dx[0]]


def dequantized(b: StablehloBuilder, x: Value) -> Value:
    """x, dequantized to the float type that it expresses. Returns x itself if it is not quantized."""
    type_ = element(x)
    if not isinstance(type_, quant.QuantizedType):
        return x
    return b.emit("stablehlo.uniform_dequantize", (x,), with_element(x.type, type_.expressed_type))


def _readers(b: StablehloBuilder, graph: Graph) -> Mapping[Value, set[str]]:
    """For each value of a graph, the names of the ops that read it."""
    if graph not in b.notes.readers:
        readers: defaultdict[Value, set[str]] = defaultdict(set)
        b.notes.readers[graph] = readers
        for reader in graph.definitions:
            for x in (*reader.operands, *reader.captures):
                readers[x].add(reader.name)
    return b.notes.readers[graph]
