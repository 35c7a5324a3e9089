"""Rewrites ONNX nodes as formulas in other nodes, because torch-mlir cannot lower them or lowers them wrongly."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tiduc.dialect.errors import Unsupported
from tiduc.models.onnx.nodes import Nodes, operand

if TYPE_CHECKING:
    import onnx


def _mod(nodes: Nodes, node: "onnx.NodeProto") -> str | None:
    """The remainder with the sign of the divisor, computed from `fmod`, whose result has the sign of the dividend."""
    x, y = node.input
    zero = nodes.like(node, 0)
    if nodes.attributes(node).get("fmod") or zero.dtype.kind in "ub":
        return None
    rest = nodes.emit("Mod", x, y, fmod=1)
    # torch-mlir multiplies by the divisor, which gives NaN if the divisor is infinite.
    if zero.dtype.kind == "f":
        whole = nodes.emit("Equal", nodes.emit("Abs", y), np.asarray(np.inf, zero.dtype))
        finite = nodes.emit("Less", nodes.emit("Abs", x), np.asarray(np.inf, zero.dtype))
        rest = nodes.emit("Where", nodes.emit("And", whole, finite), x, rest)
    differs = nodes.emit("Xor", nodes.emit("Less", rest, zero), nodes.emit("Less", y, zero))
    across = nodes.emit("And", differs, nodes.emit("Not", nodes.emit("Equal", rest, zero)))
    return nodes.emit("Where", across, nodes.emit("Add", rest, y), rest)


def _sum(nodes: Nodes, x: str, axis: int) -> str:
    if nodes.version >= 13:
        return nodes.emit("ReduceSum", x, np.asarray([axis], np.int64), keepdims=1)
    return nodes.emit("ReduceSum", x, axes=[axis], keepdims=1)


def _lp_normalization(nodes: Nodes, node: "onnx.NodeProto") -> str | None:
    given = nodes.attributes(node)
    x, axis = node.input[0], given.get("axis", -1) % len(nodes.shape(node.input[0]))
    if given.get("p", 2) == 1:
        size = _sum(nodes, nodes.emit("Abs", x), axis)
    else:
        size = nodes.emit("Sqrt", _sum(nodes, nodes.emit("Mul", x, x), axis))
    is_zero = nodes.emit("Equal", size, nodes.like(node, 0))
    return nodes.emit("Div", x, nodes.emit("Where", is_zero, nodes.like(node, 1), size))


def _one_hot(nodes: Nodes, node: "onnx.NodeProto") -> str | None:
    depth, shape = nodes.constant(node, 1), nodes.shape(node.input[0])
    if depth is None or None in shape:
        raise Unsupported("OneHot is supported for a constant depth and static shapes only")
    count, rank = int(depth.reshape(-1)[0]), len(shape) + 1
    axis = nodes.attributes(node).get("axis", -1) % rank
    i64 = nodes.onnx.TensorProto.INT64
    places = nodes.emit("Cast", node.input[0], to=i64)
    sizes = np.asarray([*shape[:axis], 1, *shape[axis:]], np.int64)
    places = nodes.emit("Reshape", places, sizes) if rank > 1 else places
    numbers = np.arange(count).reshape([count if d == axis else 1 for d in range(rank)])
    hit = nodes.emit("Or", nodes.emit("Equal", places, numbers), nodes.emit("Equal", places, numbers - count))
    off, on = (nodes.emit("Gather", node.input[2], np.asarray(i, np.int64), axis=0) for i in (0, 1))
    return nodes.emit("Where", hit, on, off)


def _swish(nodes: Nodes, node: "onnx.NodeProto") -> str | None:
    x = node.input[0]
    alpha = nodes.like(node, nodes.attributes(node).get("alpha", 1.0))
    return nodes.emit("Mul", x, nodes.emit("Sigmoid", nodes.emit("Mul", x, alpha)))


def _of_booleans(nodes: Nodes, node: "onnx.NodeProto") -> str | None:
    """Rewrites a reduction of booleans as a reduction of integers."""
    if nodes.like(node, 0).dtype.kind != "b":
        return None
    kind = nodes.onnx.TensorProto
    x = nodes.emit("Cast", node.input[0], to=kind.INT32)
    y = nodes.emit(node.op_type, x, *node.input[1:], **nodes.attributes(node))
    # If there are no elements, the maximum is the lowest integer, and the result is False.
    return nodes.emit("Greater", y, np.zeros((), np.int32))


def _hardmax(nodes: Nodes, node: "onnx.NodeProto") -> str | None:
    """One at the first maximum along the axis, and zero elsewhere."""
    shape, dtype = nodes.shape(node.input[0]), nodes.like(node, 0).dtype
    axis = nodes.attributes(node).get("axis", -1 if nodes.version >= 13 else 1) % len(shape)
    n = shape[axis]
    if n is None or nodes.version < 13:
        raise Unsupported("Hardmax is supported for a static size of its axis and opset 13 or later only")
    first = nodes.emit("ArgMax", node.input[0], axis=axis, keepdims=1)
    places = np.arange(n).reshape([n if d == axis else 1 for d in range(len(shape))])
    to = nodes.onnx.helper.np_dtype_to_tensor_dtype(dtype)
    return nodes.emit("Cast", nodes.emit("Equal", first, places), to=to)


def _clip(nodes: Nodes, node: "onnx.NodeProto") -> str | None:
    """Rewrites Clip if it has no limits, or limits that are not constants."""
    limits = [
        (op, node.input[i]) for op, i in (("Max", 1), ("Min", 2)) if i < len(node.input) and node.input[i]
    ]
    if limits and all(name in nodes.constants for _, name in limits):
        return None
    if not limits:
        return nodes.emit("Identity", node.input[0])
    x: str = node.input[0]
    for op, limit in limits:
        x = nodes.emit(op, x, limit)
    return x


def _slice(nodes: Nodes, node: "onnx.NodeProto") -> str | None:
    """Rewrites Slice with a negative step as a gather along each sliced dimension."""
    starts, ends, axes, steps = (nodes.constant(node, i) for i in (1, 2, 3, 4))
    if starts is None or ends is None or steps is None or (steps > 0).all():
        return None
    shape = nodes.shape(node.input[0])
    x: str = node.input[0]
    along = range(len(starts)) if axes is None else axes.tolist()
    for axis, start, end, step in zip(along, starts.tolist(), ends.tolist(), steps.tolist(), strict=True):
        n = shape[axis]
        if n is None:
            raise Unsupported(
                "Slice with a negative step needs static sizes of the dimensions that it slices"
            )
        places = np.arange(n)[slice(start, end if end >= -n else None, step)]
        x = nodes.emit("Gather", x, places, axis=axis % len(shape))
    return x


def _dropout(nodes: Nodes, node: "onnx.NodeProto") -> list[str] | None:
    """In training mode, x / (1 - ratio) where a random mask is True, and 0 elsewhere. In other modes, x.

    torch-mlir would return a mask that is True everywhere.
    """
    x, training = node.input[0], nodes.constant(node, 2)
    if (training is None and operand(node, 2)) or nodes.version < 12:
        return None
    if training is None or not training.all():
        results = [nodes.emit("Identity", x)]
        if len(node.output) > 1 and node.output[1]:
            results.append(nodes.hold(np.ones(nodes.sizes(x), bool)))
        return results
    ratio = nodes.constant(node, 1) if operand(node, 1) else np.float32(0.5)
    if ratio is None:
        return None
    kept = 1 - float(ratio)
    numbers = nodes.emit("RandomUniformLike", x, dtype=nodes.onnx.TensorProto.FLOAT)
    mask = nodes.emit("Less", numbers, np.asarray(kept, np.float32))
    scaled = nodes.emit("Mul", x, nodes.like(node, 1 / kept if kept else 0))
    results = [nodes.emit("Where", mask, scaled, nodes.like(node, 0))]
    return results + [mask] * (len(node.output) > 1 and bool(node.output[1]))


FORMULAS: dict[str, Callable[[Nodes, Any], str | list[str] | None]] = {
    "Clip": _clip,
    "Dropout": _dropout,
    "Hardmax": _hardmax,
    "LpNormalization": _lp_normalization,
    "Mod": _mod,
    "OneHot": _one_hot,
    "ReduceMax": _of_booleans,
    "ReduceMin": _of_booleans,
    "Slice": _slice,
    "Swish": _swish,
}
"""Maps a node type to its rewrite. A rewrite returns None if it does not apply."""
