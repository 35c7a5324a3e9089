"""Rewrites ONNX nodes whose positions or limits are known only at run time, if the model declares the result's shape.

Slice(x, starts, ends, axes, steps)     x gathered at starts + steps * [0, ..., n - 1], per dimension
Pad(x, pads)                            x gathered at [0, ..., n - 1] - before, where that is inside
Range(start, limit, delta)              start + delta * [0, ..., n - 1]
Trilu(x, k)                             x on the requested side of diagonal k, 0 on the other
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tiduc.models.onnx.nodes import Nodes, operand
from tiduc.models.onnx.tensors import Tensor, absolute, clip, take, tensor, where
from tiduc.runtime.arrays import Array

if TYPE_CHECKING:
    import onnx


def _is_static(nodes: Nodes, node: "onnx.NodeProto") -> bool:
    return all(nodes.is_static(x) for x in (*node.input, node.output[0]) if x)


def slice_(nodes: Nodes, node: "onnx.NodeProto") -> str | None:
    """Rewrites Slice if starts, ends, axes or steps are known only at run time."""
    if nodes.version < 10 or not _is_static(nodes, node) or not node.output[0]:
        return None
    given: list[Any] = [tensor(nodes, x) if x else None for x in (operand(node, i) for i in range(1, 5))]
    starts, _, axes, steps = given
    if all(x in nodes.constants for x in node.input[1:] if x):
        return None
    x, sizes = tensor(nodes, node.input[0]), nodes.sizes(node.output[0])
    rank = len(sizes)
    axes = np.arange(starts.shape[0]) if axes is None else axes
    for d in range(rank):
        n = x.shape[d]
        step = 1 if steps is None else _entry(steps, axes, d, rank, 1)
        start = _entry(starts, axes, d, rank, 0)
        start = where(start < 0, start + n, start)
        start = (
            clip(start, 0, n) if steps is None else where(step < 0, clip(start, 0, n - 1), clip(start, 0, n))
        )
        if isinstance(start, Tensor) or isinstance(step, Tensor) or start or step != 1 or sizes[d] != n:
            places = start + step * np.arange(sizes[d])
            x = take(x, clip(places, 0, max(n - 1, 0)), d)
    return x.name if x.name != node.input[0] else nodes.emit("Identity", x.name)


def _entry(numbers: Tensor | Array, axes: NDArray[Any] | Tensor, d: int, rank: int, default: int) -> Any:
    """The entry of `numbers` for dimension d. Returns `default` if d is not in `axes`."""
    if isinstance(axes, np.ndarray):
        places = [i for i, axis in enumerate(axes.tolist()) if axis % rank == d]
        return numbers[places[0]] if places else np.int64(default)
    found = default
    for i in range(axes.shape[0]):
        axis = axes[i]
        is_here = axis.equals(d) | axis.equals(d - rank)
        found = where(is_here, numbers[i], found)
    return found


def pad(nodes: Nodes, node: "onnx.NodeProto") -> str | None:
    """Rewrites Pad if the widths are known only at run time."""
    if nodes.version < 11 or nodes.constant(node, 1) is not None or not _is_static(nodes, node):
        return None
    mode = nodes.attributes(node).get("mode", "constant")
    x, widths, sizes = tensor(nodes, node.input[0]), tensor(nodes, node.input[1]), nodes.sizes(node.output[0])
    axes = tensor(nodes, node.input[3]) if operand(node, 3) else np.arange(len(sizes))
    value = tensor(nodes, node.input[2]) if operand(node, 2) else np.zeros((), x.dtype)
    if isinstance(value, Tensor):
        value = value.reshape()
    is_inside: Any = None
    for d, m in enumerate(sizes):
        n = x.shape[d]
        places = np.arange(m) - _entry(widths, axes, d, len(sizes), 0)
        inside = (places >= 0) & (places < n)
        shape = [m if e == d else 1 for e in range(len(sizes))]
        inside = inside.reshape(*shape)
        is_inside = inside if is_inside is None else is_inside & inside
        if mode == "reflect":
            period = max(1, 2 * (n - 1))
            places = absolute(_modulo(places + (n - 1), period) - (n - 1))
        elif mode == "wrap":
            places = _modulo(places, n)
        x = take(x, clip(places, 0, max(n - 1, 0)), d)
    return str((x if mode != "constant" else where(is_inside, x, value)).name)


def _modulo(x: Tensor, n: int) -> Any:
    """The remainder of x / n in the range 0 to n - 1."""
    rest = x.emit("Mod", np.asarray(n, x.dtype), shape=x.shape, fmod=1)
    return where(rest < 0, rest + n, rest)


def range_(nodes: Nodes, node: "onnx.NodeProto") -> str | None:
    if not nodes.is_static(node.output[0]) or all(x in nodes.constants for x in node.input):
        return None
    start, delta = (tensor(nodes, node.input[i]) for i in (0, 2))
    dtype = nodes.dtype(node.input[0])
    numbers = np.arange(nodes.sizes(node.output[0])[0]).astype(dtype)
    y = numbers * delta + start
    return y.name if isinstance(y, Tensor) else nodes.hold(y)


def trilu(nodes: Nodes, node: "onnx.NodeProto") -> str | None:
    if nodes.constant(node, 1) is not None or not operand(node, 1) or not nodes.is_static(node.input[0]):
        return None
    x, k = tensor(nodes, node.input[0]), tensor(nodes, node.input[1]).reshape()
    m, n = x.shape[-2:]
    distance = np.arange(n) - np.arange(m)[:, None]
    is_kept = k <= distance if nodes.attributes(node).get("upper", 1) else k >= distance
    return str(where(is_kept, x, np.zeros((), x.dtype)).name)


AT_RUN_TIME: dict[str, Callable[[Nodes, Any], str | None]] = {
    "Pad": pad,
    "Range": range_,
    "Slice": slice_,
    "Trilu": trilu,
}
"""Maps a node type to its rewrite. A rewrite returns None if it does not apply, for example to constant operands."""
