"""Replaces ONNX sequences of known length by separate values, one for each element.

    s = SplitToSequence(x, 2); y = SequenceAt(s, 1)     ->  y = Slice(x, 2, 4)

PyTorch's exporter writes such sequences for `split` and `chunk` if it does not optimize the model.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tiduc.dialect.errors import Unsupported
from tiduc.models.onnx.nodes import Nodes, operand
from tiduc.models.onnx.refused import SEQUENCE

if TYPE_CHECKING:
    import onnx


def _split(nodes: Nodes, node: "onnx.NodeProto") -> list[str]:
    """Splits the operand along the axis into slices. Each slice has size 1 unless an operand gives the sizes."""
    x, given = node.input[0], nodes.attributes(node)
    shape, counts = nodes.shape(x), nodes.constant(node, 1)
    if counts is None and operand(node, 1):
        raise Unsupported("the sizes of the parts must be constant")
    axis = given.get("axis", 0) % len(shape)
    if counts is None or not counts.ndim:
        n, count = nodes.sizes(x)[axis], 1 if counts is None else int(counts)
        ends = [min(start + count, n) for start in range(0, n, count)]
    else:
        ends = np.cumsum(counts).tolist()
    parts = [
        nodes.emit("Slice", x, np.array([start]), np.array([end]), np.array([axis]))
        for start, end in zip([0, *ends][: len(ends)], ends, strict=True)
    ]
    if counts is None and not given.get("keepdims", 1):
        parts = [nodes.emit("Squeeze", part, np.array([axis])) for part in parts]
    return _record_sequence(nodes, node, parts)


def _construct(nodes: Nodes, node: "onnx.NodeProto") -> list[str]:
    return _record_sequence(nodes, node, list(node.input))


def _insert(nodes: Nodes, node: "onnx.NodeProto") -> list[str]:
    values = _values(nodes, node)
    at = _position(nodes, node, 2, len(values), default=len(values))
    return _record_sequence(nodes, node, [*values[:at], node.input[1], *values[at:]])


def _erase(nodes: Nodes, node: "onnx.NodeProto") -> list[str]:
    values = _values(nodes, node)
    at = _position(nodes, node, 1, len(values) - 1, default=len(values) - 1)
    return _record_sequence(nodes, node, [*values[:at], *values[at + 1 :]])


def _at(nodes: Nodes, node: "onnx.NodeProto") -> str:
    values = _values(nodes, node)
    return nodes.emit("Identity", values[_position(nodes, node, 1, len(values) - 1)])


def _length(nodes: Nodes, node: "onnx.NodeProto") -> str:
    return nodes.hold(np.array(len(_values(nodes, node))))


def _concat(nodes: Nodes, node: "onnx.NodeProto") -> str:
    values, given = _values(nodes, node), nodes.attributes(node)
    axis = given["axis"]
    if given.get("new_axis", 0):
        values = [nodes.emit("Unsqueeze", x, np.array([axis])) for x in values]
    return nodes.emit("Concat", *values, axis=axis)


def _record_sequence(nodes: Nodes, node: "onnx.NodeProto", values: list[str]) -> list[str]:
    """Records `values` as the elements of the sequence that the node returns. Returns [], which removes the node."""
    nodes.sequences[node.output[0]] = values
    return []


def _values(nodes: Nodes, node: "onnx.NodeProto") -> list[str]:
    """The names of the elements of the sequence that is the node's first operand."""
    if node.input[0] not in nodes.sequences:
        raise Unsupported(SEQUENCE)
    return nodes.sequences[node.input[0]]


def _position(nodes: Nodes, node: "onnx.NodeProto", i: int, last: int, default: int = 0) -> int:
    """The position in the sequence that operand i gives, or `default` if the operand is absent.

    Negative positions count from the end of the sequence. Raises `Unsupported` if the position is not a constant, or is
    not between 0 and `last`.
    """
    given = nodes.constant(node, i)
    if given is None and operand(node, i):
        raise Unsupported("a position in a sequence must be constant")
    at = default if given is None else int(given)
    at += len(_values(nodes, node)) * (at < 0)
    if not 0 <= at <= last:
        raise Unsupported("a position is not within the sequence")
    return at


SEQUENCES: dict[str, Callable[[Nodes, Any], str | list[str]]] = {
    "ConcatFromSequence": _concat,
    "SequenceAt": _at,
    "SequenceConstruct": _construct,
    "SequenceEmpty": _construct,
    "SequenceErase": _erase,
    "SequenceInsert": _insert,
    "SequenceLength": _length,
    "SplitToSequence": _split,
}
"""Maps each operator type to the function that rewrites its nodes."""
