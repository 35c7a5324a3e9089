"""Slices, gathers and scatters at computed indices. Each result selects among the elements that the index may mean.

%y = stablehlo.dynamic_slice %x, %i, sizes = [1]      %i is 0 or 1:  select(i == 0, x0, x1)
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

import numpy as np
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.backends.iree.static.scalars.arrays import (
    Evaluation,
    Ids,
    ScalarArray,
    effective,
    kind_of,
    uniform,
)
from tiduc.backends.iree.static.scalars.numbers import TooLarge
from tiduc.backends.iree.static.scalars.ranges import LIMITS
from tiduc.dialect.ops.ir_types import IrOp

_BODY_WORK = 16
"""The cost of evaluating a scatter's body for one element, in elements (see `Evaluation.spend`)."""


def dynamic_slice(e: Evaluation, op: IrOp, xs: Sequence[ScalarArray]) -> ScalarArray:
    x, *starts = xs
    sizes = effective(list(op.attributes["slice_sizes"]), x.lane)
    at = {d: _scalar(start) for d, start in enumerate(starts)}
    if x.lane is not None:
        _keep_whole(x, list(op.attributes["slice_sizes"]), list(op.operands[0].type.shape))
        del at[x.lane]
    return ScalarArray(_window(e, kind_of(op.results[0]), x.ids, at, sizes), x.lane)


def dynamic_update_slice(e: Evaluation, op: IrOp, xs: Sequence[ScalarArray]) -> ScalarArray:
    ids, lane = e.aligned(xs[:2], [1, 1])
    x, update = ids
    if lane is not None and len({op.operands[i].type.shape[lane] for i in (0, 1)}) > 1:
        raise TooLarge("an update of some places")
    at = {
        d: _scalar(start) for d, start in enumerate(xs[2:]) if d != lane
    }  # a start along the lane is clamped to 0
    limits = {d: x.shape[d] - update.shape[d] for d in at}
    at = {d: _clamped(e, start, limits[d]) for d, start in at.items()}
    return ScalarArray(_updated(e, kind_of(op.results[0]), x, at, update), lane)


def gather(e: Evaluation, op: IrOp, xs: Sequence[ScalarArray]) -> ScalarArray:
    numbers = hlo.GatherDimensionNumbers(op.attributes["dimension_numbers"])
    x, indices = xs
    own, sizes = list(op.operands[0].type.shape), list(op.attributes["slice_sizes"])
    dropped = [*numbers.collapsed_slice_dims, *numbers.operand_batching_dims]
    kept = [d for d in range(len(own)) if d not in dropped]
    result = list(op.results[0].type.shape)
    outer = [d for d in range(len(result)) if d not in numbers.offset_dims]
    among = [d for d in range(len(op.operands[1].type.shape)) if d != numbers.index_vector_dim]
    # The dimension of each operand for each dimension of the result.
    of_x = dict(zip(kept, numbers.offset_dims, strict=True))
    of_indices = dict(zip(among, outer, strict=True))
    paired = dict(zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True))
    of_x |= {d: of_indices[i] for d, i in paired.items()}
    lane = _common_lane((x, of_x), (indices, of_indices))
    if x.lane is not None and x.lane not in paired:
        _keep_whole(x, sizes, own)
    if x.lane in numbers.start_index_map:
        raise TooLarge("a gather of places")
    ids = _in_lane(x, of_x, lane), _in_lane(indices, of_indices, lane)
    found = np.empty(effective(result, lane), np.int64)
    window = [ids[0].shape[d] if lane is not None and of_x.get(d) == lane else n for d, n in enumerate(sizes)]
    for place, at in _starts(ids[1], numbers.index_vector_dim, numbers.start_index_map):
        of = dict(zip(among, place, strict=True))
        own_ids = ids[0]
        for d, i in paired.items():
            own_ids = np.take(own_ids, [of[i]], d)
        taken = _window(e, kind_of(op.results[0]), own_ids, at, window)
        taken = taken.reshape([n for d, n in enumerate(taken.shape) if d in kept])
        target: list[int | slice] = [slice(None)] * len(result)
        for d, i in zip(outer, place, strict=True):
            target[d] = i
        found[tuple(target)] = taken
    return ScalarArray(found, lane)


def scatter(e: Evaluation, op: IrOp, xs: Sequence[ScalarArray]) -> ScalarArray:
    if len(xs) != 3:
        raise TooLarge("a scatter into several arrays")
    numbers = hlo.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"])
    x, indices, updates = xs
    own, sizes = (list(op.operands[i].type.shape) for i in (0, 2))
    dropped = [*numbers.inserted_window_dims, *numbers.input_batching_dims]
    kept = [d for d in range(len(own)) if d not in dropped]
    outer = [d for d in range(len(sizes)) if d not in numbers.update_window_dims]
    among = [d for d in range(len(op.operands[1].type.shape)) if d != numbers.index_vector_dim]
    # The dimension of the result for each dimension of each operand.
    paired = dict(zip(numbers.scatter_indices_batching_dims, numbers.input_batching_dims, strict=True))
    of_updates = dict(zip(numbers.update_window_dims, kept, strict=True))
    of_updates |= {d: paired[i] for d, i in zip(outer, among, strict=True) if i in paired}
    lane = _common_lane((x, {d: d for d in range(len(own))}), (indices, paired), (updates, of_updates))
    if lane is not None and (
        lane in numbers.scattered_dims_to_operand_dims
        or any(sizes[d] != own[lane] for d, to in of_updates.items() if to == lane)
        or lane not in of_updates.values()
    ):
        raise TooLarge("a scatter of places")
    found = _in_lane(x, {d: d for d in range(len(own))}, lane).copy()
    given, changes = _in_lane(indices, paired, lane), _in_lane(updates, of_updates, lane)
    starts = dict(_starts(given, numbers.index_vector_dim, numbers.scattered_dims_to_operand_dims))
    for place in np.ndindex(changes.shape):  # the order of IREE and of the reference, if updates overlap
        among_indices = tuple(place[d] for d in outer)
        first = [0] * len(own)
        for d, to in zip(kept, numbers.update_window_dims, strict=True):
            first[d] = place[to]
        for i, n in zip(among, among_indices, strict=True):
            if i in paired:
                first[paired[i]] = n
        _update_element(e, op, found, first, starts[among_indices], int(changes[place]))
    return ScalarArray(found, lane)


