"""Evaluates StableHLO ops on arrays whose elements are indices of scalar ops (`numbers.py`).

    %1 = stablehlo.slice %0 [1:3]      the second and third index in the array %0; no new scalar op
    %2 = stablehlo.add %1, %c          two new scalar ops `add`

Ops that only move elements move the indices in NumPy's arrays. One dimension of an array, such as a batch, may be its
`lane`. All indices along the lane, which are called places, share their scalar ops, so the lane has size 1 in `ids`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch_mlir import ir

from tiduc.backends.iree.static.scalars.numbers import KINDS, ScalarOps, TooLarge
from tiduc.dialect.graph.functions import functions_in, symbol
from tiduc.dialect.graph.graph import operations
from tiduc.dialect.ops.contractions import Contraction
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.ops.traits import ASSOCIATIVE, ELEMENTWISE
from tiduc.dialect.ops.verify import SEED

_MOST_WORK = 2**20
"""The most elements and products that all ops together may compute. Evaluating this many takes about a second."""

_OP_WORK = 32
"""The cost of evaluating one op, in elements, in addition to the cost of the elements that it computes."""

_DEEPEST = 50

Ids = NDArray[np.int64]


class ScalarArray(NamedTuple):
    """An array whose elements are scalar ops: `ids` has, for each element, the index of the op that computes it.

    All indices along the dimension `lane` share their ops, so `ids` has size 1 along this dimension. `tangent` says
    that the array is computed from basis vectors of a Jacobian.
    """

    ids: Ids
    lane: int | None = None
    tangent: bool = False


class Evaluation:
    """Evaluates the functions of a module on arrays of scalar ops. `rules` maps names of ops to their functions.

    If `vectors` is not 0, the lane is the dimension of the basis vectors of a Jacobian, and `vectors` is their number.
    """

    def __init__(
        self, numbers: ScalarOps, module: IrOp, rules: "Mapping[str, Rule]", vectors: int = 0
    ) -> None:
        self.numbers = numbers
        self._rules = rules
        self._vectors = vectors
        self._sizes: dict[ir.Type, int] = {}
        self._work = 0
        self._functions = {symbol(op): op for op in functions_in(module)}
        self._known: list[
            dict[IrValue, ScalarArray]
        ] = []  # the values of each function that is being evaluated

    def run(self, function: IrOp, arguments: Sequence[ScalarArray]) -> list[ScalarArray]:
        """Returns the results of a function. Raises `TooLarge` if it cannot be expressed by few scalar ops."""
        if len(self._known) > _DEEPEST:
            raise TooLarge("nested calls")
        self._known.append({})
        results = self.block(function.regions[0].blocks[0], arguments)
        self._known.pop()
        return results

    def block(self, block: ir.Block, arguments: Sequence[ScalarArray]) -> list[ScalarArray]:
        """Evaluates the ops of a block of the current function. Returns the values that the block returns."""
        known = self._known[-1]
        known |= zip(block.arguments, arguments, strict=True)
        for op in operations(block):
            xs = [known[x] for x in op.operands]
            if op.name in ("func.return", "stablehlo.return"):
                return xs
            known |= zip(op.results, self._results(op, xs), strict=True)
        raise TooLarge("a function without a return")

    def _results(self, op: IrOp, xs: Sequence[ScalarArray]) -> list[ScalarArray]:
        name = op.name.removeprefix("stablehlo.")
        if name == "optimization_barrier":
            return list(xs)
        if op.name == "func.call":
            return self.run(self._functions[ir.FlatSymbolRefAttr(op.attributes["callee"]).value], xs)
        self.spend(_OP_WORK)
        for y in op.results:
            self._check(y.type)
        if op.name in ELEMENTWISE:
            found: ScalarArray | list[ScalarArray] = self._elementwise(op, name, xs)
        elif name in self._rules:
            found = self._rules[name](self, op, xs)
        else:
            raise TooLarge(op.name)
        tangent = any(x.tangent for x in xs)
        if isinstance(found, list):  # for control flow, `tangent` of each result is already set
            return found if len(op.regions) else [y._replace(tangent=tangent) for y in found]
        if SEED in op.attributes and self._vectors:
            found, tangent = self._basis_vectors(found, kind_of(op.results[0])), True
        elif SEED in op.attributes:
            zeros = [self.numbers.value(i) == 0 for i in found.ids.ravel().tolist()]
            zero = self.numbers.zero(kind_of(op.results[0]))
            found = ScalarArray(np.where(np.reshape(zeros, found.ids.shape), zero, found.ids), found.lane)
            tangent = True
        return [found._replace(tangent=tangent)]

    def _basis_vectors(self, x: ScalarArray, kind: str) -> ScalarArray:
        """Makes the first dimension of a unit matrix the lane. Raises `TooLarge` for other arrays."""
        if not np.array_equal(x.ids == self.numbers.constant(1, kind), np.eye(self._vectors)):
            raise TooLarge("another number of basis vectors")
        return ScalarArray(np.array([[self.numbers.basis(i, kind) for i in range(self._vectors)]]), 0)

    def _check(self, type_: ir.Type) -> None:
        """Spends the work for a value of a type. Raises `TooLarge` if scalar ops cannot represent the value."""
        size = self._sizes.get(type_)
        if size is None:
            size = self._sizes[type_] = self._size(type_)
        self.spend(size)

    @staticmethod
    def _size(type_: ir.Type) -> int:
        if not isinstance(type_, ir.RankedTensorType) or str(type_.element_type) not in KINDS:
            raise TooLarge(f"a value of type {type_}")
        if not type_.has_static_shape or not math.prod(type_.shape):
            raise TooLarge(f"a value of type {type_}")
        return math.prod(type_.shape)

    def spend(self, work: int) -> None:
        """Adds `work` to the work of the evaluation. Raises `TooLarge` if the total exceeds `_MOST_WORK`."""
        self._work += work
        if self._work > _MOST_WORK:
            raise TooLarge("work")

    def equals(self, index: int, value: int) -> int:
        """Returns the index of an op that is true if the integer of op `index` equals `value`."""
        return self.numbers.apply(
            "EQ", "i1", index, self.numbers.constant(value, self.numbers.all[index].kind)
        )

    def picked(self, kind: str, index: int, options: Sequence[Ids]) -> Ids:
        """Selects one of `options` by the integer of op `index`.

        The least value in the integer's range selects the first option, the next value the second option, and so on.
        """
        first, _ = self.numbers.range(index)
        *others, found = options
        for i, option in reversed(list(enumerate(others))):
            self.spend(option.size)
            found = self.mapped("select", kind, np.array(self.equals(index, first + i)), option, found)
        return found

    # ---- elementwise ops apply a scalar op to each element -----------------------------------------------------

    def _elementwise(self, op: IrOp, name: str, xs: Sequence[ScalarArray]) -> ScalarArray:
        ids, lane = self.aligned(xs, [len(x.type.shape) for x in op.operands])
        kind = kind_of(op.results[0])
        if name == "clamp":
            low, x, high = ids
            return ScalarArray(self.mapped("minimum", kind, self.mapped("maximum", kind, x, low), high), lane)
        if name == "compare":
            if "TOTALORDER" in str(op.attributes["compare_type"] if "compare_type" in op.attributes else ""):
                raise TooLarge("a total order")
            name = str(op.attributes["comparison_direction"]).removeprefix(
                "#stablehlo<comparison_direction "
            )[:-1]
        if name == "divide" and self.numbers.is_finite and xs[0].tangent and not xs[1].tangent:
            one = np.array(self.numbers.constant(1, kind))  # many tangents share the reciprocal
            name, ids[1] = "multiply", self.mapped("divide", kind, one, ids[1])
        return ScalarArray(self.mapped(name, kind, *ids), lane)

    def mapped(self, name: str, kind: str, *xs: Ids) -> Ids:
        """Applies a scalar op to the elements of arrays. Returns the indices of the ops for the resulting elements."""
        arrays = np.broadcast_arrays(*xs)
        found = [
            self.numbers.apply(name, kind, *map(int, of))
            for of in zip(*(x.flat for x in arrays), strict=True)
        ]
        return np.array(found, np.int64).reshape(arrays[0].shape)

    def aligned(self, xs: Sequence[ScalarArray], ranks: Sequence[int]) -> tuple[list[Ids], int | None]:
        """Returns the `ids` of arrays of one shape, and the lane of the arrays, or None if no array has a lane.

        If there is a lane, it has size 1 in all `ids` except those of scalars, which may stand among the arrays. Raises
        `TooLarge` if the arrays have different lanes, or if an array without a lane varies along the lane.
        """
        lanes = {x.lane for x in xs if x.lane is not None}
        if len(lanes) > 1:
            raise TooLarge("places along several dimensions")
        lane = lanes.pop() if lanes else None
        if lane is None:
            return [x.ids for x in xs], None
        return [
            x.ids if x.lane is not None or not n else uniform(x.ids, lane)
            for x, n in zip(xs, ranks, strict=True)
        ], lane

    # ---- these ops move elements or make constants -------------------------------------------------------------

    def constant(self, op: IrOp, xs: Sequence[ScalarArray]) -> ScalarArray:
        kind, sizes = kind_of(op.results[0]), op.results[0].type.shape
        value = op.attributes["value"]
        if not isinstance(value, ir.DenseElementsAttr):
            raise TooLarge("a resource")
        if value.is_splat:
            one = self.numbers.constant(value.get_splat_value().value, kind)
            return ScalarArray(np.full(sizes, one))
        values = np.array(value).reshape(-1)
        if kind == "i1":
            raise TooLarge("a constant of several truth values")
        return ScalarArray(
            np.array([self.numbers.constant(x, kind) for x in values], np.int64).reshape(sizes)
        )

    def iota(self, op: IrOp, xs: Sequence[ScalarArray]) -> ScalarArray:
        sizes, d = list(op.results[0].type.shape), int(op.attributes["iota_dimension"].value)
        kind = kind_of(op.results[0])
        self.spend(sizes[d])
        line = np.array([self.numbers.constant(i, kind) for i in range(sizes[d])], np.int64)
        return ScalarArray(
            np.broadcast_to(line.reshape([-1 if i == d else 1 for i in range(len(sizes))]), sizes)
        )

    def broadcast_in_dim(self, op: IrOp, xs: Sequence[ScalarArray]) -> ScalarArray:
        (x,), sizes, at = xs, list(op.results[0].type.shape), list(op.attributes["broadcast_dimensions"])
        lane = None if x.lane is None else at[x.lane]
        spread = [1] * len(sizes)
        for d, e in enumerate(at):
            spread[e] = x.ids.shape[d]
        order = np.argsort(at)
        turned = np.transpose(x.ids, order) if at else x.ids
        return ScalarArray(np.broadcast_to(turned.reshape(spread), effective(sizes, lane)), lane)

    def reshape(self, op: IrOp, xs: Sequence[ScalarArray]) -> ScalarArray:
        (x,), sizes = xs, list(op.results[0].type.shape)
        lane = None
        if x.lane is not None:
            own = list(op.operands[0].type.shape)
            before, size = math.prod(own[: x.lane]), own[x.lane]
            fits = [d for d, n in enumerate(sizes) if n == size and math.prod(sizes[:d]) == before]
            if not fits:
                raise TooLarge("a reshape across places")
            lane = fits[0]
        return ScalarArray(x.ids.reshape(effective(sizes, lane)), lane)

    def transpose(self, op: IrOp, xs: Sequence[ScalarArray]) -> ScalarArray:
        (x,), order = xs, list(op.attributes["permutation"])
        return ScalarArray(x.ids.transpose(order), None if x.lane is None else order.index(x.lane))

    def slice(self, op: IrOp, xs: Sequence[ScalarArray]) -> ScalarArray:
        (x,), own = xs, list(op.operands[0].type.shape)
        parts = zip(
            *(list(op.attributes[f"{key}"]) for key in ("start_indices", "limit_indices", "strides")),
            strict=True,
        )
        taken = []
        for d, (start, limit, step) in enumerate(parts):
            if d == x.lane and (start, limit, step) != (0, own[d], 1):
                raise TooLarge("a slice of places")
            taken.append(slice(None) if d == x.lane else slice(start, limit, step))
        return ScalarArray(x.ids[tuple(taken)], x.lane)

    def pad(self, op: IrOp, xs: Sequence[ScalarArray]) -> ScalarArray:
        x, fill = xs
        names = "edge_padding_low", "edge_padding_high", "interior_padding"
        low, high, between = (list(op.attributes[name]) for name in names)
        if min([*low, *high, 0]) < 0:
            raise TooLarge("a pad that removes elements")
        if x.lane is not None and (low[x.lane], high[x.lane], between[x.lane]) != (0, 0, 0):
            raise TooLarge("a pad of places")
        (value,) = fill.ids.ravel().tolist()
        if x.tangent and self.numbers.value(value) == 0:
            value = self.numbers.zero(kind_of(op.results[0]))
        found = np.full(effective(list(op.results[0].type.shape), x.lane), value)
        taken = zip(low, x.ids.shape, between, strict=True)
        found[tuple(slice(a, a + max(0, (n - 1) * (s + 1) + 1), s + 1) for a, n, s in taken)] = x.ids
        return ScalarArray(found, x.lane)

    def concatenate(self, op: IrOp, xs: Sequence[ScalarArray]) -> ScalarArray:
        d = int(op.attributes["dimension"].value)
        ids, lane = self.aligned(xs, [1] * len(xs))
        if lane == d:
            raise TooLarge("a concatenation of places")
        return ScalarArray(np.concatenate(ids, d), lane)

    def reverse(self, op: IrOp, xs: Sequence[ScalarArray]) -> ScalarArray:
        (x,), along = xs, list(op.attributes["dimensions"])
        if x.lane in along:
            raise TooLarge("places in reverse")
        return ScalarArray(np.flip(x.ids, tuple(along)), x.lane)

    # ---- reductions and products combine elements --------------------------------------------------------------

    def reduce(self, op: IrOp, xs: Sequence[ScalarArray]) -> ScalarArray:
        if len(xs) != 2 or kind_of(op.operands[0]) != kind_of(op.results[0]):
            raise TooLarge("a reduction")
        x, first = xs
        self.spend(x.ids.size)
        body = op.regions[0].blocks[0]
        inner, *others = operations(body)
        if (
            inner.name not in ASSOCIATIVE
            or set(inner.operands) != set(body.arguments)
            or [list(each.operands) for each in others] != [list(inner.results)]
        ):
            raise TooLarge("a reduction")
        name = inner.name.removeprefix("stablehlo.")
        along = sorted(op.attributes["dimensions"])
        if x.lane in along:
            raise TooLarge("a reduction of places")
        kept = [d for d in range(x.ids.ndim) if d not in along]
        rows = x.ids.transpose([*kept, *along]).reshape([*(x.ids.shape[d] for d in kept), -1])
        kind, (start,) = kind_of(op.results[0]), first.ids.ravel().tolist()
        begin = [] if name == "add" and self.numbers.value(start) == 0 else [start]
        found = [self.total(name, kind, [*begin, *row]) for row in rows.reshape(-1, rows.shape[-1]).tolist()]
        lane = None if x.lane is None else kept.index(x.lane)
        return ScalarArray(np.array(found, np.int64).reshape(rows.shape[:-1]), lane)

    def total(self, name: str, kind: str, terms: Sequence[int]) -> int:
        """Adds ops that reduce `terms` by the op `name`. Returns the index of the op that computes the result.

        If there are no terms, this op is the constant 0.
        """
        if not terms:
            return self.numbers.constant(0, kind)
        sum_ = int(terms[0])
        for term in terms[1:]:
            sum_ = self.numbers.apply(name, kind, sum_, int(term))
        return sum_

    def dot_general(self, op: IrOp, xs: Sequence[ScalarArray]) -> ScalarArray:
        contraction, kind = Contraction.of(op), kind_of(op.results[0])
        if any(kind_of(x) != kind for x in op.operands):
            raise TooLarge("a product of other types")
        ranks = [len(x.type.shape) for x in op.operands]
        lanes = {
            contraction.places(side, ranks).get(x.lane, -1) for side, x in enumerate(xs) if x.lane is not None
        }
        if len(lanes) > 1 or -1 in lanes:
            raise TooLarge("a product across places")
        lane = lanes.pop() if lanes else None
        sides = []
        for side, x in enumerate(xs):
            ids = x.ids
            if lane is not None and x.lane is None and lane < len(contraction.batches[0]):
                ids = uniform(ids, contraction.batches[side][lane])
            batch, summed = contraction.batches[side], contraction.summed[side]
            sides.append((ids, batch, contraction.kept(side, ranks[side]), summed))
        (left, batch, free, summed), (right, batch_, free_, summed_) = sides
        sizes = [
            [left.shape[d] for d in batch],
            [left.shape[d] for d in free],
            [right.shape[d] for d in free_],
        ]
        terms = math.prod(left.shape[d] for d in summed)
        self.spend(math.prod(sizes[0] + sizes[1] + sizes[2]) * terms)
        a = left.transpose([*batch, *free, *summed]).reshape(math.prod(sizes[0]), math.prod(sizes[1]), terms)
        b = right.transpose([*batch_, *free_, *summed_]).reshape(
            math.prod(sizes[0]), math.prod(sizes[2]), terms
        )
        found = [
            self._product(kind, a[i, j], b[i, k])
            for i, j, k in product(*map(range, (a.shape[0], a.shape[1], b.shape[1])))
        ]
        return ScalarArray(np.array(found, np.int64).reshape([n for part in sizes for n in part]), lane)

    def _product(self, kind: str, row: Ids, column: Ids) -> int:
        """Adds ops for the inner product of `row` and `column`. Returns the index of the op that computes it."""
        pairs = zip(row.tolist(), column.tolist(), strict=True)
        return self.total("add", kind, [self.numbers.apply("multiply", kind, x, y) for x, y in pairs])


def uniform(ids: Ids, d: int) -> Ids:
    """Reduces dimension d of an array to its first index. Raises `TooLarge` if the array varies along dimension d."""
    first = np.take(ids, [0], d)
    if not (ids == first).all():
        raise TooLarge("numbers that differ between places of the lane")
    return first


def effective(sizes: Sequence[int], lane: int | None) -> list[int]:
    """The shape of `ScalarArray.ids` for an array with these sizes: the dimension `lane` has size 1."""
    return [1 if d == lane else n for d, n in enumerate(sizes)]


def kind_of(x: IrValue) -> str:
    return str(x.type.element_type)


Rule = Callable[[Evaluation, IrOp, Sequence[ScalarArray]], ScalarArray | list[ScalarArray]]
