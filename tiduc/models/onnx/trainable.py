"""Distinguishes the parameters of an ONNX model from its other float initializers.

    y = Gemm(x, w, b); z = Add(y, mask)        w and b are parameters; the mask is not

An initializer is a parameter if exactly one node reads it as a weight or combines it with data by arithmetic. Exporters
also store masks and constants as initializers, which are not parameters. If exporters merge initializers with equal
values, several nodes read the merged initializer; it is not a parameter either.
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
"""Maps an operator type to the positions of the operands that are weights."""

SHARED = "shared"
"""The first word of the reason that `not_parameters` gives for a weight that several nodes read."""

_ARITHMETIC = frozenset({"Add", "Div", "Mul", "Pow", "Sub", "Sum"})
_MOVES = frozenset("Cast CastLike Expand Flatten Identity Reshape Squeeze Transpose Unsqueeze".split())
"""Operators that return the elements of their first operand. Reading the result counts as reading the operand."""

_MASKED = -1e4
"""An array whose smallest element is at most this number is considered an additive mask."""


def not_parameters(graph: "onnx.GraphProto", arrays: Mapping[str, Array]) -> dict[str, str]:
    """Maps the name of each float initializer that is not a parameter to the reason. Training does not change it."""
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
"""A use of a value: the node that reads it, and the position of the operand."""


def _reads(graph: "onnx.GraphProto") -> dict[str, list[_Use]]:
    reads: dict[str, list[_Use]] = defaultdict(list)
    for node in graph.node:
        for i, name in enumerate(node.input):
            reads[name].append((node, i))
    return reads


def _uses(name: str, reads: Mapping[str, list[_Use]]) -> list[_Use]:
    """The uses of a value. A node in `_MOVES` is replaced by the uses of its result."""
    uses, waiting = [], [name]
    while waiting:
        for node, i in reads.get(waiting.pop(), ()):
            if node.op_type in _MOVES and i == 0:
                waiting.append(node.output[0])
            else:
                uses.append((node, i))
    return uses


def _reason(array: Array, uses: list[_Use], constant: set[str]) -> str:
    """The reason why training does not change an array, or "" if the array is a parameter."""
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
