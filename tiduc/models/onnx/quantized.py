"""Rewrites ONNX's quantized operators as float arithmetic on the quantized values.

    QuantizeLinear(x, scale, zero)       cast(clip(round(x / scale) + zero))
    DequantizeLinear(q, scale, zero)     (float(q) - zero) * scale
    QLinearConv, QLinearMatMul           Conv or MatMul of float(q) - zero, times both scales, then QuantizeLinear
    ConvInteger                          Conv of float(q) - zero, cast to an integer type
    MatMulInteger                        MatMul of float(q) - zero, if it needs a derivative; otherwise unchanged

Sums of products are exact while they are below 2^24. Rounding has derivative zero. With the straight-through estimator,
however, a quantized value has the derivative of x / scale + zero if it is within the limits of its type, and derivative
zero if it was clipped. To obtain this derivative, the rewrite records a float value for each quantized value
(`Nodes.floats`). Nodes that cast the quantized value to float read the recorded value instead.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from tiduc.dialect.errors import Unsupported
from tiduc.models.onnx.nodes import Nodes, operand

if TYPE_CHECKING:
    import onnx

_FLOATS = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")
_NARROW = ("int8", "uint8", "int16", "uint16", *_FLOATS)
"""The types of quantized values that the rewrites support."""


def _dtype(nodes: Nodes, name: str) -> Any:
    """The element type of a value, or None if the type is not known."""
    if name in nodes.constants:
        return nodes.constants[name].dtype
    known = nodes.types.get(name)
    return nodes.onnx.helper.tensor_dtype_to_np_dtype(known.elem_type) if known and known.elem_type else None


def _along(nodes: Nodes, x: str, axis: int, rank: int) -> str:
    """Reshapes a vector to `rank` dimensions with its elements along `axis`, and a vector of size 1 to a scalar.

    Returns x unchanged if it is not a vector.
    """
    if len(nodes.shape(x)) != 1 or nodes.shape(x) == [1]:
        return nodes.emit("Reshape", x, np.zeros(0, np.int64)) if nodes.shape(x) == [1] else x
    sizes = [-1 if d == axis % rank else 1 for d in range(rank)]
    return nodes.emit("Reshape", x, np.asarray(sizes, np.int64))


def _centred(nodes: Nodes, x: str, zero: str, axis: int, rank: int, to: DTypeLike) -> str:
    """The quantized values x minus their zero point, as floats. `zero` is "" if there is no zero point."""
    kind = nodes.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(to))
    number = nodes.emit("Cast", nodes.floats.get(x, x), to=kind)
    if not zero:
        return number
    return nodes.emit("Sub", number, nodes.emit("Cast", _along(nodes, zero, axis, rank), to=kind))


def _quantized(
    nodes: Nodes, x: str, scale: str, zero: str, to: np.dtype[Any], shaped: str, like: np.dtype[Any]
) -> str:
    """Quantizes `x`, which has elements of the float type `like`, to the type `to`.

    `scale` and `zero` must broadcast to the shape of `x`. `shaped` names a value with the shape of `x`.
    """
    helper = nodes.onnx.helper
    kinds = helper.np_dtype_to_tensor_dtype(like), helper.np_dtype_to_tensor_dtype(to)
    whole = nodes.emit("Div", x, scale)
    whole = whole if to.name in _FLOATS else _rounded(nodes, whole, shaped, like)
    if zero:
        whole = nodes.emit("Add", whole, nodes.emit("Cast", zero, to=kinds[0]))
    if to.name not in _FLOATS:
        limits, wide = np.iinfo(to), np.float32
        whole = nodes.emit("Cast", whole, to=nodes.onnx.TensorProto.FLOAT)  # f16 cannot represent all limits
        whole = _clipped(nodes, whole, np.asarray(limits.min, wide), np.asarray(limits.max, wide))
    nodes.again = True  # the emitted casts may have rewrites
    return _with_float(nodes, nodes.emit("Cast", whole, to=kinds[1]), whole)


def _with_float(nodes: Nodes, quantized: str, number: str) -> str:
    """Returns `quantized`. For the straight-through estimator, records `number`, an equal value with a derivative."""
    if nodes.straight_through:
        nodes.floats[quantized] = number
    return quantized


def _rounded(nodes: Nodes, x: str, shaped: str, like: np.dtype[Any]) -> str:
    """Rounds x to the nearest integer. With the straight-through estimator, the derivative is one."""
    whole = nodes.emit("Round", x)
    if not nodes.straight_through:
        return whole
    rest = nodes.emit("Sub", whole, x)  # both this difference and the sum below are exact
    return nodes.emit("Add", x, nodes.stop(rest, shaped, like))


def _clipped(nodes: Nodes, x: str, least: ArrayLike, most: ArrayLike) -> str:
    """Clips x to [least, most]. With the straight-through estimator, the derivative at both limits is one."""
    if not nodes.straight_through:
        return nodes.emit("Clip", x, least, most)
    above = nodes.emit("Where", nodes.emit("Less", x, least), least, x)
    return nodes.emit("Where", nodes.emit("Greater", x, most), most, above)


def _per_element(nodes: Nodes, node: "onnx.NodeProto", scale: str) -> str:
    """Reshapes or repeats a scale or a zero point so that it broadcasts to the shape of the node's first operand."""
    given, shape = nodes.attributes(node), nodes.shape(node.input[0])
    axis, block = given.get("axis", 1), given.get("block_size", 0)
    if not scale or not block:
        return scale and _along(nodes, scale, axis, len(shape))
    n = shape[axis % len(shape)]
    if n is None:
        raise Unsupported(
            "the axis of a quantization in blocks needs a static size; set it with --size NAME=N"
        )
    return nodes.emit("Gather", scale, np.arange(n) // block, axis=axis)


def _quantize(nodes: Nodes, node: "onnx.NodeProto") -> str | None:
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
    return _quantized(
        nodes, x, _per_element(nodes, node, scale), _per_element(nodes, node, zero), to, x, like
    )


def _dequantize(nodes: Nodes, node: "onnx.NodeProto") -> str | None:
    given = nodes.attributes(node)
    x, scale, zero = (operand(node, i) for i in range(3))
    of, to = _dtype(nodes, x), _dtype(nodes, scale)
    if of is None or of.name not in (*_NARROW, "int32") or to not in (np.float16, np.float32):
        return None
    if given.get("output_dtype") or not nodes.has_rank(scale):
        return None
    kind = nodes.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(to))
    nodes.again = True  # the emitted casts may have rewrites
    number = nodes.emit("Cast", nodes.floats.get(x, x), to=kind)
    if zero:
        number = nodes.emit("Sub", number, nodes.emit("Cast", _per_element(nodes, node, zero), to=kind))
    return nodes.emit("Mul", number, _per_element(nodes, node, scale))


