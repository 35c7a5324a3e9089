"""Rewrites ONNX's Cast as StableHLO's `convert` if torch-mlir does not support the types.

In a cast to 8-bit floats, a number out of range becomes the nearest finite number. With `saturate=0`, it becomes NaN or
infinity.
"""

from typing import TYPE_CHECKING, Any

import ml_dtypes

from tiduc.models.emitted_text import Body, TextTensor
from tiduc.models.onnx.nodes import Nodes, element

if TYPE_CHECKING:
    import onnx

_NATIVE = frozenset({"bool", "int8", "uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64"})


def cast(nodes: Nodes, node: "onnx.NodeProto") -> list[str] | None:
    given = nodes.attributes(node)
    if not nodes.has_rank(node.input[0]):
        return None
    of = nodes.dtype(node.input[0])
    to = nodes.onnx.helper.tensor_dtype_to_np_dtype(given["to"])
    if {of.name, to.name} <= _NATIVE:
        return None
    is_saturated = to.name.startswith("float8") and given.get("saturate", 1)

    def emit(body: Body, x: TextTensor) -> list[TextTensor]:
        if is_saturated:
            limits: Any = ml_dtypes.finfo
            most = float(limits(to).max)
            if float(limits(of).max) < most:
                x = body.convert(x, "f32")
            low, high = (body.constant(f"{n:e}", [], x.element) for n in (-most, most))
            x = body.emit("clamp", [low, x, high], x.sizes, element=x.element)
        return [body.convert(x, element(to))]

    return nodes.call("Cast", [node.input[0]], emit)
