"""Derives the values of operands that determine shapes, such as axes, from the result shapes that a model declares.

    y: 2x6 = Reshape(x, shape)           shape = [2, 6]
    y: 3x1x2 = ReduceSum(x: 3x2x2, axes) axes = [1]
    y: 3x2 = ReduceSum(x: 3x2x2, axes)   axes = [1] or [2]: both are computed, and the program selects

An exporter that leaves axes, sizes or counts as inputs still declares the shapes of the results. The
program does not check whether the value of such an input agrees with the declared shape.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import combinations
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from tiduc.models.onnx.inputs import decisive_positions
from tiduc.models.onnx.nodes import Nodes, operand

if TYPE_CHECKING:
    import onnx

_MOST = 8
"""The maximum number of candidates for the axes of an operator. The operator is computed for each candidate."""


def fix_operands(nodes: Nodes, node: "onnx.NodeProto") -> None:
    """Replaces operands by constants if the declared shapes determine their values. Changes the node in place."""
    rule = _RULES.get(node.op_type)
    for i in _undecided(nodes, node):
        if nodes.is_static(node.input[i]) and 0 in nodes.sizes(node.input[i]):
            node.input[i] = nodes.hold(np.zeros(nodes.sizes(node.input[i]), nodes.dtype(node.input[i])))
    undecided = _undecided(nodes, node)
    if rule is None or not undecided or not _all_static(nodes, node):
        return
    for i, numbers in rule(nodes, node).items():
        sizes = nodes.sizes(node.input[i]) if i in undecided else []
        if i in undecided and np.size(numbers) == prod(sizes):
            node.input[i] = nodes.hold(np.asarray(numbers, nodes.dtype(node.input[i])).reshape(sizes))


def select_axes(nodes: Nodes, node: "onnx.NodeProto") -> str | None:
    """Replaces a node whose axes are known only at run time, and returns the name of the result.

    Emits the node for each choice of axes that matches the declared shape, and selects the result for the axes given at
    run time. Returns None if the node has no such axes, or if no choice or too many choices match.
    """
    i = 1 if node.op_type.startswith("Reduce") else _AXIS.get(node.op_type)
    if i is None or i not in _undecided(nodes, node) or not _all_static(nodes, node):
        return None
    rank, name = len(nodes.shape(node.input[0])), node.input[i]
    candidates = list(_candidates(nodes, node, i))
    if not 0 < len(candidates) <= _MOST:
        return None
    nodes.again = True  # the new nodes must be rewritten, too
    variants = []
    for axes in candidates:
        fixed = np.asarray(axes, nodes.dtype(name)).reshape(nodes.sizes(name))
        operands = [*node.input[:i], fixed, *node.input[i + 1 :]]
        variants.append(nodes.emit(node.op_type, *operands, **nodes.attributes(node)))
    result = variants[0]
    count = np.asarray(rank, nodes.dtype(name))
    places = nodes.emit("Mod", nodes.emit("Add", name, count), count, fmod=1)
    for axes, variant in zip(candidates[1:], variants[1:], strict=True):
        result = nodes.emit("Where", _are_all_in(nodes, name, places, axes), variant, result)
    return result


def _are_all_in(nodes: Nodes, name: str, places: str, axes: tuple[int, ...]) -> str:
    """Emits whether the operand `name` lists only axes in `axes`. `places` has its entries as nonnegative numbers."""
    numbers = [np.asarray(axis, nodes.dtype(name)) for axis in axes]
    found = nodes.emit("Equal", places, numbers[0])
    for number in numbers[1:]:
        found = nodes.emit("Or", found, nodes.emit("Equal", places, number))
    if not nodes.sizes(name):
        return found
    least = nodes.emit("ReduceMin", nodes.emit("Cast", found, to=nodes.onnx.TensorProto.INT32), keepdims=0)
    return nodes.emit("Greater", least, np.int32(0))


# ---- facts -------------------------------------------------------------------------------------------------


def _undecided(nodes: Nodes, node: "onnx.NodeProto") -> list[int]:
    """The positions of non-constant operands that determine the result's shape or form."""
    return [i for i in decisive_positions(node) if operand(node, i) and nodes.constant(node, i) is None]


def _all_static(nodes: Nodes, node: "onnx.NodeProto") -> bool:
    names = [node.input[0], *node.output, *(node.input[i] for i in _undecided(nodes, node))]
    return all(nodes.is_static(name) for name in names if name)


def _x(nodes: Nodes, node: "onnx.NodeProto") -> list[int]:
    return nodes.sizes(node.input[0])


def _y(nodes: Nodes, node: "onnx.NodeProto") -> list[int]:
    return nodes.sizes(node.output[0])


# ---- sizes -------------------------------------------------------------------------------------------------


Fixed = Mapping[int, Any]
"""Maps positions of operands to values of these operands."""


def _result_shape(position: int) -> Callable[[Nodes, Any], Fixed]:
    return lambda nodes, node: {position: _y(nodes, node)}


def _reshape(nodes: Nodes, node: "onnx.NodeProto") -> Fixed:
    y = _y(nodes, node)
    return {} if 0 in y and not nodes.attributes(node).get("allowzero") else {1: y}


def _expand(nodes: Nodes, node: "onnx.NodeProto") -> Fixed:
    y = _y(nodes, node)
    return {1: y[len(y) - prod(nodes.sizes(node.input[1])) :]}


def _unit_axes(short: list[int], long: list[int]) -> list[int]:
    """The positions in `long` of the sizes 1 that `short` lacks. If there are several choices, the last ones."""
    axes, i = [], 0
    for d, n in enumerate(long):
        if i < len(short) and short[i] == n and len(long) - d - 1 >= len(short) - i - 1:
            i += 1
        else:
            axes.append(d)
    return axes


