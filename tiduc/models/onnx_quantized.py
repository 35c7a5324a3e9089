"""Rewrites ONNX's quantized operators as float arithmetic on the quantized numbers.

    QuantizeLinear(x, scale, zero)       cast(clip(round(x / scale) + zero))
    DequantizeLinear(q, scale, zero)     (float(q) - zero) * scale
    QLinearConv, QLinearMatMul           the op on float(q) - zero, times both scales, quantized
    ConvInteger                          the op on float(q) - zero, as integers

Sums of products are exact while they are below 2^24. Rounding has derivative zero.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from tiduc.dialect.errors import Unsupported
from tiduc.models.onnx_nodes import Nodes, operand

_FLOATS = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")
_NARROW = ("int8", "uint8", "int16", "uint16", *_FLOATS)
"""Types to which a quantization clips."""


def _dtype(nodes: Nodes, name: str) -> Any:
    """The element type of a value; None where it is not known."""
    if name in nodes.constants:
        return nodes.constants[name].dtype
    known = nodes.types.get(name)
    return nodes.onnx.helper.tensor_dtype_to_np_dtype(known.elem_type) if known and known.elem_type else None


def _along(nodes: Nodes, x: str, axis: int, rank: int) -> str:
    """A vector as an array of this rank along an axis; a single number as it is."""
    if len(nodes.shape(x)) != 1 or nodes.shape(x) == [1]:
        return nodes.emit("Reshape", x, np.zeros(0, np.int64)) if nodes.shape(x) == [1] else x
    sizes = [-1 if d == axis % rank else 1 for d in range(rank)]
    return nodes.emit("Reshape", x, np.asarray(sizes, np.int64))


def _centred(nodes: Nodes, x: str, zero: str, axis: int, rank: int, to: Any) -> str:
    """The quantized numbers minus their zero point, as floats."""
    kind = nodes.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(to))
    number = nodes.emit("Cast", x, to=kind)
    if not zero:
        return number
    return nodes.emit("Sub", number, nodes.emit("Cast", _along(nodes, zero, axis, rank), to=kind))


def _quantized(nodes: Nodes, x: str, scale: str, zero: str, to: Any, like: Any) -> str:
    """The floats `x` of type `like`, quantized to the type `to`; scale and zero broadcast to `x`."""
    helper = nodes.onnx.helper
    kinds = helper.np_dtype_to_tensor_dtype(like), helper.np_dtype_to_tensor_dtype(to)
    whole = nodes.emit("Div", x, scale)
    whole = whole if to.name in _FLOATS else nodes.emit("Round", whole)
    if zero:
        whole = nodes.emit("Add", whole, nodes.emit("Cast", zero, to=kinds[0]))
    if to.name not in _FLOATS:
        limits, wide = np.iinfo(to), np.float32
        whole = nodes.emit("Cast", whole, to=nodes.onnx.TensorProto.FLOAT)  # a half has not all limits
        whole = nodes.emit("Clip", whole, np.asarray(limits.min, wide), np.asarray(limits.max, wide))
    nodes.again = True  # for the casts
    return nodes.emit("Cast", whole, to=kinds[1])


def _per_element(nodes: Nodes, node: Any, scale: str) -> str:
    """A scale or a zero point that broadcasts to the node's first operand."""
    given, shape = nodes.attributes(node), nodes.shape(node.input[0])
    axis, block = given.get("axis", 1), given.get("block_size", 0)
    if not scale or not block:
        return scale and _along(nodes, scale, axis, len(shape))
    n = shape[axis % len(shape)]
    if n is None:
        raise Unsupported("in blocks needs a static size of its axis; set it with --size NAME=N")
    return nodes.emit("Gather", scale, np.arange(n) // block, axis=axis)


def _quantize(nodes: Nodes, node: Any) -> str | None:
    given = nodes.attributes(node)
    x, scale, zero = (operand(node, i) for i in range(3))
    to = _dtype(nodes, zero) if zero else np.dtype(np.uint8)
    if not zero and given.get("output_dtype"):
        to = nodes.onnx.helper.tensor_dtype_to_np_dtype(given["output_dtype"])
    like = _dtype(nodes, x)
    if to is None or to.name not in _NARROW or like not in (np.float16, np.float32):
        return None
    if _dtype(nodes, scale) != like or given.get("precision") or not nodes.has_rank(scale):
        return None
    return _quantized(nodes, x, _per_element(nodes, node, scale), _per_element(nodes, node, zero), to, like)


def _dequantize(nodes: Nodes, node: Any) -> str | None:
    given = nodes.attributes(node)
    x, scale, zero = (operand(node, i) for i in range(3))
    of, to = _dtype(nodes, x), _dtype(nodes, scale)
    if of is None or of.name not in (*_NARROW, "int32") or to not in (np.float16, np.float32):
        return None
    if given.get("output_dtype") or not nodes.has_rank(scale):
        return None
    kind = nodes.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(to))
    nodes.again = True  # for the casts
    number = nodes.emit("Cast", x, to=kind)
    if zero:
        number = nodes.emit("Sub", number, nodes.emit("Cast", _per_element(nodes, node, zero), to=kind))
    return nodes.emit("Mul", number, _per_element(nodes, node, scale))


