"""Rewrites ONNX's Resize and Upsample, one dimension at a time.

In mode nearest, a dimension is resized by a gather, and otherwise by a product with a matrix. Scales and sizes need not
be constants if the model declares the shape of the result.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from tiduc.dialect.errors import Unsupported
from tiduc.models.interpolation import table
from tiduc.models.onnx.nodes import Nodes, operand
from tiduc.models.onnx.tensors import Tensor, maximum, minimum, tensor, where

if TYPE_CHECKING:
    import onnx


def resize(nodes: Nodes, node: "onnx.NodeProto") -> str:
    given = {"mode": "nearest", "coordinate_transformation_mode": "half_pixel", **nodes.attributes(node)}
    is_old = node.op_type == "Upsample" or nodes.version < 11
    if is_old:
        given |= {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    given["mode"] = {"bilinear": "linear"}.get(given["mode"], given["mode"])
    shape = nodes.shape(node.input[0])
    axes = [d % len(shape) for d in given.get("axes", range(len(shape)))]
    region = _read(nodes, operand(node, 1)) if not is_old else None
    scales, sizes = _scales_and_sizes(nodes, node, given, shape, axes, is_old)
    x: Any = node.input[0]
    masks = []
    for i, d in enumerate(axes):
        n, m, scale = shape[d], sizes[i], scales[i]
        crops = given["coordinate_transformation_mode"] == "tf_crop_and_resize"
        if not crops and not isinstance(scale, Tensor) and scale == 1:
            continue  # not skipped if the scale is an operand, which may differ from 1 although the sizes are equal
        if n is None or m is None:
            raise Unsupported(
                "a dimension that is resized has a dynamic size; set the size with --size NAME=N"
            )
        parts = None if region is None or not crops else (region[i], region[len(axes) + i])
        weights, outside = table(n, m, scale, parts, given)
        x = _along(nodes, node, x, d, len(shape), weights)
        masks += (
            [] if outside is None else [outside.reshape(*(m if e == d else 1 for e in range(len(shape))))]
        )
    if masks:
        y = Tensor(nodes, x, nodes.dtype(node.input[0]), nodes.sizes(node.output[0]))
        for mask in masks:
            y = where(mask, np.asarray(given.get("extrapolation_value", 0.0), y.dtype), y)
        x = y.name
    return x if x != node.input[0] else nodes.emit("Identity", x)


def _read(nodes: Nodes, name: str) -> Any:
    """The vector named `name`: an array if it is a constant, else a `Tensor`. Returns None if it is absent or empty."""
    if not name or (nodes.is_static(name) and 0 in nodes.sizes(name)):
        return None
    found = tensor(nodes, name)
    return found if isinstance(found, Tensor) else found.astype(np.float64)


def _scales_and_sizes(
    nodes: Nodes, node: "onnx.NodeProto", given: Any, shape: list[int | None], axes: list[int], is_old: bool
) -> tuple[list[Any], list[int | None]]:
    """Two lists with an entry for each resized axis: the scales, and the sizes of the result."""
    scales = (
        np.asarray(given["scales"]) if "scales" in given else _read(nodes, operand(node, 1 if is_old else 2))
    )
    sizes = _read(nodes, operand(node, 3))
    whole = [shape[d] for d in axes]
    y = node.output[0]
    declared: list[int | None] = (
        [nodes.shape(y)[d] for d in axes] if nodes.has_rank(y) else [None] * len(axes)
    )
    if scales is not None:
        if isinstance(scales, Tensor):
            return [scales[i] for i in range(len(axes))], declared
        pairs = zip(whole, scales.tolist(), strict=True)
        return scales.tolist(), [None if n is None else int(np.floor(n * s)) for n, s in pairs]
    if sizes is None or (isinstance(sizes, Tensor) and None in declared):
        raise Unsupported(
            "the scales or sizes are not known: set them with --constant, or declare the shape of the result"
        )
    policy = given.get("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        final: list[int | None] = declared if isinstance(sizes, Tensor) else [int(m) for m in sizes]
        return [1.0 if m == n else (m or 0) / (n or 1) for n, m in zip(whole, final, strict=True)], final
    if isinstance(sizes, Tensor):
        sizes = sizes.astype(np.float32)
    smallest = minimum if policy == "not_larger" else maximum
    scale = sizes[0] / (whole[0] or 1)
    for i, n in enumerate(whole[1:]):
        scale = smallest(scale, sizes[i + 1] / (n or 1))
    if isinstance(scale, Tensor):
        return [scale] * len(axes), declared
    return [float(scale)] * len(axes), [int(np.floor((n or 0) * scale + 0.5)) for n in whole]


def _along(nodes: Nodes, node: "onnx.NodeProto", x: str, d: int, rank: int, weights: Tensor) -> str:
    """Multiplies x by the matrix `weights` along dimension d, or gathers from x if `weights` is a vector of indices."""
    dtype = nodes.dtype(node.input[0])
    if len(weights.shape) == 1:
        index = weights.name if isinstance(weights, Tensor) else weights
        return nodes.emit("Gather", x, index, axis=d)
    weights = weights.astype(dtype)
    held = weights.name if isinstance(weights, Tensor) else weights
    if d == rank - 2:
        return nodes.emit("MatMul", held, x)
    order = [e for e in range(rank) if e != d] + [d]
    last = x if d == rank - 1 else nodes.emit("Transpose", x, perm=order)
    turned = weights.transpose(1, 0)
    product = nodes.emit(
        "MatMul", last, turned.name if isinstance(turned, Tensor) else np.ascontiguousarray(turned)
    )
    if d == rank - 1:
        return product
    return nodes.emit("Transpose", product, perm=[int(e) for e in np.argsort(order)])