def _update_element(
    e: Evaluation, op: IrOp, x: Ids, first: Sequence[int], at: Mapping[int, int], change: int
) -> None:
    """Updates an element of x, at `first` plus the places `at` of some dimensions, unless it is outside of x."""
    kind, body = kind_of(op.results[0]), op.regions[0].blocks[0]
    ranges = []
    for d, start in at.items():
        least, most = e.numbers.range(start)
        ranges.append(range(max(least, -first[d]), min(most, x.shape[d] - 1 - first[d]) + 1))
    for starts in product(*ranges):
        e.spend(_BODY_WORK)
        flag, place = e.numbers.constant(True, "i1"), list(first)
        for (d, start), n in zip(at.items(), starts, strict=True):
            flag = e.numbers.apply("and", "i1", flag, e.equals(start, n))
            place[d] += n
        old = int(x[tuple(place)])
        (new,) = e.block(body, [ScalarArray(np.array(i)) for i in (old, change)])
        x[tuple(place)] = e.numbers.apply("select", kind, flag, _scalar(new), old)


# ---- windows ---------------------------------------------------------------------------------------------------


def _window(e: Evaluation, kind: str, x: Ids, at: Mapping[int, int], sizes: Sequence[int]) -> Ids:
    """The elements from the clamped places `at` of some dimensions."""
    for d, size in enumerate(sizes):
        if d not in at:
            x = _part(x, d, 0, size)
    for d, start in at.items():
        start = _clamped(e, start, x.shape[d] - sizes[d])
        first, last = e.numbers.range(start)
        x = e.picked(kind, start, [_part(x, d, s, sizes[d]) for s in range(first, last + 1)])
    return x


def _part(x: Ids, dimension: int, start: int, size: int) -> Ids:
    """A view of x from the index `start` on, along one dimension."""
    return x[(slice(None),) * dimension + (slice(start, start + size),)]


def _updated(e: Evaluation, kind: str, x: Ids, at: Mapping[int, int], change: Ids) -> Ids:
    """x with a change from the places `at` of some dimensions."""
    found = x.copy()
    for starts in product(*(range(first, last + 1) for first, last in map(e.numbers.range, at.values()))):
        e.spend(change.size)
        flag = e.numbers.constant(True, "i1")
        for start, n in zip(at.values(), starts, strict=True):
            flag = e.numbers.apply("and", "i1", flag, e.equals(start, n))
        first_of = dict(zip(at, starts, strict=True))
        place = tuple(slice(first_of.get(d, 0), first_of.get(d, 0) + n) for d, n in enumerate(change.shape))
        found[place] = e.mapped("select", kind, np.array(flag), change, found[place])
    return found


def _clamped(e: Evaluation, start: int, most: int) -> int:
    kind = e.numbers.all[start].kind
    low, high = (e.numbers.constant(n, kind) for n in (0, min(most, LIMITS[kind][1])))
    return e.numbers.apply("minimum", kind, e.numbers.apply("maximum", kind, start, low), high)


def _starts(indices: Ids, vector: int, to: Sequence[int]) -> Iterator[tuple[tuple[int, ...], dict[int, int]]]:
    """Yields the place of each vector of indices, and the vector, by the dimensions that it counts."""
    if vector == indices.ndim:
        indices = indices[..., None]
    vectors = np.moveaxis(indices, vector, -1)
    for place in np.ndindex(vectors.shape[:-1]):
        yield place, dict(zip(to, vectors[place].tolist(), strict=True))


def _scalar(x: ScalarArray) -> int:
    (found,) = x.ids.ravel().tolist()
    return int(found)


# ---- lanes -----------------------------------------------------------------------------------------------------


def _keep_whole(x: ScalarArray, sizes: Sequence[int], own: Sequence[int]) -> None:
    if x.lane is not None and sizes[x.lane] != own[x.lane]:
        raise TooLarge("a slice of places")


def _common_lane(*pairs: tuple[ScalarArray, Mapping[int, int]]) -> int | None:
    """The lane of the result. Each mapping has the dimension of the result for dimensions of the array."""
    lanes = {of.get(x.lane, -1) for x, of in pairs if x.lane is not None}
    if len(lanes) > 1 or -1 in lanes:
        raise TooLarge("indices across places")
    return lanes.pop() if lanes else None


def _in_lane(x: ScalarArray, of: Mapping[int, int], lane: int | None) -> Ids:
    """The numbers of an operand, whose lane is that of the result if it has the lane's dimension."""
    own = [d for d, to in of.items() if to == lane]
    return x.ids if x.lane is not None or lane is None or not own else uniform(x.ids, own[0])
