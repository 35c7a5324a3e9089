"""Random StableHLO programs of array ops, without loops.

Arrays have arbitrary shapes and at most `LIMIT` elements. Some arguments are so large that rewrites of large arrays
apply to them. Integers are arbitrary. Floats are small integers, so that all results are exact. A function may
return an argument, one value twice, or several views of one array. A result may alias an argument.

Some programs contain infinities and NaN. These programs have no complex numbers, argmax or convolutions, because their
results would be undefined (for example, a convolution may multiply an infinity by a padding zero or omit this product).
StableHLO does not define shifts by the bit width or more, quotients by 0, and conversions of floats outside an
integer's range. For such integer ops, the expected results are those of XLA. Floats that are converted to integers are
in range.
"""

from collections.abc import Callable, Sequence
from random import Random

from array_moves import MOVES, Moves
from array_numbers import NUMBERS, Numbers
from array_windows import WINDOWS, Windows
from loop_statements import Scope, Statements
from loop_text import FLOATS, PARTS, Kind, Value

ELEMENTS = (
    *("f32",) * 5,
    *("i32", "i32", "f64", "i8", "ui8", "i64", "ui32", "i1", "bf16", "f16", "i16", "ui16", "ui64"),
    *("complex<f32>", "complex<f64>"),
)
SMALL = 0, 1, 1, 2, 2, 3, 3, 4, 4, 5
ODD = 1, 2, 3, 5, 7, 8, 9, 11, 13, 16, 17, 19, 31, 33, 40
LARGE = (16411,), (20000,), (129, 131), (3, 5563), (5563, 3), (64, 300), (1024, 17), (7, 65, 40), (2, 3, 3001)
LIMIT = 60_000
"""The largest number of elements in an array."""
_FINITE = (
    Moves._sorted,
    Numbers._complex,
    Numbers._largest,
    Numbers._solved,
    Windows._convolved,
    Windows._placed,
)
"""The statements whose results are undefined if an operand has a NaN."""

_ALIKE = (
    Statements._update,
    Statements._window,
    Statements._turned,
    Statements._selected,
    Statements._elementwise,
    Statements._barrier,
)
"""The statements that also occur in loop programs."""
STATEMENTS: tuple[Callable[..., list[Value] | None], ...] = (
    *MOVES * 2,
    *NUMBERS,
    *WINDOWS,
    *_ALIKE,
)


class ArrayProgram(Windows):
    """A random module. Its text is `text`, and its function `main` has up to five arguments."""

    def __init__(self, seed: int, without: Sequence[str] = ()) -> None:
        """`without` lists the element types for which the target has no functions such as sine."""
        super().__init__(Random(seed), smooth=False)
        draw, self.without = self.random, without
        self.limit = LIMIT
        self.special = draw.random() < 0.15
        elements = draw.choices(ELEMENTS, k=draw.randint(1, 3))
        if self.special:
            elements = [draw.choice(FLOATS), *(each for each in elements if each not in PARTS)]
        shapes = self._shapes()
        self.kinds = [Kind(draw.choice(shapes), draw.choice(elements)) for _ in range(draw.randint(1, 3))]
        inputs = [draw.choice(self.kinds) for _ in range(draw.randint(1, 4))]
        if draw.random() < 0.3:
            inputs.append(Kind((), draw.choice(["i32", "i64", "i8", "ui32", "ui8"])))
        given: list[Value] = []

        def filled(*arguments: Value) -> list[Value]:
            given.extend(self._results(list(arguments)))
            return given

        body = self.region(inputs, filled, "func.return")
        results = [x.kind for x in given]
        signature = f"({', '.join(map(str, inputs))}) -> ({', '.join(map(str, results))})"
        attributes = f'function_type = {signature}, sym_name = "main"'
        donated = self._donated(inputs, results) if draw.random() < 0.25 else {}
        if donated:
            each = (
                f"{{iree.abi.output = {donated[i]} : index}}" if i in donated else "{}"
                for i in range(len(inputs))
            )
            attributes += f", arg_attrs = [{', '.join(each)}]"
        self.text = f'"func.func"() <{{{attributes}}}> ({body}) : () -> ()\n'

    def _shapes(self) -> list[tuple[int, ...]]:
        draw, chance = self.random, self.random.random()
        if chance < 0.12:
            return [draw.choice(LARGE)]
        sizes = SMALL if chance < 0.65 else ODD
        ranks = [0, 1, 1, 2, 2, 3, 4] if sizes is SMALL else [1, 1, 2, 2, 3]
        return [tuple(draw.choices(sizes, k=draw.choice(ranks))) for _ in range(draw.randint(1, 3))]

    def _results(self, scope: Scope) -> list[Value]:
        """Draws the statements of the function's body, and returns the function's results."""
        draw, arguments = self.random, list(scope)
        statements = (*STATEMENTS, Numbers._special) if self.special else STATEMENTS
        if self.special:
            statements = tuple(each for each in statements if each not in _FINITE)
            scope += self._special(scope, self.kinds[0])
        for _ in range(draw.randint(2, 8)):
            made = None
            while made is None:
                kind = draw.choice(scope[-4:] if draw.random() < 0.6 else scope).kind
                made = draw.choice(statements)(self, scope, kind)
            scope += made
        made = scope[len(arguments) :]
        results = [draw.choice(made[-5:]) for _ in range(draw.randint(1, 4))]
        return results + [draw.choice(x) for x in (results, made, arguments) if draw.random() < 0.25]

    def _donated(self, inputs: Sequence[Kind], results: Sequence[Kind]) -> dict[int, int]:
        """Maps the indices of some arguments to the index of the result that reuses the argument's memory."""
        donated: dict[int, int] = {}
        for i, kind in enumerate(inputs):
            alike = [
                place
                for place, other in enumerate(results)
                if other == kind and place not in donated.values()
            ]
            if alike and self.random.random() < 0.7:
                donated[i] = self.random.choice(alike)
        return donated
