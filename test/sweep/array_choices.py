"""Draws operands for the ops of `array_programs.py`, such as constants, indices, and floats whose sums are exact."""

import itertools
from collections.abc import Callable, Sequence

from cases.index_cases import Indexing, drawn
from loop_statements import Scope, Statements
from loop_text import FLOATS, LARGEST, PARTS, Kind, Value

BITS = {
    **{f"{sign}{n}": n for sign in ("i", "ui") for n in (8, 16, 32, 64)},
    **{"f16": 16, "bf16": 16, "f32": 32, "f64": 64},
}
EXACT_TO = {"bf16": 1 << 8, "f16": 1 << 11, "f32": 1 << 24, "f64": 1 << 53}
"""Maps each float type to the largest n such that the type represents all integers up to n."""


def is_integer(element: str) -> bool:
    return element[0] in "iu" and element != "i1"


def extremes(element: str) -> tuple[int, int]:
    """Returns the smallest and the largest integer of a type."""
    bits = BITS[element]
    return (0, (1 << bits) - 1) if element.startswith("ui") else (-(1 << bits - 1), (1 << bits - 1) - 1)


class Choices(Statements):
    """Draws constants, shapes and indices.

    Integers are arbitrary, and integer ops may overflow. Floats are integers whose magnitude is at most `LARGEST`.
    """

    limit: int

    def constant(self, kind: Kind, value: int | None = None) -> Value:
        """Returns a random constant, or a splat of `value`.

        Unlike in loop programs, a large constant is a splat, and an integer may be the least or greatest of its type.
        """
        if value is None and is_integer(kind.element) and self.random.random() < 0.15:
            value = self.random.choice(extremes(kind.element))
        if value is None and kind.size > 300:
            value = self.random.randint(0, 4)
        return super().constant(kind, value)

    def bounded(self, x: Value) -> Value:
        return x if is_integer(x.kind.element) else super().bounded(x)

    def converted(self, x: Value, element: str) -> Value:
        if is_integer(x.kind.element) and not is_integer(element) and element != "i1":
            x = self.clamped(x, 0 if x.kind.is_unsigned else -LARGEST, LARGEST)
        return super().converted(x, element)

    def _neutral(self, element: str, op: str) -> Value:
        scalar = Kind((), element)
        if op in ("or", "add", "xor") or element == "i1":
            return self.constant(scalar, int(op in ("and", "multiply", "minimum")))
        if op == "multiply":
            return self.constant(scalar, 1)
        low, high = extremes(element) if is_integer(element) else (-100, 100)
        return self.constant(scalar, {"maximum": low, "minimum": high, "and": -1 if low else high}[op])

    def _combiner(self, element: str) -> str:
        """Returns the name of an op for reductions. Their results must not depend on the order of the elements."""
        if element == "i1":
            return self.random.choice(["and", "or", "xor", "maximum", "minimum"])
        if element in PARTS:
            return "add"
        names = ["add", "add", "maximum", "minimum"]
        names += ["multiply", "and", "or", "xor"] if is_integer(element) else []
        return self.random.choice(names)

    def _summable(self, x: Value, op: str, count: int) -> Value | None:
        """x, clamped if this is necessary to make sums of `count` elements exact.

        Returns None if clamping is not sufficient.
        """
        part = PARTS.get(x.kind.element, x.kind.element)
        if op != "add" or part not in FLOATS or LARGEST * count <= EXACT_TO[part]:
            return x
        if count > EXACT_TO[part] or x.kind.is_complex:
            return None
        return self.clamped(x, -1, 1)

    def _all_summable(
        self, scope: Scope, kinds: Sequence[Kind], ops: Sequence[str], count: int
    ) -> list[Value] | None:
        """Operands of these kinds whose reductions by `ops` over `count` elements are exact.

        Returns None if there is no such operand of some kind.
        """
        operands = []
        for kind, op in zip(kinds, ops, strict=True):
            x = self._summable(self._get(scope, kind), op, count)
            if x is None:
                return None
            operands.append(x)
        return operands

    def _fits(self, *shapes: Sequence[int]) -> bool:
        """Returns whether arrays of these shapes have at most `limit` elements."""
        return all(Kind(tuple(shape), "i1").size <= self.limit for shape in shapes)

    def _with(self, kind: Kind, d: int, size: int) -> Kind:
        """Returns the kind with `size` as the size of dimension `d`."""
        return Kind((*kind.shape[:d], size, *kind.shape[d + 1 :]), kind.element)

    def _index_element(self, sizes: Sequence[int]) -> str:
        """Returns a random integer type whose range includes these sizes plus 3."""
        names = ["i32", "i32", "i64", "i8", "i16", "ui8", "ui16", "ui32", "ui64"]
        return self.random.choice([n for n in names if extremes(n)[1] > max(sizes, default=0) + 3])

    def _place(self, scope: Scope, element: str, size: int) -> Value:
        """Draws a scalar index, which is often near the bounds of a dimension of this size."""
        scalar = Kind((), element)
        if self.random.random() < 0.4:
            near = [0, 1, size - 1, size, size + 2, -1, -2, *extremes(element)]
            return self.constant(scalar, self.random.choice([n for n in near if n >= 0 or element[0] != "u"]))
        x = self._any(scope, lambda kind: kind.size > 0 and not kind.is_complex and kind.element != "i1")
        place = self.constant(scalar) if x is None else self.fit(x, scalar)
        if self.random.random() < 0.5:
            place = self.op("and", [place, self.constant(scalar, 7)])
        return place

    # ---- gathers and scatters

    def _indexing(self, shape: Sequence[int]) -> Indexing:
        return drawn(self.random, shape)

    def _indices(self, scope: Scope, numbers: Indexing, element: str) -> Value:
        """Returns a random array of indices for a gather or scatter.

        The indices are near the ends of the dimensions, small, or arbitrary.
        """
        kind = Kind(tuple(numbers.indices), element)
        largest = max((numbers.operand[i] for i in numbers.where), default=0)
        chance = self.random.random()
        if chance < 0.4 and 0 < kind.size <= 100:
            low = 0 if kind.is_unsigned else -2
            return self._listed(kind, lambda: self.random.randint(low, largest + 1))
        indices = self._get(scope, kind)
        if chance < 0.75:
            return self.op("and", [indices, self.constant(kind, min(largest, 7) | 1)])
        return indices

    def _different(self, numbers: Indexing, element: str) -> Value | None:
        """Returns an array of distinct indices, some of them out of range.

        Returns None if there are too few indices.
        """
        kind, unsigned = Kind(tuple(numbers.indices), element), element.startswith("ui")
        d = numbers.vector_dim
        count = Kind(tuple(n for i, n in enumerate(kind.shape) if i != d), "i1").size
        ranges = [range(0 if unsigned else -1, numbers.operand[i] + 1) for i in numbers.where]
        if not 0 < count <= 100 or (len(ranges) > 1 and kind.size > 100) or not ranges:
            return None
        places = [*itertools.islice(itertools.product(*ranges), 4000)]
        if len(places) < count:
            return None
        rows = iter(self.random.sample(places, count))
        flat = [*itertools.chain.from_iterable(rows)]
        last = Kind((count, len(ranges)), element)
        values = iter(flat)
        x = self._listed(last, lambda: next(values))
        others = tuple(n for i, n in enumerate(kind.shape) if i != d)
        if d == len(kind.shape):
            return self.op("reshape", [x], kind)
        x = self.op("reshape", [x], Kind((*others, len(ranges)), element))
        order = [*range(d), len(others), *range(d, len(others))]
        attributes = f"permutation = array<i64: {', '.join(map(str, order))}>"
        return self.op("transpose", [x], kind, attributes)

    def _listed(self, kind: Kind, draw: Callable[[], int]) -> Value:
        """Returns a constant whose elements are the results of calls of `draw`."""

        def nested(shape: Sequence[int]) -> str:
            if not shape:
                return str(draw())
            return f"[{', '.join(nested(shape[1:]) for _ in range(shape[0]))}]"

        return self.op("constant", [], kind, f"value = dense<{nested(kind.shape)}> : {kind}")
