"""Draws the ops in `array_programs.py` that compute new numbers: elementwise ops, reductions, products, solves."""

from collections.abc import Callable, Sequence

from array_choices import BITS, EXACT_TO, is_integer
from array_moves import Moves
from loop_statements import Scope
from loop_text import FLOATS, PARTS, Kind, Value, integers

_ALL = "i1 i8 i16 i32 i64 ui8 ui16 ui32 ui64 f16 bf16 f32 f64 complex<f32> complex<f64>".split()
_WIDER = {
    "i8": ["i32", "i16", "i8", "i64"],
    "ui8": ["ui32", "ui16"],
    "i16": ["i32", "i64"],
    "bf16": ["f32"],
    "f16": ["f32"],
    "f32": ["f64"],
}
"""Maps the element type of a product's operands to other element types that the result may have."""


class Numbers(Moves):
    """Draws ops that compute new numbers."""

    special: bool
    without: Sequence[str]

    # ---- element by element

    def _integers(self, scope: Scope, kind: Kind) -> list[Value]:
        """Adds a random integer op on operands with any values.

        Sums may overflow. XLA defines the expected quotients by 0, and shifts by the bit width or more.
        """
        kind = kind if is_integer(kind.element) else kind.of(self.random.choice(["i32", "i8", "ui8", "i64"]))
        names = "add subtract multiply divide remainder maximum minimum and or xor not popcnt".split()
        names += ["count_leading_zeros", "shift_left", "shift_right_logical", "shift_right_arithmetic"]
        names += [] if kind.is_unsigned else ["negate", "abs", "sign"]
        name, x = self.random.choice(names), self._get(scope, kind)
        if name in ("not", "popcnt", "count_leading_zeros", "negate", "abs", "sign"):
            return [self.op(name, [x])]
        return [self.op(name, [x, self._get(scope, kind)])]

    def _halves(self, scope: Scope, kind: Kind) -> list[Value]:
        """Adds a division of floats by 2, -2 or 4. A rounding op, or a conversion to integers, rounds the results."""
        kind = kind if kind.element in FLOATS else kind.of(self.random.choice(FLOATS))
        x = self.op("divide", [self._get(scope, kind), self.constant(kind, self.random.choice([2, 4, -2]))])
        name = self.random.choice(["floor", "ceil", "round_nearest_even", "round_nearest_afz", "convert"])
        if name == "convert":
            return [self.op(name, [x], kind.of(self.random.choice(["i32", "i8", "i64", "i16"])))]
        return [self.op(name, [x])]

    def _function(self, scope: Scope, kind: Kind) -> list[Value]:
        """Adds a multiple of sine, cosine or tanh of integers, rounded to integers.

        No multiple is so close to a half-integer that an error of the function could change the result.
        """
        kind = kind if kind.element in FLOATS else kind.of(self.random.choice(FLOATS))
        if kind.element in self.without:
            kind = kind.of("f32")
        name = self.random.choice(["sine", "sine", "cosine", "cosine", "tanh"])
        factor = self.constant(kind, 3 if name == "tanh" else 4)
        x = self.op("multiply", [self.op(name, [self._get(scope, kind)]), factor])
        return [self.op("round_nearest_even", [x])]

    def _special(self, scope: Scope, kind: Kind) -> list[Value]:
        """Adds a select that replaces some elements of an array by an infinity or NaN."""
        kind = kind if kind.element in FLOATS else kind.of(self.random.choice(FLOATS))
        infinity = self.op(
            "divide", [self.constant(kind, self.random.choice([1, -1])), self.constant(kind, 0)]
        )
        other = self.op("subtract", [infinity, infinity]) if self.random.random() < 0.5 else infinity
        return [self.op("select", [self._get(scope, kind.of("i1")), other, self._get(scope, kind)], kind)]

    def _remainder(self, scope: Scope, kind: Kind) -> list[Value]:
        kind = kind if kind.element in FLOATS else kind.of(self.random.choice(FLOATS))
        divisor = self.random.choice(
            [self.constant(kind, 3), self.op("maximum", [self._get(scope, kind), self.constant(kind, 1)])]
        )
        return [self.op("remainder", [self._get(scope, kind), divisor])]

    def _compared(self, scope: Scope, kind: Kind) -> list[Value]:
        direction = self.random.choice(["EQ", "NE", *([] if kind.is_complex else ["LT", "LE", "GT", "GE"])])
        return [self.compared(direction, self._get(scope, kind), self._get(scope, kind))]

    def _clamped(self, scope: Scope, kind: Kind) -> list[Value] | None:
        """Adds a clamp, whose bounds are scalars or arrays. The lower bound may exceed the upper bound."""
        if kind.is_complex:
            return None
        ends = [self._get(scope, self.random.choice([kind, Kind((), kind.element)])) for _ in range(2)]
        return [self.op("clamp", [ends[0], self._get(scope, kind), ends[1]], kind)]

    def _converted(self, scope: Scope, kind: Kind) -> list[Value]:
        elements = [each for each in _ALL if each not in PARTS or not self.special]
        return [self.converted(self._get(scope, kind), self.random.choice(elements))]

    def _bits(self, scope: Scope, kind: Kind) -> list[Value] | None:
        """Adds a bitcast to an integer type. The operand has integers, or floats that are converted integers."""
        x = self._get(scope, kind if is_integer(kind.element) else kind.of("i32"))
        if self.random.random() < 0.4:
            x = self.converted(x, self.random.choice(FLOATS))
        own = BITS[x.kind.element]
        element = self.random.choice([name for name in BITS if name not in FLOATS])
        bits, shape = BITS[element], x.kind.shape
        if bits < own:
            shape = (*shape, own // bits)
        elif bits > own:
            if not shape or shape[-1] != bits // own:
                if not self._fits((*shape, bits // own)):
                    return None
                x = self.broadcast(x, range(len(shape)), Kind((*shape, bits // own), x.kind.element))
            shape = x.kind.shape[:-1]
        if not self._fits(shape):
            return None
        return [self.op("bitcast_convert", [x], Kind(shape, element))]

    def _complex(self, scope: Scope, kind: Kind) -> list[Value]:
        """Adds the real or imaginary part of a complex array, or a complex array with two float arrays as parts."""
        if kind.is_complex:
            name = self.random.choice(["real", "imag"])
            return [self.op(name, [self._get(scope, kind)], kind.of(PARTS[kind.element]))]
        part = kind.of(self.random.choice(["f32", "f64"]))
        whole = kind.of("complex<f32>" if part.element == "f32" else "complex<f64>")
        return [self.op("complex", [self._get(scope, part), self._get(scope, part)], whole)]

    # ---- along dimensions

    def _reduced(self, scope: Scope, kind: Kind) -> list[Value] | None:
        """Adds a reduction of one to three arrays, each by another op."""
        draw, rank = self.random, len(kind.shape)
        along = sorted(draw.sample(range(rank), draw.randint(0, rank)))
        count = Kind(tuple(kind.shape[i] for i in along), "i1").size
        rest = tuple(n for i, n in enumerate(kind.shape) if i not in along)
        elements = [kind.element, *draw.choices([each.element for each in self.kinds], k=2)]
        elements = elements[: draw.choice([1, 1, 1, 2, 3])]
        ops = [self._combiner(element) for element in elements]
        operands = self._all_summable(scope, [kind.of(element) for element in elements], ops, count)
        if operands is None:
            return None
        neutral = [self._neutral(element, op) for element, op in zip(elements, ops, strict=True)]
        regions = [self._pairwise([x.kind for x in operands], ops)]
        kinds = [Kind(rest, element) for element in elements]
        attributes = f"dimensions = {integers(along)}"
        results = self.several("reduce", [*operands, *neutral], kinds, attributes, regions)
        return [self.bounded(x) for x in results]

    def _largest(self, scope: Scope, kind: Kind) -> list[Value] | None:
        """Adds an argmax: the largest element along a dimension and the first position where it occurs."""
        if not kind.shape or kind.is_complex or kind.element == "i1":
            return None
        d = self.random.randrange(len(kind.shape))
        x, places = self._get(scope, kind), kind.of(self.random.choice(["i32", "i32", "i64"]))
        iota = self.op("iota", [], places, f"iota_dimension = {d} : i64")
        scalars = [Kind((), kind.element), Kind((), places.element)]

        def fill(a: Value, i: Value, b: Value, j: Value) -> list[Value]:
            more, same = self.compared("GT", a, b), self.compared("EQ", a, b)
            less = self.op("and", [same, self.compared("LT", i, j)])
            first = self.op("or", [more, less])
            return [self.op("select", [first, *pair], pair[0].kind) for pair in ((a, b), (i, j))]

        rest = tuple(n for i, n in enumerate(kind.shape) if i != d)
        start = [self._neutral(kind.element, "maximum"), self.constant(scalars[1], 0)]
        return self.several(
            "reduce",
            [x, iota, *start],
            [Kind(rest, kind.element), Kind(rest, places.element)],
            f"dimensions = {integers([d])}",
            [self.region(scalars * 2, fill)],
        )

    def _product(self, scope: Scope, kind: Kind) -> list[Value] | None:
        """Adds a dot_general with random batching and contracting dimensions, sometimes with a wider result type."""
        if kind.element == "i1":
            return None
        draw, rank = self.random, len(kind.shape)
        roles = [draw.choice(["batch", "contract", "contract", "keep", "keep"]) for _ in range(rank)]
        batch, contract = ([i for i in range(rank) if roles[i] == role] for role in ("batch", "contract"))
        keep = [i for i in range(rank) if roles[i] == "keep"]
        more = draw.choices([1, 2, 3, 5, 8, 17, 33], k=draw.choice([0, 1, 1, 2]))
        order = draw.sample(range(len(batch + contract + more)), len(batch + contract + more))
        sizes = [kind.shape[i] for i in batch + contract] + more
        other = Kind(tuple(sizes[i] for i in order), kind.element)
        of = [order.index(i) for i in range(len(batch + contract))]
        rest = [n for i, n in zip(order, other.shape, strict=True) if i >= len(batch + contract)]
        shape = (*(kind.shape[i] for i in batch), *(kind.shape[i] for i in keep), *rest)
        count = Kind(tuple(kind.shape[i] for i in contract), "i1").size
        if not self._fits(other.shape, shape, (*shape, count // 8)):
            return None
        element = draw.choice([kind.element, *_WIDER.get(kind.element, [])])
        x, y = self._get(scope, kind), self._get(scope, other)
        operands = self._factors(x, y, count, element)
        if operands is None:
            return None
        numbers = (
            f"#stablehlo.dot<lhs_batching_dimensions = {batch}, rhs_batching_dimensions = {of[: len(batch)]}, "
            f"lhs_contracting_dimensions = {contract}, rhs_contracting_dimensions = {of[len(batch) :]}>"
        )
        result = Kind(shape, element)
        return [self.bounded(self.op("dot_general", operands, result, f"dot_dimension_numbers = {numbers}"))]

    def _factors(self, x: Value, y: Value, count: int, element: str) -> list[Value] | None:
        """x and y, clamped if necessary so that sums of `count` products of their elements are exact.

        Returns None if clamping is not sufficient. `element` is the element type of the sums.
        """
        if is_integer(element):
            return [x, y]
        limit = EXACT_TO[PARTS.get(element, element)]
        if x.kind.is_complex:
            return [x, y] if 8 * 12 * 12 * count <= limit else None
        largest = next((n for n in (12, 3, 1) if n * n * count <= limit), None)
        return None if largest is None else [self.clamped(each, -largest, largest) for each in (x, y)]

    def _solved(self, scope: Scope, kind: Kind) -> list[Value] | None:
        """Adds a solve with a unit triangular matrix, or a Cholesky factor. All results are integers."""
        element = self.random.choice(["f32", "f64"])
        n = self.random.randint(0, 4)
        square = Kind((n, n), element)
        part = self.clamped(self._get(scope, square), -1, 1)
        if self.random.random() < 0.5:
            width = Kind((n, self.random.randint(1, 3)), element)
            attributes = (
                "left_side = true, lower = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, "
                "unit_diagonal = true"
            )
            return [
                self.bounded(self.op("triangular_solve", [part, self._get(scope, width)], width, attributes))
            ]
        rows, columns = (self.op("iota", [], square.of("i32"), f"iota_dimension = {d} : i64") for d in (0, 1))
        part = self.op("select", [self.compared("GT", rows, columns), part, self.constant(square, 0)], square)
        part = self.op("select", [self.compared("EQ", rows, columns), self.constant(square, 1), part], square)
        numbers = "#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>"
        whole = self.op("dot_general", [part, part], square, f"dot_dimension_numbers = {numbers}")
        factor = self.op("cholesky", [whole], square, "lower = true")
        # StableHLO does not define the elements above the diagonal, so they are replaced by zeros.
        return [
            self.op("select", [self.compared("GE", rows, columns), factor, self.constant(square, 0)], square)
        ]


NUMBERS: tuple[Callable[..., list[Value] | None], ...] = (
    *(Numbers._integers,) * 3,
    *(Numbers._converted, Numbers._reduced, Numbers._product) * 2,
    Numbers._halves,
    Numbers._function,
    Numbers._remainder,
    Numbers._compared,
    Numbers._clamped,
    Numbers._bits,
    Numbers._complex,
    Numbers._largest,
    Numbers._solved,
)
