"""Draws random ops and their operands for `loop_programs.py`, except ops of control flow.

A statement is a method that takes the values in scope and a kind, adds ops to the program, and returns new values. It
returns None if it has no op for this kind.
"""

from collections.abc import Callable

from loop_text import COUNTER, FLOATS, PARTS, PREDICATE, Kind, Text, Value, integers

Scope = list[Value]


class Statements(Text):
    """The text of a program to which statements add ops. Its arrays have one of the `kinds`."""

    kinds: list[Kind]

    # ---- choices

    def _any(self, scope: Scope, suits: Callable[[Kind], bool] = lambda kind: True) -> Value | None:
        suitable = [x for x in scope if suits(x.kind)]
        recent = suitable[-3:] if self.random.random() < 0.5 else suitable
        return self.random.choice(recent) if suitable else None

    def _get(self, scope: Scope, kind: Kind) -> Value:
        """Returns a random value of this kind.

        It is a value in scope, a value in scope that is converted to this kind, or a constant.
        """
        value = self._any(scope, lambda other: other == kind)
        if value is not None and self.random.random() < 0.85:
            return value
        other = self._any(scope, lambda other: other.size > 0)
        if other is None or kind.size == 0 or self.random.random() < 0.3:
            return self.constant(kind)
        return self.fit(other, kind)

    def _index(self, scope: Scope, element: str = "") -> Value:
        """Returns a random scalar index. It may be out of range."""
        if self.random.random() < 0.25:
            kind = Kind((), element or self.random.choice(["i32", "i32", "i64", "i8"]))
            return self.constant(kind, self.random.choice([-1, 0, 0, 1, 2, 7]))
        value = self._any(scope, lambda kind: kind == COUNTER)
        if value is None or self.random.random() < 0.15:
            value = self._any(scope, lambda kind: kind.size > 0)
        value = self.constant(COUNTER) if value is None else self.fit(value, COUNTER)
        return self.converted(value, element or "i32")

    def _predicate(self, scope: Scope) -> Value:
        value = self._any(scope, lambda kind: kind == PREDICATE)
        if value is not None and self.random.random() < 0.4:
            return value
        x: Value | None = None
        if self.random.random() < 0.5:
            x = self._any(scope, lambda kind: kind.size > 0 and not kind.is_complex)
        x = self._index(scope) if x is None else self.reshaped(x, ())
        return self.compared(self.random.choice(["LT", "GT", "EQ", "NE"]), x, self.constant(x.kind, 1))

    def _combiner(self, element: str) -> str:
        if element == "i1":
            return self.random.choice(["and", "or"])
        if element in PARTS or self.smooth:
            return "add"
        return self.random.choice(["add", "add", "maximum", "minimum"])

    def _neutral(self, element: str, op: str) -> Value:
        values = {
            "add": 0,
            "maximum": 0 if element.startswith("ui") else -100,
            "minimum": 100,
            "and": 1,
            "or": 0,
        }
        if element in PARTS:
            return self.op(
                "constant", [], Kind((), element), f"value = dense<(0.0, 0.0)> : {Kind((), element)}"
            )
        return self.constant(Kind((), element), values[op])

    # ---- statements

    def _elementwise(self, scope: Scope, kind: Kind) -> list[Value]:
        x, y = self._get(scope, kind), self._get(scope, kind)
        if kind.element == "i1":
            return [self.op(self.random.choice(["and", "or", "xor", "add", "multiply"]), [x, y])]
        names = ["add", "subtract", "multiply", "negate"]
        if kind.is_unsigned:
            names = ["add", "multiply", "maximum", "minimum"]
        elif self.smooth and kind.element in FLOATS:
            names += ["sine", "cosine", "tanh", "logistic", "maximum"]
        elif not kind.is_complex:
            names += ["maximum", "minimum", "abs", "sign"]
        name = self.random.choice(names)
        if name in ("negate", "abs", "sign", "sine", "cosine", "tanh", "logistic"):
            return [self.op(name, [x])]
        result = self.op(name, [x, y])
        return [self.bounded(result) if name in ("add", "subtract", "multiply") else result]

    def _update(self, scope: Scope, kind: Kind) -> list[Value] | None:
        if not kind.size:
            return None
        window = Kind(tuple(self.random.randint(1, n) for n in kind.shape), kind.element)
        update = self._get(scope, self.random.choice(self.kinds))
        if not update.kind.size:
            return None
        first = self._index(scope)
        starts = [first, *(self._index(scope, first.kind.element) for _ in kind.shape[1:])][: len(kind.shape)]
        return [self.op("dynamic_update_slice", [self._get(scope, kind), self.fit(update, window), *starts])]

    def _window(self, scope: Scope, kind: Kind) -> list[Value] | None:
        """Adds a dynamic_slice of an array with twice the size along one dimension."""
        if not kind.shape:
            return None
        d = self.random.randrange(len(kind.shape))
        large = Kind(tuple(2 * n if i == d else n for i, n in enumerate(kind.shape)), kind.element)
        two = [self._get(scope, kind), self._get(scope, kind)]
        x = self.op("concatenate", two, large, f"dimension = {d} : i64")
        first = self._index(scope)
        starts = [first, *(self._index(scope, first.kind.element) for _ in kind.shape[1:])]
        return [self.op("dynamic_slice", [x, *starts], kind, f"slice_sizes = {integers(kind.shape)}")]

    def _indices(self, scope: Scope, count: int, different: bool, limit: int | None = None) -> Value:
        """Returns an array of `count` indices.

        They are distinct if `different` is set, and at most `limit` if it is given.
        """
        kind = Kind((count,), "i32")
        if different:
            first = self.broadcast(self._index(scope, "i32"), [], kind)
            indices = self.op("add", [self.op("iota", [], kind, "iota_dimension = 0 : i64"), first])
        else:
            indices = self._get([x for x in scope if x.kind.size > 1], kind)
        if limit is not None:
            indices = self.clamped(indices, 0, limit)
        return self.op("reshape", [indices], Kind((count, 1), "i32"))

    def _scatter(self, scope: Scope, kind: Kind) -> list[Value] | None:
        """Adds a scatter of rows or windows along one dimension.

        Windows are in range, because XLA, unlike StableHLO, does not update a part of a window.
        """
        if not kind.shape or not kind.size:
            return None
        d, count = self.random.randrange(len(kind.shape)), self.random.randint(1, 3)
        op = self.random.choice(["set", "set", self._combiner(kind.element)])
        width = self.random.randint(1, kind.shape[d]) if op != "set" and self.random.random() < 0.3 else None
        window = [n if i != d else width for i, n in enumerate(kind.shape)]
        sizes = [n for n in window if n is not None]
        limit = None if width is None else kind.shape[d] - width
        indices = self._indices(scope, count, op == "set", limit)
        updates = self.fit(self._get(scope, kind), Kind((count, *sizes), kind.element))
        attributes = (
            f"scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = {[*range(1, 1 + len(sizes))]}, "
            f"inserted_window_dims = {[d] if width is None else []}, scatter_dims_to_operand_dims = [{d}], "
            "index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false"
        )
        regions = [self.combined(kind.element, op)]
        result = self.op("scatter", [self._get(scope, kind), indices, updates], kind, attributes, regions)
        return [self.bounded(result) if op == "add" else result]

    def _gather(self, scope: Scope, kind: Kind) -> list[Value] | None:
        if not kind.shape or not kind.size:
            return None
        d = self.random.randrange(len(kind.shape))
        others = [i for i in range(len(kind.shape)) if i != d]
        sizes = integers([1 if i == d else n for i, n in enumerate(kind.shape)])
        attributes = (
            f"dimension_numbers = #stablehlo.gather<offset_dims = {others}, collapsed_slice_dims = [{d}], "
            f"start_index_map = [{d}], index_vector_dim = 1>, slice_sizes = {sizes}, indices_are_sorted = false"
        )
        indices = self._indices(scope, kind.shape[d], self.random.random() < 0.3)
        return [self.op("gather", [self._get(scope, kind), indices], kind, attributes)]

    def _turned(self, scope: Scope, kind: Kind) -> list[Value] | None:
        """Adds a reverse, a transpose, a pad, or a concatenation of two slices."""
        if not kind.size or not kind.shape:
            return None
        x, rank = self._get(scope, kind), len(kind.shape)
        d = self.random.randrange(rank)
        how = self.random.choice(["reverse", "transpose", "pad", "concatenate"])
        if how == "reverse":
            return [self.op("reverse", [x], kind, f"dimensions = {integers([d])}")]
        if how == "transpose":
            order = self.random.sample(range(rank), rank)
            turned = Kind(tuple(kind.shape[i] for i in order), kind.element)
            return [
                self.reshaped(
                    self.op("transpose", [x], turned, f"permutation = {integers(order)}"), kind.shape
                )
            ]
        if how == "pad":
            low, inside = (self.random.choices(range(a, b), k=rank) for a, b in ((-1, 3), (0, 2)))
            return [self.pad(x, low, inside, kind.shape)]
        first = [self.random.randrange(kind.shape[d]) if i == d else 0 for i in range(rank)]
        last = [first[d] if i == d else n for i, n in enumerate(kind.shape)]
        parts = [self.slice(x, first, kind.shape), self.slice(self._get(scope, kind), [0] * rank, last)]
        return [self.op("concatenate", parts, kind, f"dimension = {d} : i64")]

    def _sort(self, scope: Scope, kind: Kind) -> list[Value] | None:
        if not kind.shape or kind.is_complex or kind.element == "i1":
            return None
        operands = [self._get(scope, kind) for _ in range(self.random.choice([1, 1, 2]))]
        direction = self.random.choice(["LT", "GT"])
        scalars = [Kind((), kind.element)] * (2 * len(operands))
        before = self.region(scalars, lambda x, y, *others: [self.compared(direction, x, y)])
        attributes = f"dimension = {self.random.randrange(len(kind.shape))} : i64, is_stable = true"
        return self.several("sort", operands, [kind] * len(operands), attributes, [before])

    def _cumulated(self, scope: Scope, kind: Kind) -> list[Value] | None:
        """Adds a reduce_window along one dimension.

        Its window has at most three elements, or the size of the dimension.
        """
        if not kind.shape or not kind.size:
            return None
        d, op = self.random.randrange(len(kind.shape)), self._combiner(kind.element)
        width = self.random.choice([min(3, kind.shape[d]), kind.shape[d]])
        low = self.random.choice([0, (width - 1) // 2, width - 1])
        sizes = integers([width if i == d else 1 for i in range(len(kind.shape))])
        sides = ", ".join(
            f"[{low}, {width - 1 - low}]" if i == d else "[0, 0]" for i in range(len(kind.shape))
        )
        padding = f"dense<[{sides}]> : tensor<{len(kind.shape)}x2xi64>"
        attributes = f"window_dimensions = {sizes}, padding = {padding}"
        operands = [self._get(scope, kind), self._neutral(kind.element, op)]
        result = self.op("reduce_window", operands, kind, attributes, [self.combined(kind.element, op)])
        return [self.bounded(result) if op == "add" else result]

    def _reduced(self, scope: Scope, kind: Kind) -> list[Value] | None:
        if not kind.shape:
            return None
        op, rank = self._combiner(kind.element), len(kind.shape)
        along = sorted(self.random.sample(range(rank), self.random.randint(1, rank)))
        others = [i for i in range(rank) if i not in along]
        rest = Kind(tuple(kind.shape[i] for i in others), kind.element)
        operands = [self._get(scope, kind), self._neutral(kind.element, op)]
        regions = [self.combined(kind.element, op)]
        result = self.op("reduce", operands, rest, f"dimensions = {integers(along)}", regions)
        return [self.broadcast(self.bounded(result), others, kind)]

    def _product(self, scope: Scope, kind: Kind) -> list[Value] | None:
        if len(kind.shape) != 2 or not kind.size or kind.is_complex or kind.element == "i1":
            return None
        x, y = (self.clamped(self._get(scope, kind), 0 if kind.is_unsigned else -2, 3) for _ in range(2))
        square = Kind((kind.shape[0],) * 2, kind.element)
        numbers = "#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>"
        result = self.op("dot_general", [x, y], square, f"dot_dimension_numbers = {numbers}")
        return [self.reshaped(self.bounded(result), kind.shape)]

    def _selected(self, scope: Scope, kind: Kind) -> list[Value]:
        x, y = self._get(scope, kind), self._get(scope, kind)
        if kind.is_complex or self.random.random() < 0.5:
            return [self.op("select", [self._predicate(scope), x, y], kind)]
        return [self.op("select", [self.compared("LT", x, y), x, self._get(scope, kind)], kind)]

    def _small(self, scope: Scope, kind: Kind) -> list[Value]:
        """Returns an integer from -2 to 5, for trip counts and indices."""
        op = self.random.choice(["add", "subtract", "maximum"])
        return [self.clamped(self.op(op, [self._index(scope, "i32"), self._index(scope, "i32")]), -2, 5)]

    def _barrier(self, scope: Scope, kind: Kind) -> list[Value]:
        two = [self._get(scope, kind), self._get(scope, self.random.choice(self.kinds))]
        return self.several("optimization_barrier", two, [x.kind for x in two])


STATEMENTS: tuple[Callable[[Statements, Scope, Kind], list[Value] | None], ...] = (
    *(Statements._update,) * 3,
    *(Statements._scatter, Statements._elementwise, Statements._turned) * 2,
    Statements._window,
    Statements._gather,
    Statements._sort,
    Statements._cumulated,
    Statements._reduced,
    Statements._product,
    Statements._selected,
    Statements._small,
    Statements._barrier,
)
"""The statements of loop programs. A statement that occurs several times is drawn more often."""
