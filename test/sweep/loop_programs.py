"""Random StableHLO programs with nested loops, branches and functions, over arrays of several types.

A loop carries an induction variable and up to five values. Their initial values are constants or values from outside
the loop, and two of them may have one initial value. For each carried value, the body returns a new value, another
carried value, the value that it also returns for another carried value, a value from outside the loop, or the unchanged
value. Bodies contain dynamic slice updates and scatters, whose indices may be out of range. Every trip count is at most
5.
"""

from collections.abc import Callable, Sequence
from random import Random

from loop_statements import STATEMENTS, Scope, Statements
from loop_text import COUNTER, FLOATS, Kind, Value

EXACT = (
    *("f32",) * 6,
    *("i32",) * 3,
    *"f64 bf16 f16 i8 ui8 i64 ui32 i16 complex<f32> complex<f64> i1".split(),
)
SMOOTH = *("f64",) * 4, "f32"
SIZES = 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3, 3, 4, 4, 4, 5, 5, 5, 5
"""The sizes from which dimensions are drawn. A size that is listed several times is drawn more often."""


class Program(Statements):
    """A random module. The arguments of its function `main` are arrays of up to three kinds, and a trip count."""

    def __init__(self, seed: int, smooth: bool = False, without: Sequence[str] = (), levels: int = 1) -> None:
        """With `smooth`, the program is differentiable.

        `without` lists the element types that the target does not have.

        Calls of functions are nested at most `levels` deep.
        """
        super().__init__(Random(seed), smooth)
        draw = self.random
        elements = [element for element in (SMOOTH if smooth else EXACT) if element not in without]
        chosen = draw.choices(elements, k=draw.randint(1, 2))
        shapes = [
            tuple(draw.choices(SIZES, k=draw.choice([0, 1, 1, 2, 2, 3]))) for _ in range(draw.randint(1, 2))
        ]
        self.kinds = [Kind(draw.choice(shapes), draw.choice(chosen)) for _ in range(draw.randint(1, 3))]
        self.depth = 2  # levels of nested control flow
        self.level, self.levels = 0, levels
        self.functions: list[tuple[str, list[Kind], list[Kind], int]] = []
        self._names = 0
        self._texts: list[str] = []
        self.inputs = [draw.choice(self.kinds) for _ in range(draw.randint(1, 3))] + [COUNTER]
        main = self._function("@main", "", self.inputs, self._main)
        self.text = "\n".join([*self._texts, main]) + "\n"

    def _main(self, *arguments: Value) -> list[Value]:
        scope = list(arguments)
        if self.levels > 1:
            scope += self._call(scope, self.random.choice(self.kinds)) or []
        for _ in range(self.random.randint(2, 5)):
            self._statement(scope, self.depth)
        self._while(scope, self.depth)
        computed = scope[len(arguments) :]
        results = [self.random.choice(computed[-6:]) for _ in range(self.random.randint(1, 5))]
        results += [
            self.random.choice(x) for x in (results, computed, arguments) if self.random.random() < 0.3
        ]
        if self.smooth and not any(x.kind.element in FLOATS for x in results):
            results.append(next((x for x in reversed(computed) if x.kind.element in FLOATS), arguments[0]))
        return results

    def _function(
        self, name: str, visibility: str, kinds: Sequence[Kind], fill: Callable[..., list[Value]]
    ) -> str:
        results: list[Value] = []

        def filled(*arguments: Value) -> list[Value]:
            results.extend(fill(*arguments))
            return results

        body = self.region(kinds, filled, "func.return")
        signature = f"({', '.join(map(str, kinds))}) -> ({', '.join(str(x.kind) for x in results)})"
        hidden = f', sym_visibility = "{visibility}"' if visibility else ""
        return f'"func.func"() <{{function_type = {signature}, sym_name = "{name[1:]}"{hidden}}}> ({body}) : () -> ()'

    def _statement(self, scope: Scope, depth: int) -> None:
        if depth and self.random.random() < (0.6 if depth == self.depth else 0.35):
            self.random.choice([self._while, self._while, self._while, self._if, self._case])(scope, depth)
            return
        values = None
        while values is None:
            kind = self.random.choice(self.kinds)
            nested = [Program._call] * 6 + [Statements._barrier] * 4 if self.levels > 1 else [Program._call]
            values = self.random.choice((*STATEMENTS, *nested))(self, scope, kind)
        scope += values

    def _call(self, scope: Scope, kind: Kind) -> list[Value] | None:
        if self.level == self.levels or (self.levels == 1 and self.random.random() < 0.5):
            return None
        if len(self._callees()) < 2:
            self._define(kind)
        name, taken, given, _ = self.random.choice(self._callees())
        return self.several(
            "func.call", [self._get(scope, kind) for kind in taken], given, f"callee = {name}"
        )

    def _callees(self) -> list[tuple[str, list[Kind], list[Kind], int]]:
        """Returns the functions that the current function may call.

        They have a deeper level, so that no call is recursive.
        """
        return [function for function in self.functions if function[-1] > self.level]

    def _define(self, kind: Kind) -> None:
        """Adds a random function of the level below the current function."""
        taken = [self.random.choice(self.kinds), COUNTER]
        given = self.random.choices(self.kinds, k=self.random.randint(1, 3))
        name, depth, self.depth = f"@f{self._names}", self.depth, 0
        self._names += 1
        self.level += 1
        deep = self.level < self.levels

        def fill(*arguments: Value) -> list[Value]:
            inner = list(arguments)
            if deep:
                inner += self._call(inner, kind) or []
            for _ in range(self.random.randint(0, 3)):
                self._statement(inner, self.random.randint(0, 1))
            return [self._get(inner, kind) for kind in given]

        self._texts.append(self._function(name, "private", taken, fill))
        self.functions.append((name, taken, given, self.level))
        self.level -= 1
        self.depth = depth

    # ---- control flow

    def _branches(self, scope: Scope, depth: int, op: str, operand: Value, count: int) -> None:
        kinds = self.random.choices([*self.kinds, COUNTER], k=self.random.randint(1, 3))

        def fill() -> list[Value]:
            inner = list(scope)
            for _ in range(self.random.choice([0, 0, 1, 2])):
                self._statement(inner, depth - 1)
            return [self._get(inner, kind) for kind in kinds]

        scope += self.several(op, [operand], kinds, regions=[self.region([], fill) for _ in range(count)])

    def _if(self, scope: Scope, depth: int) -> None:
        self._branches(scope, depth, "if", self._predicate(scope), 2)

    def _case(self, scope: Scope, depth: int) -> None:
        self._branches(scope, depth, "case", self._index(scope, "i32"), self.random.randint(1, 3))

    def _while(self, scope: Scope, depth: int) -> None:
        draw = self.random
        kinds = draw.choices(self.kinds, k=draw.randint(1, 4)) + [COUNTER] * (draw.random() < 0.3)
        initial: list[Value] = []
        for kind in kinds:
            same = [x for x in initial if x.kind == kind]
            chance = draw.random()
            if same and chance < 0.3:
                initial.append(draw.choice(same))
            else:
                initial.append(self.constant(kind) if chance < 0.5 else self._get(scope, kind))
        zero, one, limit = self.constant(COUNTER, 0), self.constant(COUNTER, 1), self._limit(scope)
        early = draw.random() < 0.25

        def condition(i: Value, *carries: Value) -> list[Value]:
            more = self.compared("LT", i, limit)
            if early:  # the loop may end early, but not before two iterations
                first = self.compared("LT", i, self.constant(COUNTER, 2))
                goes_on = self.op("or", [self._predicate(scope[-2:] + [*carries]), first])
                more = self.op("and", [more, goes_on])
            return [more]

        def body(i: Value, *carries: Value) -> list[Value]:
            inner = [*scope, *carries, i]
            for _ in range(draw.choice([0, 1, 1, 2, 3, 4])):
                self._statement(inner, depth - 1)
            computed = inner[len(scope) + len(carries) + 1 :]
            new = [self.op("add", [i, one])]
            for carry in carries:
                new.append(self._new(carry, carries, computed, scope, new[1:]))
            return new

        types = [COUNTER, *kinds]
        regions = [self.region(types, condition), self.region(types, body)]
        scope += self.several("while", [zero, *initial], types, regions=regions)

    def _limit(self, scope: Scope) -> Value:
        if self.random.random() < 0.5:
            return self.constant(COUNTER, self.random.choice([0, 1, 2, 3, 3, 5]))
        return self.op("minimum", [self._index(scope, "i32"), self.constant(COUNTER, 4)])

    def _new(
        self, carry: Value, carries: Sequence[Value], computed: Scope, scope: Scope, before: Sequence[Value]
    ) -> Value:
        """Returns the value that the body returns for the carried value `carry`.

        `before` are the values that the body returns for the carried values before `carry`.
        """
        chance = self.random.random()
        choices: list[tuple[float, Sequence[Value]]] = [
            (0.1, [carry]),
            (0.3, carries),
            (0.4, before),
            (0.48, scope),
            (1.0, computed),
        ]
        for limit, values in choices:
            alike = [x for x in values if x.kind == carry.kind]
            if chance < limit and alike:
                return self.random.choice(alike)
        other = self._get([*scope, *carries, *computed], carry.kind)
        return self.bounded(self.op("add", [carry, other])) if carry.kind.element != "i1" else other
