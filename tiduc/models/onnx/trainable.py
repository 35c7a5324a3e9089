"""Distinguishes the parameters of an ONNX model from its other float initializers.

    y = Gemm(x, w, b); z = Add(y, mask)        w and b are parameters; the mask is not

An initializer is a parameter if a node reads it as a weight, or if arithmetic combines it with data. Exporters also
store masks and constants as initializers. They also merge initializers of equal values; a merged initializer is not a
parameter.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tiduc.runtime.arrays import Array

if TYPE_CHECKING:
    import onnx

_WEIGHTS: Mapping[str, tuple[int, ...]] = {
    "BatchNormalization": (1, 2),
    "Conv": (1, 2),
    "ConvTranspose": (1, 2),
    "DeformConv": (1, 3),
    "Einsum": (0, 1),
    "GRU": (1, 2, 3, 5),
    "Gather": (0,),
    "Gemm": (0, 1, 2),
    "GroupNormalization": (1, 2),
    "InstanceNormalization": (1, 2),
    "LSTM": (1, 2, 3, 5, 6, 7),
    "LayerNormalization": (1, 2),
    "MatMul": (0, 1),
    "PRelu": (1,),
    "RMSNormalization": (1,),
    "RNN": (1, 2, 3, 5),
    "SkipLayerNormalization": (2, 3, 4),
}
"""Operand positions of weights, by node type."""

SHARED = "shared"
"""The first word of the reason why training skips a weight that several nodes read."""

_ARITHMETIC = frozenset({"Add", "Div", "Mul", "Pow", "Sub", "Sum"})
_MOVES = frozenset("Cast CastLike Expand Flatten Identity Reshape Squeeze Transpose Unsqueeze".split())
"""Nodes that return the elements of their first operand. A node that reads the result counts as reading the operand."""

_MASKED = -1e4
"""An array whose least number is at most this number is a mask that is added."""


def not_parameters(graph: "onnx.GraphProto", arrays: Mapping[str, Array]) -> dict[str, str]:
    """The float initializers that training does not change: maps their names to the reasons."""
    reads = _reads(graph)
    constant = {each.name for each in graph.initializer}.union(arrays)
    for node in graph.node:  # nodes are in topological order
        if all(x in constant for x in node.input if x) and not any(a.HasField("g") for a in node.attribute):
            constant.update(node.output)
    reasons = {}
    for name, array in arrays.items():
        if reason := _reason(array, _uses(name, reads), constant):
            reasons[name] = reason
    return reasons


_Use = tuple[Any, int]
"""A node, and the position of an operand."""


def _reads(graph: "onnx.GraphProto") -> dict[str, list[_Use]]:
    reads: dict[str, list[_Use]] = defaultdict(list)
    for node in graph.node:
        for i, name in enumerate(node.input):
            reads[name].append((node, i))
    return reads


def _uses(name: str, reads: Mapping[str, list[_Use]]) -> list[_Use]:
    """The nodes and operand positions that read a value, directly or through nodes in `_MOVES`."""
    uses, waiting = [], [name]
    while waiting:
        for node, i in reads.get(waiting.pop(), ()):
            if node.op_type in _MOVES and i == 0:
                waiting.append(node.output[0])
            else:
                uses.append((node, i))
    return uses


def _reason(array: Array, uses: list[_Use], constant: set[str]) -> str:
    """The reason why training does not change an array; "" for a parameter."""
    weight = [(node, i) for node, i in uses if i in _WEIGHTS.get(node.op_type, ())]
    added = [(n, i) for n, i in uses if n.op_type in _ARITHMETIC and not constant.issuperset(n.input)]
    if not weight and not added:
        kinds = ", ".join(dict.fromkeys(node.op_type for node, _ in uses))
        return f"read by {kinds} only" if kinds else "not read"
    if not weight and not array.ndim:
        return "a single number"
    if not weight and _is_mask(array):
        return "a mask"
    if len(weight) + len(added) > 1:
        return f"{SHARED} by {len(weight) + len(added)} nodes"
    return ""


def _is_mask(array: Array) -> bool:
    values = np.unique(np.asarray(array, np.float64)) if array.dtype.kind != "c" else np.zeros(1)
    return bool(
        not np.isfinite(values).all()
        or (values[0] <= _MASKED)
        or (array.ndim > 1 and values.tolist() == [0.0, 1.0])
    )
