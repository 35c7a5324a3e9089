"""Rewrites ONNX nodes that gather, scatter, accumulate or reinterpret elements.

BitCast                                     stablehlo.bitcast_convert
Col2Im                                      ScatterElements, which adds the blocks into an image
CumProd                                     log2(n) products of shifted arrays
Compress                                    a gather at the indices where the condition is true, found by TopK
NonZero                                     the indices of nonzero elements, found by TopK
ReverseSequence, TensorScatter              a gather with separate indices for each entry of a batch
ScatterElements, ScatterND with reduction   stablehlo.scatter
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tiduc.dialect.errors import Unsupported
from tiduc.models.emitted_text import Body, TextTensor
from tiduc.models.onnx.nodes import Nodes, element, operand
from tiduc.models.onnx.tensors import Tensor, clip, concatenate, held, take, tensor, where

if TYPE_CHECKING:
    import onnx


def bit_cast(nodes: Nodes, node: "onnx.NodeProto") -> list[str]:
    to = nodes.onnx.helper.tensor_dtype_to_np_dtype(nodes.attributes(node)["to"])

    def emit(body: Body, x: TextTensor) -> list[TextTensor]:
        return [body.emit("bitcast_convert", [x], x.sizes, element=element(to))]

    return nodes.call("BitCast", [node.input[0]], emit)


# ---- accumulation ------------------------------------------------------------------------------------------


def cumulative_product(nodes: Nodes, node: "onnx.NodeProto") -> str:
    """Computes CumProd by doubling. After step k, element i is the product of the elements i - 2^k + 1 to i of x."""
    axis, given = nodes.constant(node, 1), nodes.attributes(node)
    if axis is None:
        raise Unsupported(f"the axis is not a constant; set it with --constant {node.input[1]}=N")
    x = held(nodes, tensor(nodes, node.input[0]))
    d = int(axis.reshape(-1)[0]) % len(x.shape)
    n, width = x.shape[d], 1
    backward = np.arange(n)[::-1].copy()
    if given.get("reverse"):
        x = take(x, backward, d)
    if given.get("exclusive"):
        sizes = [1 if e == d else m for e, m in enumerate(x.shape)]
        x = concatenate([np.ones(sizes, x.dtype), take(x, np.arange(n - 1), d)], d)
    while width < n:
        rest = take(x, np.arange(n - width), d) * take(x, np.arange(width, n), d)
        x, width = concatenate([take(x, np.arange(width), d), rest], d), 2 * width
    return (take(x, backward, d) if given.get("reverse") else x).name


def scatter(nodes: Nodes, node: "onnx.NodeProto") -> list[str] | None:
    """Rewrites ScatterElements and ScatterND with a reduction. Returns None for a node without a reduction."""
    reduction = nodes.attributes(node).get("reduction", "none")
    if reduction == "none":
        return None
    combine = {"add": "add", "mul": "multiply", "max": "maximum", "min": "minimum"}[reduction]
    if node.op_type == "ScatterElements":
        axis = nodes.attributes(node).get("axis", 0)

        def build(body: Body, x: TextTensor, index: TextTensor, updates: TextTensor) -> list[TextTensor]:
            rank = len(x.sizes)
            wide = [*index.sizes, 1]
            places = [body.reshape(body.convert(index, "i64"), wide)] * rank
            for d in range(rank):
                if d != axis % rank:
                    places[d] = body.reshape(body.convert(body.iota(index.sizes, d), "i64"), wide)
            return _scattered(body, x, body.concatenate(places, rank), updates, rank, combine)
    else:

        def build(body: Body, x: TextTensor, index: TextTensor, updates: TextTensor) -> list[TextTensor]:
            return _scattered(body, x, body.convert(index, "i64"), updates, index.sizes[-1], combine)

    for name in node.input:
        nodes.sizes(name)
    return nodes.call("scatter", list(node.input), build)


def _scattered(
    body: Body, x: TextTensor, index: TextTensor, updates: TextTensor, count: int, combine: str
) -> list[TextTensor]:
    """Scatters the updates into x, and combines elements with the op `combine`.

    An index consists of `count` numbers, which address the first `count` dimensions of x. Negative numbers count from
    the end of the dimension.
    """
    last = len(index.sizes) - 1
    shape = body.constant(str(list(x.sizes[:count])), [count], "i64")
    zero = body.zeros(index.sizes, "i64")
    is_negative = body.compare(index, zero, "LT")
    index = body.select(is_negative, body.add(index, body.broadcast(shape, [last], index.sizes)), index)
    window = list(range(last, len(updates.sizes)))
    numbers = (
        f"update_window_dims = {window}, inserted_window_dims = {list(range(count))}, "
        f"scatter_dims_to_operand_dims = {list(range(count))}, index_vector_dim = {last}"
    )
    flags = "indices_are_sorted = false, unique_indices = false"
    attributes = f"scatter_dimension_numbers = #stablehlo.scatter<{numbers}>, {flags}"
    region = body.region([((), x.element)] * 2, lambda a, b: [body.emit(combine, [a, b], [])])
    return body.emit_all("scatter", [x, index, updates], [(x.sizes, x.element)], attributes, [region])


def column_to_image(nodes: Nodes, node: "onnx.NodeProto") -> str:
    """Adds each block into the image at the block's position.

    Elements of blocks that are in the padding are added to one extra element, which the result leaves out.
    """
    image, block = (nodes.constant(node, i) for i in (1, 2))
    if image is None or block is None:
        raise Unsupported("the sizes of the image and of a block are not constants; set them with --constant")
    given, rank = nodes.attributes(node), len(image)
    steps, dilations = (given.get(name, [1] * rank) for name in ("strides", "dilations"))
    pads = given.get("pads", [0] * 2 * rank)
    index, is_inside = np.zeros((1, 1), np.int64), np.ones((1, 1), bool)
    for d, (n, k) in enumerate(zip(image.tolist(), block.tolist(), strict=True)):
        count = (n + pads[d] + pads[rank + d] - dilations[d] * (k - 1) - 1) // steps[d] + 1
        place = np.arange(k)[:, None] * dilations[d] + np.arange(count) * steps[d] - pads[d]
        whole = index[:, None, :, None] * n + place[None, :, None, :]
        inside = is_inside[:, None, :, None] & ((place >= 0) & (place < n))[None, :, None, :]
        shape = (index.shape[0] * k, index.shape[1] * count)
        index, is_inside = whole.reshape(shape), inside.reshape(shape)
    size = int(np.prod(image))
    x = held(nodes, tensor(nodes, node.input[0]))
    batch, channels = x.shape[0], x.shape[1] // index.shape[0]
    rows = x.reshape(batch * channels, index.size)
    places = np.broadcast_to(np.where(is_inside, index, size).reshape(-1), rows.shape)
    zeros = held(nodes, np.zeros((rows.shape[0], size + 1), x.dtype))
    nodes.again = True
    total = zeros.emit("ScatterElements", places, rows, shape=zeros.shape, axis=1, reduction="add")
    return total[:, :size].reshape(batch, channels, *image.tolist()).name


# ---- indices that depend on data ---------------------------------------------------------------------------


def first_places(nodes: Nodes, condition: Tensor, count: int) -> Tensor:
    """The indices of the first `count` true elements of a vector of booleans, in ascending order.

    If fewer elements are true, the indices of false elements follow.
    """
    number = condition.astype(np.int32).name
    values, places = nodes.fresh(), nodes.fresh()
    nodes.emitted.append(
        nodes.onnx.helper.make_node(
            "TopK", [number, nodes.hold(np.asarray([count]))], [values, places], axis=0
        )
    )
    return Tensor(nodes, places, np.int64, [count])


def compress(nodes: Nodes, node: "onnx.NodeProto") -> str:
    axis = nodes.attributes(node).get("axis")
    x, condition = (held(nodes, tensor(nodes, name)) for name in node.input)
    x = x.reshape(-1) if axis is None else x
    count = nodes.chosen(node.output[0], (axis or 0) % len(x.shape))
    return take(x, first_places(nodes, condition, count), axis or 0).name


def non_zero(nodes: Nodes, node: "onnx.NodeProto") -> str:
    x = held(nodes, tensor(nodes, node.input[0]))
    count = nodes.chosen(node.output[0], 1)
    is_set = x.reshape(-1) if x.dtype == bool else ~x.reshape(-1).equals(0)
    flat, rows = first_places(nodes, is_set, count), []
    for d in range(len(x.shape)):
        step = int(np.prod(x.shape[d + 1 :]))
        whole = flat.emit("Div", np.asarray(step), shape=flat.shape)
        rows.append(whole.emit("Mod", np.asarray(x.shape[d]), shape=flat.shape, fmod=1).reshape(1, count))
    return str(concatenate(rows, 0).name)


# ---- batches -----------------------------------------------------------------------------------------------


def take_in_batch(x: Tensor, index: Tensor, batch: int, axis: int) -> Tensor:
    """Gathers along `axis` with separate indices for each entry of the dimension `batch`.

    If `batch` is 0 and `axis` is 1, the result is y[b, i] = x[b, index[b, i]]. `index` may be a tensor or an array.
    """
    others = [d for d in range(len(x.shape)) if d not in (batch, axis)]
    order = [batch, axis, *others]
    moved = x.transpose(*order)
    count, n = moved.shape[:2]
    flat = index + n * np.arange(count)[:, None]
    rows = take(moved.reshape(count * n, *moved.shape[2:]), flat.reshape(-1), 0)
    whole = rows.reshape(count, index.shape[1], *moved.shape[2:])
    return whole.transpose(*(int(d) for d in np.argsort(order)))


def reverse_sequence(nodes: Nodes, node: "onnx.NodeProto") -> str:
    given = nodes.attributes(node)
    batch, time = given.get("batch_axis", 1), given.get("time_axis", 0)
    x = held(nodes, tensor(nodes, node.input[0]))
    lengths = tensor(nodes, node.input[1]).reshape(-1, 1)
    t = np.arange(x.shape[time])[None, :]
    index = where(lengths > t, lengths - 1 - t, t + 0 * lengths)
    return take_in_batch(x, index, batch, time).name


def tensor_scatter(nodes: Nodes, node: "onnx.NodeProto") -> str:
    given = nodes.attributes(node)
    x, updates = (held(nodes, tensor(nodes, node.input[i])) for i in (0, 1))
    axis = given.get("axis", -2) % len(x.shape)
    n, count = x.shape[axis], updates.shape[axis]
    first: Any = np.zeros(x.shape[0], np.int64)
    if operand(node, 2):
        first = tensor(nodes, node.input[2])
    away = np.arange(n)[None, :] - first.reshape(-1, 1)
    if given.get("mode", "linear") == "circular":
        away = where(away < 0, away + n, away)
    is_new = (away >= 0) & (away < count)
    new = take_in_batch(updates, clip(away, 0, count - 1), 0, axis)
    sizes = [m if d in (0, axis) else 1 for d, m in enumerate(x.shape)]
    return str(where(is_new.reshape(*sizes), new, x).name)


MOVES: dict[str, Callable[[Nodes, Any], str | list[str] | None]] = {
    "BitCast": bit_cast,
    "Col2Im": column_to_image,
    "Compress": compress,
    "CumProd": cumulative_product,
    "NonZero": non_zero,
    "ReverseSequence": reverse_sequence,
    "ScatterElements": scatter,
    "ScatterND": scatter,
    "TensorScatter": tensor_scatter,
}
"""Maps each node type of this module to the function that rewrites it."""