def _tile(nodes: Nodes, node: "onnx.NodeProto") -> Fixed:
    x, y = _x(nodes, node), _y(nodes, node)
    return {} if 0 in x else {1: [m // n for n, m in zip(x, y, strict=True)]}


def _split(nodes: Nodes, node: "onnx.NodeProto") -> Fixed:
    axis = nodes.attributes(node).get("axis", 0)
    return {1: [nodes.sizes(y)[axis] for y in node.output]}


def _top_k(nodes: Nodes, node: "onnx.NodeProto") -> Fixed:
    return {1: [_y(nodes, node)[nodes.attributes(node).get("axis", -1)]]}


def _along_axes(position: int) -> Callable[[Nodes, Any], Fixed]:
    """A rule for an operand that holds the sizes of the result along the attribute `axes` (default: all axes)."""

    def fix(nodes: Nodes, node: "onnx.NodeProto") -> Fixed:
        y = _y(nodes, node)
        axes = nodes.attributes(node).get("axes", range(len(y)))
        return {position: [y[d] for d in axes]}

    return fix


def _resize(nodes: Nodes, node: "onnx.NodeProto") -> Fixed:
    policy = nodes.attributes(node).get("keep_aspect_ratio_policy", "stretch")
    return _along_axes(3)(nodes, node) if policy == "stretch" else {}


def _one_hot(nodes: Nodes, node: "onnx.NodeProto") -> Fixed:
    return {1: _y(nodes, node)[nodes.attributes(node).get("axis", -1)]}


def _dft(nodes: Nodes, node: "onnx.NodeProto") -> Fixed:
    """The length is the size of the result along the axis, unless the transform is one-sided and not inverse."""
    given, axis = nodes.attributes(node), nodes.constant(node, 2)
    if (axis is None and operand(node, 2)) or (given.get("onesided") and not given.get("inverse")):
        return {}
    default = given.get("axis", 1) if nodes.version < 20 else -2
    return {1: _y(nodes, node)[default if axis is None else int(axis.reshape(-1)[0])]}


def _affine_grid(nodes: Nodes, node: "onnx.NodeProto") -> Fixed:
    count, *sizes, _ = _y(nodes, node)
    return {1: [count, 1, *sizes]}  # the number of channels has no influence


def _col2im(nodes: Nodes, node: "onnx.NodeProto") -> Fixed:
    """The sizes of the image, and the sizes of the block if the shapes determine them."""
    given, image = nodes.attributes(node), _y(nodes, node)[2:]
    rank, (_, rows, places) = len(image), _x(nodes, node)
    steps, dilations = (given.get(name, [1] * rank) for name in ("strides", "dilations"))
    pads = given.get("pads", [0] * 2 * rank)
    elements = rows // _y(nodes, node)[1]
    blocks = []
    for block in np.ndindex(*(n + pads[d] + pads[rank + d] for d, n in enumerate(image))):
        block = tuple(n + 1 for n in block)
        if prod(block) == elements and places == prod(
            (image[d] + pads[d] + pads[rank + d] - dilations[d] * (block[d] - 1) - 1) // steps[d] + 1
            for d in range(rank)
        ):
            blocks.append(block)
    return {1: image, **({2: blocks[0]} if len(blocks) == 1 else {})}


_RULES: dict[str, Callable[[Nodes, Any], Fixed]] = {
    "AffineGrid": _affine_grid,
    "BlackmanWindow": _result_shape(0),
    "CenterCropPad": _along_axes(1),
    "Col2Im": _col2im,
    "ConstantOfShape": _result_shape(0),
    "DFT": _dft,
    "Expand": _expand,
    "HammingWindow": _result_shape(0),
    "HannWindow": _result_shape(0),
    "OneHot": _one_hot,
    "Reshape": _reshape,
    "Resize": _resize,
    "Split": _split,
    "Squeeze": lambda nodes, node: {1: _unit_axes(_y(nodes, node), _x(nodes, node))},
    "Tile": _tile,
    "TopK": _top_k,
    "Unsqueeze": lambda nodes, node: {1: _unit_axes(_x(nodes, node), _y(nodes, node))},
}
"""Maps a node type to a rule, which returns the values of operands that follow from the shapes."""


# ---- axes --------------------------------------------------------------------------------------------------


_AXIS = {"CumProd": 1, "CumSum": 1, "DFT": 2}
"""Maps a node type to the position of the operand that is the axis."""


def _candidates(nodes: Nodes, node: "onnx.NodeProto", i: int) -> Iterator[tuple[int, ...]]:
    """The candidates for operand i, which is a list of axes, that give the declared shape of the result."""
    x, y = _x(nodes, node), _y(nodes, node)
    keeps = nodes.attributes(node).get("keepdims", 1)
    for axes in combinations(range(len(x)), prod(nodes.sizes(node.input[i]))):
        if node.op_type == "DFT":  # the last dimension has the parts of complex numbers
            others = [d for d in range(len(x) - 1) if d not in axes]
            if len(x) - 1 in axes or any(x[d] != y[d] for d in others):
                continue
            shape = y
        elif not node.op_type.startswith("Reduce"):
            shape = y
        elif keeps:
            shape = [1 if d in axes else n for d, n in enumerate(x)]
        else:
            shape = [n for d, n in enumerate(x) if d not in axes]
        if shape == y:
            yield axes
            if node.op_type.startswith("Reduce") and keeps:
                return  # other candidates reduce other dimensions of size 1, so their results are equal