def _product(
    nodes: Nodes, node: Any, axes: tuple[int, int, int], multiply: Callable[[str, str], str]
) -> str | None:
    """A quantized product; `axes` are those of the vectors that belong to its operands and to its result."""
    x, sx, zx, w, sw, zw, sy, zy = node.input[:8]
    like = _dtype(nodes, sx)
    to = _dtype(nodes, zy)
    if like not in (np.float16, np.float32) or to is None or to.name not in _NARROW:
        return None
    rank = len(nodes.shape(x))
    product = multiply(
        _centred(nodes, x, zx, axes[0], rank, like),
        _centred(nodes, w, zw, axes[1], len(nodes.shape(w)), like),
    )
    for scale, axis in ((sx, axes[0]), (sw, axes[2])):
        product = nodes.emit("Mul", product, _along(nodes, scale, axis, rank))
    return _quantized(
        nodes, product, _along(nodes, sy, axes[2], rank), _along(nodes, zy, axes[2], rank), to, like
    )


def _qlinear_conv(nodes: Nodes, node: Any) -> str | None:
    given, bias = nodes.attributes(node), operand(node, 8)

    def convolve(x: str, w: str) -> str:
        more = [nodes.emit("Cast", bias, to=nodes.onnx.TensorProto.FLOAT)] if bias else []
        return nodes.emit("Conv", x, w, *more, **given)

    return _product(nodes, node, (0, 0, 1), convolve)


def _qlinear_matmul(nodes: Nodes, node: Any) -> str | None:
    """Only of one scale an operand: a vector of scales has no one axis in a product of matrices."""
    if any(nodes.shape(node.input[i]) not in ([], [1]) for i in (1, 4)):
        return None
    return _product(nodes, node, (-2, -1, -1), lambda x, w: nodes.emit("MatMul", x, w))


def _conv_integer(nodes: Nodes, node: Any) -> str | None:
    x, w, zx, zw = (operand(node, i) for i in range(4))
    rank = len(nodes.shape(x))
    product = nodes.emit(
        "Conv",
        _centred(nodes, x, zx, 1, rank, np.float32),
        _centred(nodes, w, zw, 0, rank, np.float32),
        **nodes.attributes(node),
    )
    return nodes.emit("Cast", product, to=nodes.onnx.TensorProto.INT32)


QUANTIZED: dict[str, Callable[[Nodes, Any], str | None]] = {
    "ConvInteger": _conv_integer,
    "DequantizeLinear": _dequantize,
    "QLinearConv": _qlinear_conv,
    "QLinearMatMul": _qlinear_matmul,
    "QuantizeLinear": _quantize,
}
"""The rewrite of each quantized node type."""
