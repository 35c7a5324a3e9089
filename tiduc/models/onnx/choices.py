"""Rewrites ONNX nodes that choose elements by comparing them with each other.

NonMaxSuppression    boxes sorted by score; a loop drops each box that overlaps an earlier kept box too much
Unique               elements sorted by stablehlo.sort; the first of each run of equal ones is kept

The number of chosen elements depends on data, but the shape of the result must be static. The model, or `sizes`, must
therefore declare the number. The program omits surplus elements, and pads missing ones with -1 (boxes) or with copies
(elements).
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tiduc.models.emitted_text import Body, TextTensor
from tiduc.models.onnx.moves import first_places, take_in_batch
from tiduc.models.onnx.nodes import Nodes, operand
from tiduc.models.onnx.tensors import Tensor, call, concatenate, held, maximum, minimum, take, tensor, where
from tiduc.runtime.arrays import Array

if TYPE_CHECKING:
    import onnx


# ---- boxes -------------------------------------------------------------------------------------------------


def non_max_suppression(nodes: Nodes, node: "onnx.NodeProto") -> str:
    count = nodes.chosen(node.output[0], 0)
    boxes, scores = (held(nodes, tensor(nodes, node.input[i])) for i in (0, 1))
    batch, classes, n = scores.shape
    most, overlap, least = (
        tensor(nodes, name).reshape() if (name := operand(node, i)) else None for i in (2, 3, 4)
    )
    scores, order = _sorted(scores.reshape(batch * classes, n), largest=True)
    rows = np.repeat(np.arange(batch), classes)
    boxes = take_in_batch(take(boxes, rows, 0), order, 0, 1)
    limit = np.zeros((), boxes.dtype) if overlap is None else overlap
    is_centred = bool(nodes.attributes(node).get("center_point_box"))
    conflicts = _overlaps(boxes, is_centred, limit) & np.triu(np.ones((n, n), bool), 1)
    kept = held(nodes, np.ones((batch * classes, n), bool)) if least is None else scores > least
    kept = _suppressed(conflicts, kept)
    place = kept.astype(np.int32).emit("CumSum", np.asarray(1), shape=kept.shape)
    wide = place.astype(np.int64)
    kept = (kept & (wide <= (np.int64(0) if most is None else most))).reshape(-1)
    chosen = first_places(nodes, kept, count)
    box = take(order.reshape(-1), chosen, 0)
    columns = [_quotient(chosen, classes * n), _remainder(_quotient(chosen, n), classes), box]
    triples = concatenate([x.reshape(count, 1) for x in columns], 1)
    return str(where(take(kept, chosen, 0).reshape(count, 1), triples, np.int64(-1)).name)


def _sorted(x: Tensor, largest: bool) -> tuple[Tensor, Tensor]:
    """The sorted elements of each row, and the indices of these elements in x. Equal elements keep their order."""
    values, places = x.nodes.fresh(), x.nodes.fresh()
    n = x.nodes.hold(np.asarray(x.shape[-1:], np.int64))
    x.nodes.emitted.append(
        x.nodes.onnx.helper.make_node("TopK", [x.name, n], [values, places], axis=-1, largest=int(largest))
    )
    return Tensor(x.nodes, values, x.dtype, x.shape), Tensor(x.nodes, places, np.int64, x.shape)


def _overlaps(boxes: Tensor, is_centred: bool, limit: Array | Tensor) -> Tensor:
    """For each two boxes of a row, whether their intersection over union exceeds the limit. Shape: (rows, n, n)."""
    if is_centred:  # x, y, width, height
        centre, half = boxes[..., 0:2], boxes[..., 2:4] / 2
        low, high = centre - half, centre + half
    else:  # two opposite corners
        low, high = (f(boxes[..., 0:2], boxes[..., 2:4]) for f in (minimum, maximum))
    rows, n, _ = boxes.shape
    of_x, of_y = ((x.reshape(rows, n, 1, 2), x.reshape(rows, 1, n, 2)) for x in (low, high))
    common = maximum(minimum(*of_y) - maximum(*of_x), 0)
    shared = common[..., 0] * common[..., 1]
    size = high - low
    area = size[..., 0] * size[..., 1]
    union = area.reshape(rows, n, 1) + area.reshape(rows, 1, n) - shared
    is_sound = (area.reshape(rows, n, 1) > 0) & (area.reshape(rows, 1, n) > 0) & (shared > 0)
    overlaps: Tensor = is_sound & (shared / where(is_sound, union, 1) > limit)
    return overlaps


def _suppressed(conflicts: Tensor, kept: Tensor) -> Tensor:
    """A mask of the boxes in each row that do not conflict with an earlier box of the mask."""
    n = kept.shape[1]

    def build(body: Body, conflicts: TextTensor, kept: TextTensor) -> list[TextTensor]:
        by_box = body.transpose(conflicts, [1, 0, 2])

        def step(i: TextTensor, kept: TextTensor) -> list[TextTensor]:
            is_kept = body.rows_of(body.at(body.transpose(kept, [1, 0]), i), kept)
            drops = body.emit("and", [is_kept, body.at(by_box, i)], kept.sizes)
            return [body.emit("and", [kept, body.emit("not", [drops], kept.sizes)], kept.sizes)]

        return body.loop(n, step, [kept])

    return call("NonMaxSuppression", [conflicts, kept], build)[0]


def _quotient(x: Tensor, n: int) -> Tensor:
    return x.emit("Div", np.asarray(n, x.dtype), shape=x.shape)


def _remainder(x: Tensor, n: int) -> Tensor:
    return x.emit("Mod", np.asarray(n, x.dtype), shape=x.shape, fmod=1)


# ---- elements ----------------------------------------------------------------------------------------------


def unique(nodes: Nodes, node: "onnx.NodeProto") -> list[str]:
    given = nodes.attributes(node)
    x = held(nodes, tensor(nodes, node.input[0]))
    x = x.reshape(-1) if "axis" not in given else x
    axis = given.get("axis", 0) % len(x.shape)
    n, count = x.shape[axis], nodes.chosen(node.output[0], axis)
    order, is_new = _runs(x, axis)
    starts = first_places(nodes, is_new, count)
    first = take(order, starts, 0)
    ends = concatenate([starts[1:], np.asarray([n])], 0)
    run = is_new.astype(np.int64).emit("CumSum", np.asarray(0), shape=[n]) - 1
    counts = ends - starts
    if not given.get("sorted", 1):
        first, place = _sorted(first, largest=False)
        counts = take(counts, place, 0)
        run = take(_put(place, held(nodes, np.arange(count))), run, 0)
    inverse = _put(order, run)
    return [y.name for y in (take(x, first, axis), first, inverse, counts)]


def _put(places: Tensor, values: Tensor) -> Tensor:
    """A permutation of the values. Element `places[i]` of the result is element i of `values`."""
    zeros = held(places.nodes, np.zeros(places.shape, values.dtype))
    return zeros.emit("ScatterElements", places, values, shape=places.shape, axis=0)


def _runs(x: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """Returns the indices that sort the slices of x along an axis, and a mask of the sorted slices.

    The mask is true where a sorted slice differs from the previous one.
    """
    n = x.shape[axis]
    rows = x.transpose(axis, *(d for d in range(len(x.shape)) if d != axis)).reshape(n, -1)
    columns = rows.shape[1]

    def is_less(body: Body, x: TextTensor, y: TextTensor) -> TextTensor:
        """Whether x < y. NaN is greater than any number."""
        less = body.compare(x, y, "LT")
        if "f" not in x.element:
            return less
        is_new = body.emit("and", [body.compare(y, y, "NE"), body.compare(x, x, "EQ")], x.sizes)
        return body.emit("or", [less, is_new], x.sizes)

    def comes_before(body: Body, xs: Sequence[TextTensor], ys: Sequence[TextTensor]) -> TextTensor:
        """Whether xs comes before ys in lexicographic order."""
        (x, *others), (y, *more) = xs, ys
        less = is_less(body, x, y)
        if not others:
            return less
        below = body.emit("not", [is_less(body, y, x)], x.sizes)
        later = body.emit("and", [below, comes_before(body, others, more)], x.sizes)
        return body.emit("or", [less, later], x.sizes)

    def build(body: Body, rows: TextTensor) -> list[TextTensor]:
        keys = [body.reshape(body.slice(rows, [(0, n), (k, k + 1)]), [n]) for k in range(columns)]
        given = [*keys, body.convert(body.iota([n], 0), "i64")]
        types = [((), x.element) for x in given for _ in range(2)]
        region = body.region(types, lambda *xs: [comes_before(body, xs[:-2:2], xs[1:-2:2])])
        attributes = "dimension = 0 : i64, is_stable = true"
        *keys, order = body.emit_all(
            "sort", given, [(x.sizes, x.element) for x in given], attributes, [region]
        )
        before, after = ([body.slice(x, [part]) for x in keys] for part in ((0, n - 1), (1, n)))
        first = body.constant("true", [1], "i1")
        return [order, body.concatenate([first, comes_before(body, before, after)], 0)]

    order, is_new = call("Unique", [rows], build)
    return order, is_new


CHOICES: dict[str, Callable[[Nodes, Any], str | list[str]]] = {
    "NonMaxSuppression": non_max_suppression,
    "Unique": unique,
}
"""Maps a node type to its rewrite."""