def _product(
    nodes: Nodes, node: "onnx.NodeProto", axes: tuple[int, int, int], multiply: Callable[[str, str], str]
) -> str | None:
    """Rewrites a quantized product, or returns None if the element types are not supported.

    `axes` has the axes of the first operand, of the second operand and of the result along which vectors of scales lie.
    """
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
        nodes,
        product,
        _along(nodes, sy, axes[2], rank),
        _along(nodes, zy, axes[2], rank),
        to,
        node.output[0],
        like,
    )


def _qlinear_conv(nodes: Nodes, node: "onnx.NodeProto") -> str | None:
    given, bias = nodes.attributes(node), operand(node, 8)

    def convolve(x: str, w: str) -> str:
        more = [nodes.emit("Cast", bias, to=nodes.onnx.TensorProto.FLOAT)] if bias else []
        return nodes.emit("Conv", x, w, *more, **given)

    return _product(nodes, node, (0, 0, 1), convolve)


def _qlinear_matmul(nodes: Nodes, node: "onnx.NodeProto") -> str | None:
    """Rewrites a product of matrices if each operand has a single scale. Returns None if a scale is a vector."""
    if any(nodes.shape(node.input[i]) not in ([], [1]) for i in (1, 4)):
        return None
    return _product(nodes, node, (-2, -1, -1), lambda x, w: nodes.emit("MatMul", x, w))


def _conv_integer(nodes: Nodes, node: "onnx.NodeProto") -> str | None:
    x, w, zx, zw = (operand(node, i) for i in range(4))
    rank = len(nodes.shape(x))
    product = nodes.emit(
        "Conv",
        _centred(nodes, x, zx, 1, rank, np.float32),
        _centred(nodes, w, zw, 0, rank, np.float32),
        **nodes.attributes(node),
    )
    return _with_float(nodes, nodes.emit("Cast", product, to=nodes.onnx.TensorProto.INT32), product)


