"""sort: stable where it says so, and not in O(n^2)."""

import math
from collections.abc import Sequence
from typing import Any

from torch_mlir import ir

from tiduc.dialect.types import element, is_open, shape
from tiduc.passes.iree.copies import own
from tiduc.passes.iree.emitter import Emitter, legalize
from tiduc.passes.iree.exchanges import network_sort
from tiduc.passes.iree.insertion_sort import insertion_sort, pays
from tiduc.passes.iree.merge_sort import merge_sort, places_along
from tiduc.passes.iree.refused import refused

ALONE = 128
"""Elements that one thread of a GPU may sort by itself, the square of which is no great number of steps."""


@legalize("stablehlo.sort")
def sort(b: Emitter, op: Any) -> Sequence[Any] | None:
    """IREE's sort is not stable, takes O(n^2), and has a row on the stack: on CPUs by merging or insertion.

    On GPUs its code needs more shared memory than there is, or crashes the compiler: by a network of exchanges. Of open
    sizes, there, what compares as equal both ways goes by its place, a further operand, and what others keep, though
    IREE sorts it where it lies, is copied.
    """
    x = op.operands[0]
    given = ir.IntegerAttr(op.attributes["dimension"]).value if "dimension" in op.attributes else -1
    dimension = given % len(x.type.shape)
    if is_open(x.type):
        return _of_open_rows(b, op, dimension)
    if b.cpu:
        return _on_cpus(b, op, dimension)
    return network_sort(b, op, dimension) if math.prod(shape(x)) else list(op.operands)


def _on_cpus(b: Emitter, op: Any, dimension: int) -> Sequence[Any] | None:
    """What stands for the results of a sort of static sizes."""
    sizes = shape(op.operands[0])
    n = sizes[dimension]
    if n < 2 or not math.prod(sizes):
        return list(op.operands)
    rows, count = math.prod(sizes) // n, _read_first(op, dimension)
    if not pays(rows, n, count):
        return merge_sort(b, op, dimension)
    found = insertion_sort(b, op, dimension, count)
    if count == n:
        return found
    # What slices read; the results themselves nothing does.
    for y, first in zip(op.results, found, strict=True):
        for use in list(y.uses):
            part = use.owner.results[0]
            k = part.type.shape[dimension]
            limits = [k if i == dimension else size for i, size in enumerate(sizes)]
            part.replace_all_uses_with(b.slice(first, [0] * len(sizes), limits, [1] * len(sizes)))
    return [b.constant(0, y.type) for y in op.results]


def _read_first(op: Any, dimension: int) -> int:
    """How many along the dimension, from the first on, are all that is read of the results."""
    sizes: list[int] = shape(op.operands[0])
    count = 2  # an array of one place is none to the compiler
    for y in op.results:
        for use in y.uses:
            part = use.owner
            if part.name != "stablehlo.slice" or any(part.attributes["start_indices"]):
                return sizes[dimension]
            if set(part.attributes["strides"]) != {1}:
                return sizes[dimension]
            limits = list(part.attributes["limit_indices"])
            count = max(count, limits[dimension])
            if any(limits[i] != size for i, size in enumerate(sizes) if i != dimension):
                return sizes[dimension]
    return count


def _of_open_rows(b: Emitter, op: Any, dimension: int) -> Sequence[Any] | None:
    """What stands for the results of a sort of open sizes."""
    if b.cpu:
        return merge_sort(b, op, dimension)
    if not 0 <= op.operands[0].type.shape[dimension] <= ALONE:
        raise refused(op, f"its sizes are open, and it sorts more than {ALONE} elements, or may")
    return _by_place(b, op, dimension)


def _by_place(b: Emitter, op: Any, dimension: int) -> Sequence[Any] | None:
    """What stands for the results of a sort where equal elements go by their places; None where that is all one.

    An array that is sorted twice is sorted once: code for both does not always compile.
    """
    stable = "is_stable" in op.attributes and op.attributes["is_stable"].value
    distinct = list(dict.fromkeys(op.operands))
    which = [distinct.index(x) for x in op.operands]
    # An argsort has the places already; behind a barrier IREE does not take it for a top_k, which has ties wrong.
    at = next((i for i, x in enumerate(distinct) if _is_place(x, dimension)), None) if stable else None
    xs = [own(b, op, x) for x in distinct]
    if not stable and len(xs) == len(which):
        for i, x in enumerate(xs):
            op.operands[i] = x
        return None
    if at is not None:
        (xs[at],) = b.barrier(xs[at])
    elif stable:
        at = len(xs)
        xs.append(places_along(b, xs[0], dimension))
    scalars = [ir.RankedTensorType.get([], x.type.element_type) for x in xs for _ in range(2)]

    def before(b: Emitter, *arguments: Any) -> Sequence[Any]:
        pairs = [v for i in which for v in arguments[2 * i : 2 * i + 2]]
        (less,) = b.inlined(op.regions[0], pairs)
        if at is None:
            return [less]
        turned = [v for k in range(0, len(pairs), 2) for v in (pairs[k + 1], pairs[k])]
        (more,) = b.inlined(op.regions[0], turned)
        tied = b.and_(b.not_(more), b.compare(arguments[2 * at], arguments[2 * at + 1], "LT"))
        return [b.or_(less, tied)]

    attributes = {"dimension": op.attributes["dimension"]} if "dimension" in op.attributes else {}
    attributes["is_stable"] = ir.BoolAttr.get(False)
    types = [x.type for x in xs]
    results = b.emit_all("stablehlo.sort", xs, types, attributes, [b.region(scalars, before)])
    return [results[i] for i in which]


def _is_place(x: Any, dimension: int) -> bool:
    """Each element of an operand is its place along the dimension."""
    if not isinstance(x, ir.OpResult) or x.owner.name != "stablehlo.iota":
        return False
    integers = isinstance(element(x), ir.IntegerType) and element(x).width >= 32
    return integers and ir.IntegerAttr(x.owner.attributes["iota_dimension"]).value == dimension
