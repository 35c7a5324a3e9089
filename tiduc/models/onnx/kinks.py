"""Rewrites ONNX nodes with a kink at 0, so that the derivative at 0 is the one of PyTorch and JAX.

Relu(x)        Where(x <= 0, 0, x)           torch-mlir lowers it to a maximum, whose derivative at 0 is one half
LeakyRelu(x)   Where(x <= 0, alpha x, x)     torch-mlir lowers it to a sum of two extrema
"""

from typing import TYPE_CHECKING

from tiduc.models.onnx.nodes import Nodes

if TYPE_CHECKING:
    import onnx

_OLDEST = 12
"""The first opset version in which `LessOrEqual` supports all element types of `Relu`."""


def relu(nodes: Nodes, node: "onnx.NodeProto") -> None:
    _select(nodes, node, nodes.hold(nodes.like_result(node, 0)))


def leaky_relu(nodes: Nodes, node: "onnx.NodeProto") -> None:
    slope = nodes.like_result(node, nodes.attributes(node).get("alpha", 0.01))
    _select(nodes, node, nodes.emit("Mul", node.input[0], slope))


def _select(nodes: Nodes, node: "onnx.NodeProto", below: str) -> None:
    """Turns the node into a `Where`: `below` where the operand is at most 0, and the operand elsewhere."""
    if nodes.version < _OLDEST:
        return
    x = node.input[0]
    condition = nodes.emit("LessOrEqual", x, nodes.like_result(node, 0))
    node.op_type = "Where"
    del node.attribute[:]
    node.input[:] = [condition, below, x]
