"""Draws the ops in `array_programs.py` that rearrange elements, such as slices, concatenations, gathers and sorts."""

from collections.abc import Callable

from array_choices import Choices, is_integer
from cases.index_cases import Indexing
from loop_statements import Scope
from loop_text import PARTS, PREDICATE, Kind, Value, integers


class Moves(Choices):
    """Draws ops whose results consist of elements of their operands."""

    def _concatenated(self, scope: Scope, kind: Kind) -> list[Value] | None:
        """Adds a concatenation of up to four arrays. An array may occur several times, or be a slice of another."""
        if not kind.shape:
            return None
        draw, d = self.random, self.random.randrange(len(kind.shape))
        parts: list[Value] = []
        for _ in range(draw.randint(1, 4)):
            if parts and draw.random() < 0.3:
                parts.append(draw.choice(parts))
            elif parts and draw.random() < 0.3 and parts[0].kind.shape[d]:
                parts.append(self._part(parts[0], d))
            else:
                size = draw.choice([kind.shape[d], kind.shape[d], 0, 1, 2, 5])
                parts.append(self._get(scope, self._with(kind, d, size)))
        whole = self._with(kind, d, sum(x.kind.shape[d] for x in parts))
        if not self._fits(whole.shape):
            return None
        return [self.op("concatenate", parts, whole, f"dimension = {d} : i64")]

    def _alike(self, scope: Scope, kind: Kind) -> list[Value] | None:
        """Adds two concatenations of pairs of arrays that have an array in common."""
        if not kind.shape or not self._fits((2, *kind.shape)):
            return None
        d = self.random.randrange(len(kind.shape))
        x, y, z = (self._get(scope, kind) for _ in range(3))
        pairs = self.random.choice([((x, y), (x, z)), ((x, y), (z, y)), ((x, y), (y, x)), ((x, x), (x, y))])
        whole = self._with(kind, d, 2 * kind.shape[d])
        return [self.op("concatenate", pair, whole, f"dimension = {d} : i64") for pair in pairs]

    def _part(self, x: Value, d: int) -> Value:
        first, last = [0] * len(x.kind.shape), list(x.kind.shape)
        first[d] = self.random.randrange(last[d])
        last[d] = self.random.randint(first[d], last[d])
        return self.slice(x, first, last)

    def _sliced(self, scope: Scope, kind: Kind) -> list[Value]:
        """Adds one or two slices of an array, with random strides."""
        x = self._get(scope, kind)
        slices = []
        for _ in range(self.random.randint(1, 2)):
            # No slice starts at the end of its operand, because StableHLO's simplification crashes on such slices of
            # concatenations.
            first = [self.random.randint(0, min(max(n - 1, 0), 4)) for n in kind.shape]
            last = [
                self.random.choice([n, n, self.random.randint(a, n)])
                for a, n in zip(first, kind.shape, strict=True)
            ]
            steps = [self.random.choice([1, 1, 1, 2, 3]) for _ in first]
            slices.append(self.slice(x, first, last, steps))
        return slices

    def _padded(self, scope: Scope, kind: Kind) -> list[Value] | None:
        """Adds a pad with interior padding and possibly negative edge padding. The padding value may be computed."""
        draw, x = self.random, self._get(scope, kind)
        inside = [draw.choice([0, 0, 1, 2]) for _ in kind.shape]
        low = [draw.choice([0, 0, 1, 3, -1, -2]) for _ in kind.shape]
        shape = []
        for n, i, a in zip(kind.shape, inside, low, strict=True):
            size = n + max(n - 1, 0) * i + a + draw.choice([0, 0, 1, 2, -1, -2])
            if size < 0:
                return None
            shape.append(size)
        if not self._fits(shape):
            return None
        value = self._get(scope, Kind((), kind.element)) if draw.random() < 0.5 else None
        return [self.pad(x, low, inside, tuple(shape), value)]

    def _dynamically_sliced(self, scope: Scope, kind: Kind) -> list[Value]:
        sizes = tuple(self.random.choice([n, 1, self.random.randint(0, n)]) if n else 0 for n in kind.shape)
        result = Kind(sizes, kind.element)
        operands = [self._get(scope, kind), *self._places(scope, kind)]
        return [self.op("dynamic_slice", operands, result, f"slice_sizes = {integers(sizes)}")]

    def _dynamically_updated(self, scope: Scope, kind: Kind) -> list[Value]:
        sizes = tuple(self.random.choice([n, 1, self.random.randint(0, n)]) if n else 0 for n in kind.shape)
        update = self._get(scope, Kind(sizes, kind.element))
        return [self.op("dynamic_update_slice", [self._get(scope, kind), update, *self._places(scope, kind)])]

    def _places(self, scope: Scope, kind: Kind) -> list[Value]:
        element = self._index_element(kind.shape)
        return [self._place(scope, element, n) for n in kind.shape]

    def _ordered(self, scope: Scope, kind: Kind) -> list[Value]:
        """Adds a transpose or a reverse."""
        x, rank = self._get(scope, kind), len(kind.shape)
        if self.random.random() < 0.5:
            along = sorted(self.random.sample(range(rank), self.random.randint(0, rank)))
            return [self.op("reverse", [x], kind, f"dimensions = {integers(along)}")]
        order = self.random.sample(range(rank), rank)
        turned = Kind(tuple(kind.shape[i] for i in order), kind.element)
        return [self.op("transpose", [x], turned, f"permutation = {integers(order)}")]

    def _seen(self, scope: Scope, kind: Kind) -> list[Value]:
        """Adds a reshape that merges, splits or inserts dimensions."""
        shape = list(kind.shape)
        for _ in range(self.random.randint(1, 3)):
            chance = self.random.random()
            at = self.random.randint(0, len(shape))
            if chance < 0.35 and len(shape) < 5:
                shape.insert(at, 1)
            elif chance < 0.7 and 0 < at < len(shape):
                shape[at - 1 : at + 1] = [shape[at - 1] * shape[at]]
            elif at < len(shape) and len(shape) < 5:
                divisor = next((n for n in (2, 3, 5, 7) if shape[at] and shape[at] % n == 0), 1)
                shape[at : at + 1] = [divisor, shape[at] // divisor]
        return [self.op("reshape", [self._get(scope, kind)], Kind(tuple(shape), kind.element))]

    def _broadcast(self, scope: Scope, kind: Kind) -> list[Value] | None:
        """Adds a broadcast that adds dimensions, expands unit dimensions, and permutes dimensions."""
        x, rank = self._get(scope, kind), len(kind.shape)
        whole = rank + (self.random.randint(0, 2) if rank < 4 else 0)
        places = self.random.sample(range(whole), rank)
        sizes = [self.random.choice([1, 2, 3, 5, 0, 9]) for _ in range(whole)]
        for i, place in enumerate(places):
            if kind.shape[i] != 1:
                sizes[place] = kind.shape[i]
        if not self._fits(sizes):
            return None
        return [self.broadcast(x, places, Kind(tuple(sizes), kind.element))]

    def _counted(self, scope: Scope, kind: Kind) -> list[Value] | None:
        """Adds an iota, clamped so that later results in floats are exact."""
        if not kind.shape or kind.element == "i1" or kind.is_complex:
            return None
        d = self.random.randrange(len(kind.shape))
        if max(kind.shape) > 128:
            kind = kind.of(self.random.choice(["i32", "f32", "i64"]))
        return [self.bounded(self.op("iota", [], kind, f"iota_dimension = {d} : i64"))]

    def _chosen(self, scope: Scope, kind: Kind) -> list[Value]:
        predicate = self._get(scope, self.random.choice([PREDICATE, kind.of("i1"), kind.of("i1")]))
        return [self.op("select", [predicate, self._get(scope, kind), self._get(scope, kind)], kind)]

    def _gathered(self, scope: Scope, kind: Kind) -> list[Value] | None:
        numbers = self._indexing(kind.shape)
        if not self._fits(numbers.windows, numbers.indices):
            return None
        indices = self._indices(scope, numbers, self._index_element(kind.shape))
        attributes = (
            f"dimension_numbers = #stablehlo.gather<offset_dims = {numbers.window}, "
            f"collapsed_slice_dims = {numbers.collapsed}, operand_batching_dims = {numbers.batching}, "
            f"start_indices_batching_dims = {numbers.index_batching}, start_index_map = {numbers.where}, "
            f"index_vector_dim = {numbers.vector_dim}>, slice_sizes = {integers(numbers.sizes)}, "
            "indices_are_sorted = false"
        )
        result = Kind(tuple(numbers.windows), kind.element)
        return [self.op("gather", [self._get(scope, kind), indices], result, attributes)]

    def _scattered(self, scope: Scope, kind: Kind) -> list[Value] | None:
        """Adds a scatter of one or two arrays.

        It either replaces distinct elements or combines elements with the updates.

        If only a part of a window is in range, StableHLO requires that this part is updated, but XLA updates no element
        of the window. Therefore, indices of windows that are wider than one element are clamped.
        """
        numbers = self._indexing(kind.shape)
        if not self._fits(numbers.windows, numbers.indices) or Kind(tuple(numbers.windows), "i1").size > 5000:
            return None
        if not numbers.where:  # XLA cannot compile some of the scatters without scattered dimensions
            return None
        element = self._index_element(kind.shape)
        wide = any(numbers.sizes[i] != 1 for i in numbers.where)
        indices = None
        if not wide and self.random.random() < 0.4:
            indices = self._different(numbers, element)
        # XLA does not support scatters of float arrays of different widths.
        others = [each.element for each in self.kinds if is_integer(each.element)]
        kinds = [kind, kind.of(self.random.choice([kind.element, *others]))][
            : self.random.choice([1, 1, 1, 2])
        ]
        ops = ["set" if indices is not None else self._combiner(each.element) for each in kinds]
        if indices is None:
            indices = self._indices(scope, numbers, element)
            indices = self._in_range(indices, numbers) if wide else indices
        updates = []
        for each, op in zip(kinds, ops, strict=True):
            count = Kind(tuple(numbers.windows), "i1").size + 1
            update = self._summable(self._get(scope, Kind(tuple(numbers.windows), each.element)), op, count)
            if update is None:
                return None
            updates.append(update)
        attributes = (
            f"scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = {numbers.window}, "
            f"inserted_window_dims = {numbers.collapsed}, input_batching_dims = {numbers.batching}, "
            f"scatter_indices_batching_dims = {numbers.index_batching}, "
            f"scatter_dims_to_operand_dims = {numbers.where}, index_vector_dim = {numbers.vector_dim}>, "
            "indices_are_sorted = false, unique_indices = false"
        )
        operands = [*(self._get(scope, each) for each in kinds), indices, *updates]
        results = self.several("scatter", operands, kinds, attributes, [self._pairwise(kinds, ops)])
        return [self.bounded(x) if op == "add" else x for x, op in zip(results, ops, strict=True)]

    def _in_range(self, indices: Value, numbers: Indexing) -> Value:
        """Returns the indices, clamped so that all windows are in range."""
        kind, where = indices.kind, numbers.where
        if kind.size == 0:
            return indices
        last = iter([numbers.operand[i] - numbers.sizes[i] for i in where])
        limits = self._listed(Kind((len(where),), kind.element), lambda: next(last))
        d = [numbers.vector_dim] if numbers.vector_dim < len(kind.shape) else []
        if not d:
            limits = self.op("reshape", [limits], Kind((), kind.element))
        return self.op("clamp", [self.constant(kind, 0), indices, self.broadcast(limits, d, kind)], kind)

    def _pairwise(self, kinds: list[Kind], ops: list[str]) -> str:
        """Returns the text of a region that combines pairs of scalars, each pair by another op."""

        def fill(*scalars: Value) -> list[Value]:
            xs, ys = scalars[: len(kinds)], scalars[len(kinds) :]
            return [y if op == "set" else self.op(op, [x, y]) for op, x, y in zip(ops, xs, ys, strict=True)]

        return self.region([Kind((), kind.element) for kind in kinds * 2], fill)

    def _sorted(self, scope: Scope, kind: Kind) -> list[Value] | None:
        """Adds a sort of one to three arrays by the first one.

        Sometimes, the second array decides between equal elements.
        """
        if not kind.shape or kind.element in PARTS:
            return None
        draw, d = self.random, self.random.randrange(len(kind.shape))
        operands = [self._get(scope, kind)]
        for _ in range(draw.choice([0, 0, 1, 2])):
            operands.append(self._get(scope, kind.of(draw.choice([*self.kinds, kind]).element)))
        kinds, direction = [x.kind for x in operands], draw.choice(["LT", "GT"])
        second = len(kinds) > 1 and not kinds[1].is_complex and draw.random() < 0.5

        def before(*scalars: Value) -> list[Value]:
            first = self.compared(direction, scalars[0], scalars[1])
            if not second:
                return [first]
            same = self.compared("EQ", scalars[0], scalars[1])
            then = self.op("and", [same, self.compared("GT", scalars[2], scalars[3])])
            return [self.op("or", [first, then])]

        pairs = [Kind((), each.element) for each in kinds for _ in range(2)]
        stable = str(len(kinds) > 1 or draw.random() < 0.5).lower()
        attributes = f"dimension = {d} : i64, is_stable = {stable}"
        return self.several("sort", operands, kinds, attributes, [self.region(pairs, before)])


MOVES: tuple[Callable[..., list[Value] | None], ...] = (
    Moves._concatenated,
    Moves._alike,
    Moves._sliced,
    Moves._padded,
    Moves._dynamically_sliced,
    Moves._dynamically_updated,
    Moves._ordered,
    Moves._seen,
    Moves._broadcast,
    Moves._counted,
    Moves._chosen,
    Moves._gathered,
    Moves._scattered,
    Moves._sorted,
)