def _matmul_integer(nodes: Nodes, node: "onnx.NodeProto") -> str | None:
    """Computes the product in floats if an operand has a derivative (straight-through estimator).

    Otherwise returns None, because torch-mlir lowers the product of integers.
    """
    x, w, zx, zw = (operand(node, i) for i in range(4))
    if x not in nodes.floats and w not in nodes.floats:
        return None
    product = nodes.emit(
        "MatMul",
        _centred(nodes, x, zx, -2, len(nodes.shape(x)), np.float32),
        _centred(nodes, w, zw, -1, len(nodes.shape(w)), np.float32),
    )
    return _with_float(nodes, nodes.emit("Cast", product, to=nodes.onnx.TensorProto.INT32), product)


# ---- other nodes that read quantized values ------------------------------------------------------------------

_MOVES = frozenset(
    (
        *("Concat", "DepthToSpace", "Expand", "Flatten", "Gather", "Identity", "MaxPool", "Reshape", "Slice"),
        *("SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze"),
    )
)
"""The types of nodes whose results consist of elements of their operands."""

_WITHOUT_DERIVATIVE = frozenset({"CastLike", "Equal", "Greater", "Less", "Shape", "Size"})


def pass_through(nodes: Nodes, node: "onnx.NodeProto") -> str | None:
    """Continues the straight-through estimator at a node that reads a value in `Nodes.floats`.

    Applies a node that rearranges elements, such as Reshape, to the float value too, and returns None. Replaces a Cast
    by a Cast of the float value, and returns the name of the new result. Raises `Unsupported` for an arithmetic node,
    because the estimator defines no derivative of its result.
    """
    read = [nodes.renamed.get(x, x) for x in _read_by(node)]
    if not any(x in nodes.floats for x in read) or node.op_type in (*QUANTIZED, *_WITHOUT_DERIVATIVE):
        return None
    if node.op_type == "Cast":
        return nodes.emit("Cast", nodes.floats[node.input[0]], to=nodes.attributes(node)["to"])
    if node.op_type == "Clip" and all(nodes.constant(node, i) is not None for i in (1, 2)):
        limits = [np.asarray(nodes.constant(node, i), np.float32) for i in (1, 2)]
        nodes.floats[node.output[0]] = _clipped(nodes, nodes.floats[node.input[0]], *limits)
        return None
    if node.op_type not in _MOVES:
        raise Unsupported(
            "the straight-through estimator has no derivative of arithmetic on quantized numbers; dequantize them first"
        )
    copy = nodes.onnx.NodeProto()
    copy.CopyFrom(node)
    data = range(len(node.input)) if node.op_type == "Concat" else range(1)
    for i in data:
        x = node.input[i]
        copy.input[i] = nodes.floats.get(x) or nodes.emit("Cast", x, to=nodes.onnx.TensorProto.FLOAT)
    for i, y in enumerate(node.output):
        copy.output[i] = nodes.fresh() if y else ""
        if y and (node.op_type != "MaxPool" or not i):
            nodes.floats[y] = copy.output[i]
    nodes.emitted.append(copy)
    nodes.again = True  # the copy may have a rewrite
    return None


def _read_by(node: "onnx.NodeProto") -> Iterator[str]:
    """Yields the names of all values that a node and its subgraphs read, and of the values that subgraphs return."""
    yield from node.input
    for attribute in node.attribute:
        yield from (y.name for y in attribute.g.output)
        for inner in attribute.g.node:
            yield from _read_by(inner)


_REWRITES: dict[str, Callable[[Nodes, Any], str | None]] = {
    "ConvInteger": _conv_integer,
    "DequantizeLinear": _dequantize,
    "MatMulInteger": _matmul_integer,
    "QLinearConv": _qlinear_conv,
    "QLinearMatMul": _qlinear_matmul,
    "QuantizeLinear": _quantize,
}


def _rewritten(nodes: Nodes, node: "onnx.NodeProto") -> str | None:
    """The name of the value that replaces the node's result. Returns None if the node has no rewrite.

    Raises `Unsupported` if a node without a rewrite needs a derivative.
    """
    found = _REWRITES[node.op_type](nodes, node)
    is_active = node.op_type == "QuantizeLinear" or any(x in nodes.floats for x in node.input)
    if found is None and nodes.straight_through and is_active:
        raise Unsupported(
            "the straight-through estimator supports only f16 and f32, 8- and 16-bit integers, and known ranks"
        )
    return found


QUANTIZED = dict.fromkeys(_REWRITES, _rewritten)
"""Maps each quantized operator type to the function that rewrites its nodes."""
