"""Rewrites ONNX's GridSample and DeformConv: weighted sums of elements at positions that depend on data.

Source: ONNX's specification of the operators GridSample and DeformConv. The parameter a of the cubic weights is -0.75.
"""

from collections.abc import Callable, Sequence
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from tiduc.models.interpolation import cubic
from tiduc.models.onnx.nodes import Nodes, operand
from tiduc.models.onnx.tensors import (
    Tensor,
    absolute,
    clip,
    floor,
    held,
    matmul,
    maximum,
    take,
    tensor,
    where,
)

if TYPE_CHECKING:
    import onnx


_TAPS = {"nearest": (0,), "linear": (0, 1), "cubic": (-1, 0, 1, 2)}


def grid_sample(nodes: Nodes, node: "onnx.NodeProto") -> str:
    given = nodes.attributes(node)
    mode = given.get("mode", "linear")
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    padding, is_aligned = given.get("padding_mode", "zeros"), bool(given.get("align_corners", 0))
    x, grid = (held(nodes, tensor(nodes, name)) for name in node.input)
    count, channels, *sizes = x.shape
    rank, places = len(sizes), grid.shape[1:-1]
    points = []
    for d, n in enumerate(sizes):
        g = grid[..., rank - 1 - d].reshape(count, prod(places))
        at = (g + 1) * ((n - 1) / 2) if is_aligned else ((g + 1) * n - 1) * 0.5
        points.append(_inside(at, n, padding, is_aligned) if mode != "cubic" else at)
    rows = sampled(x, points, mode, padding, is_aligned)
    order = [0, rank + 1, *range(1, rank + 1)]
    return str(rows.reshape(count, *places, channels).transpose(*order).name)


def _inside(x: Tensor, n: int, padding: str, is_aligned: bool) -> Any:
    """Maps coordinates outside a dimension of size n to coordinates inside, for padding by border or by reflection.

    Returns x unchanged for padding by zeros, which the caller handles.
    """
    if padding == "border":
        return clip(x, 0, n - 1)
    if padding != "reflection":
        return x
    low, high = (0.0, n - 1.0) if is_aligned else (-0.5, n - 0.5)
    if high == low:
        return x * 0
    span = high - low
    away = absolute(x - low)
    turns = floor(away / span)
    rest = away - turns * span
    is_odd = (turns - floor(turns / 2) * 2) > 0.5
    return clip(where(is_odd, high - rest, rest + low), 0, n - 1)


def sampled(x: Tensor, points: Sequence[Tensor], mode: str, padding: str, is_aligned: bool = True) -> Any:
    """Interpolates x, of shape N x C x spatial dimensions, at P points per batch entry. The result is N x P x C.

    `points` has a tensor of N x P coordinates for each spatial dimension.
    """
    count, channels, *sizes = x.shape
    rank = len(sizes)
    flat = x.transpose(0, *range(2, rank + 2), 1).reshape(count * prod(sizes), channels)
    total: Any = None
    firsts = [p.emit("Round", shape=p.shape) if mode == "nearest" else floor(p) for p in points]
    for taps in product(_TAPS[mode], repeat=rank):
        index: Any = np.arange(count)[:, None]
        weight: Any = None
        for p, first, tap, n in zip(points, firsts, taps, sizes, strict=True):
            place = first + tap
            part: Any = _WEIGHTS[mode](absolute(p - place))
            if padding == "zeros":
                is_there = ((place >= 0) & (place <= n - 1)).astype(x.dtype)
                part = is_there if part is None else part * is_there
            elif mode == "cubic":
                place = _inside(place, n, padding, is_aligned)
            weight = part if weight is None else weight if part is None else weight * part
            index = clip(place, 0, n - 1).astype(np.int64) + index * n
        rows = take(flat, index.reshape(-1), 0).reshape(count, points[0].shape[1], channels)
        rows = rows if weight is None else rows * weight.reshape(count, points[0].shape[1], 1)
        total = rows if total is None else total + rows
    return total


_WEIGHTS: dict[str, Callable[[Any], Any]] = {
    "nearest": lambda away: None,
    "linear": lambda away: maximum(1 - away, 0),
    "cubic": lambda away: cubic(away, -0.75),
}
"""Maps a mode to the function from the distance of an element to its weight. The weight None means one."""


def deformable(nodes: Nodes, node: "onnx.NodeProto") -> str:
    """Rewrites DeformConv: samples x at the offset positions of each window, then multiplies by the weights."""
    given = nodes.attributes(node)
    x, w, offset = (held(nodes, tensor(nodes, node.input[i])) for i in (0, 1, 2))
    bias, mask = (tensor(nodes, node.input[i]) if operand(node, i) else None for i in (3, 4))
    rank, kernel = len(x.shape) - 2, w.shape[2:]
    steps, dilations = (given.get(name, [1] * rank) for name in ("strides", "dilations"))
    pads, groups, shared = (
        given.get("pads", [0] * 2 * rank),
        given.get("group", 1),
        given.get("offset_group", 1),
    )
    count, channels, places = x.shape[0], x.shape[1], offset.shape[2:]
    taps, total = prod(kernel), prod(places)
    offsets = offset.reshape(count, shared, taps, rank, total)
    columns = []
    for group in range(shared):
        points: list[Any] = []
        for d in range(rank):
            out = np.arange(places[d]) * steps[d] - pads[d]
            tap = np.arange(kernel[d]) * dilations[d]
            at_out = np.broadcast_to(out.reshape([-1 if e == d else 1 for e in range(rank)]), places).reshape(
                -1
            )
            at_tap = np.broadcast_to(tap.reshape([-1 if e == d else 1 for e in range(rank)]), kernel).reshape(
                -1
            )
            base = (at_tap[:, None] + at_out[None, :]).reshape(1, -1)
            points.append(offsets[:, group, :, d, :].reshape(count, taps * total) + base)
        part = channels // shared
        rows = sampled(x[:, group * part : (group + 1) * part], points, "linear", "zeros")
        if mask is not None:
            own = mask.reshape(count, shared, taps * total)
            rows = rows * held(nodes, own)[:, group].reshape(count, taps * total, 1)
        columns.append(rows.reshape(count, taps, total, part).transpose(0, 3, 1, 2))
    whole = (
        columns[0]
        if len(columns) == 1
        else columns[0].emit("Concat", *columns[1:], shape=(count, channels, taps, total), axis=1)
    )
    whole = whole.reshape(count, groups, channels // groups * taps, total)
    y = matmul(w.reshape(1, groups, w.shape[0] // groups, channels // groups * taps), whole)
    y = y.reshape(count, w.shape[0], *places)
    return str((y if bias is None else y + bias.reshape(1, -1, *[1] * rank)).name)
