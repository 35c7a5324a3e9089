"""Random control-flow programs in JAX. The arguments are a scalar, a vector of three, a 2 x 3 matrix, and an integer.

Loops carry up to four values, which are floats, integers, booleans or random keys. An iteration keeps, swaps or
replaces these values. A loop ends by its counter, a computed integer, or a condition on values. Regions are loop
bodies, branches, functions with several calls, functions that JAX differentiates with or without `jax.checkpoint`, and
functions under `jax.vmap`. A region may read values of enclosing regions, and use them as carried values, indices or
trip counts.

JAX traces a loop body several times. To draw the same numbers each time, each region has a separate generator, whose
seed depends on the position of the region in the program.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

Draw = random.Random
Place = tuple[Any, ...]
SHAPES: dict[str, tuple[int, ...]] = {"scalar": (), "vector": (3,), "matrix": (2, 3)}
FLOATS = list(SHAPES)
ELEMENTWISE: tuple[Callable[..., Any], ...] = (
    lambda x, y: jnp.sin(x * y + 0.1),
    lambda x, y: jnp.tanh(x + y),
    lambda x, y: jnp.exp(-x * x) * y,
    lambda x, y: x / (1 + y * y),
    lambda x, y: jnp.where(x > y, x * 0.8, jnp.sin(y)),
    lambda x, y: jnp.maximum(x, y * 0.9) * 1.1,
    lambda x, y: jnp.clip(x, -0.9, 0.93) * y,
    lambda x, y: x,
)


class Scope:
    """Maps kinds of values to the values that a region may read."""

    def __init__(self, around: "Scope | None" = None) -> None:
        kinds = (*FLOATS, "integer", "truth", "key")
        self.values: dict[str, list[Any]] = {
            kind: [] if around is None else [*around.values[kind]] for kind in kinds
        }

    def add(self, kind: str, x: Any) -> None:
        self.values[kind].append(x)


class Generator:
    """Generates the random program of a seed. The function of the program is `main`."""

    def __init__(self, seed: int, size: int = 4, depth: int = 2) -> None:
        self._seed, self._size, self._depth = seed, size, depth
        self._function: Any = None
        self._simple = [
            self._elementwise,
            self._arranged,
            self._picked,
            self._changed,
            self._integer,
            self._reduced,
        ]
        self._nested = [
            self._cond,
            self._switch,
            self._scan,
            self._fori,
            self._gradient,
            self._mapped,
            self._keys,
        ]
        self._forward_only = [self._while, self._while, self._dynamic, self._called]

    def main(self, scalar: Any, vector: Any, matrix: Any, integer: Any) -> tuple[Any, ...]:
        draw, scope = self._draw(("main",)), Scope()
        for kind, x in zip((*FLOATS, "integer"), (scalar, vector, matrix, integer), strict=True):
            scope.add(kind, x)
        self._statements(draw, scope, self._depth, 2 + draw.randrange(self._size), ("main",), False)
        return tuple(self._given(draw, scope, kind) for kind in FLOATS)

    # ---- values ------------------------------------------------------------------------------------------------

    def _draw(self, place: Place) -> Draw:
        return Draw(repr((self._seed, place)))

    def _pick(self, draw: Draw, scope: Scope, kind: str) -> Any:
        """Draws a value of this kind from the scope, with a preference for recent values.

        If the scope has no such value, the result is a constant.
        """
        values = scope.values[kind]
        if values:
            return (
                values[-1 - draw.randrange(min(3, len(values)))]
                if draw.random() < 0.5
                else draw.choice(values)
            )
        if kind == "integer":
            return jnp.int32(draw.randrange(3))
        if kind == "key":
            return jax.random.PRNGKey(draw.randrange(10))
        return jnp.asarray(True) if kind == "truth" else jnp.full(SHAPES[kind], draw.randrange(100) / 100)

    def _given(self, draw: Draw, scope: Scope, kind: str) -> Any:
        x = self._pick(draw, scope, kind)
        return jnp.sin(x) if kind in FLOATS and draw.random() < 0.6 else x

    def _kinds(self, draw: Draw, fewest: int, most: int, others: Sequence[str] = ()) -> list[str]:
        return [draw.choice([*FLOATS, *others]) for _ in range(draw.randint(fewest, most))]

    def _index(self, draw: Draw, scope: Scope, count: int) -> Any:
        return self._pick(draw, scope, "integer") % count

    # ---- statements: (draw, scope, depth, place, whether JAX will differentiate them in reverse) -------------

    def _statements(
        self, draw: Draw, scope: Scope, depth: int, count: int, place: Place, reverse: bool
    ) -> None:
        nested = self._nested if reverse else self._nested + self._forward_only
        for i in range(count):
            statement = draw.choice(nested if depth > 0 and draw.random() < 0.55 else self._simple)
            statement(draw, scope, depth, (*place, i), reverse)

    def _elementwise(self, draw: Draw, scope: Scope, *_: Any) -> None:
        kind = draw.choice(FLOATS)
        x, y = (self._pick(draw, scope, k) for k in (kind, draw.choice([kind, "scalar"])))
        scope.add(kind, draw.choice(ELEMENTWISE)(x, y))

    def _arranged(self, draw: Draw, scope: Scope, *_: Any) -> None:
        x, y = (self._pick(draw, scope, "vector") for _ in range(2))
        kind, value = draw.choice(
            [("matrix", jnp.stack([x, y])), ("vector", x[::-1]), ("matrix", jnp.broadcast_to(x, (2, 3)))]
        )
        scope.add(kind, value)

    def _picked(self, draw: Draw, scope: Scope, *_: Any) -> None:
        vector, matrix = (self._pick(draw, scope, kind) for kind in ("vector", "matrix"))
        which = draw.randrange(4)
        if which == 0:
            scope.add("scalar", vector[self._index(draw, scope, 3)])
        elif which == 1:
            scope.add("vector", matrix[self._index(draw, scope, 2)])
        elif which == 2:
            scope.add("vector", vector[jnp.array([draw.randrange(3) for _ in range(3)])])
        else:
            scope.add(
                "vector", jnp.concatenate([vector, matrix[0]])[jnp.arange(3) + self._index(draw, scope, 4)]
            )

    def _changed(self, draw: Draw, scope: Scope, *_: Any) -> None:
        """Adds a copy of an array in which one part is changed."""
        vector, matrix = (self._pick(draw, scope, kind) for kind in ("vector", "matrix"))
        how, which = draw.choice(["set", "add", "multiply"]), draw.randrange(4)
        if which == 0:
            value = getattr(vector.at[self._index(draw, scope, 3)], how)(self._pick(draw, scope, "scalar"))
        elif which == 1:
            value = getattr(matrix.at[self._index(draw, scope, 2)], how)(vector)
        elif which == 2:
            update = self._pick(draw, scope, "vector")[:2]
            value = lax.dynamic_update_slice(vector, update, (self._index(draw, scope, 2),))
        else:
            value = vector.at[jnp.array([0, 2, 0])].add(self._pick(draw, scope, "vector"))
        scope.add("matrix" if which == 1 else "vector", value)

    def _integer(self, draw: Draw, scope: Scope, *_: Any) -> None:
        integer, scalar = (self._pick(draw, scope, kind) for kind in ("integer", "scalar"))
        which = draw.randrange(5)
        if which == 0:
            scope.add("integer", (integer * 2 + draw.randrange(3)) % 5)
        elif which == 1:
            scope.add("integer", jnp.argmax(self._pick(draw, scope, "vector")).astype(jnp.int32))
        elif which == 2:
            scope.add("integer", jnp.clip(jnp.floor(scalar * 4), 0, 3).astype(jnp.int32))
        elif which == 3:
            scope.add("scalar", 0.1 * integer + scalar * 0.8)
        else:
            scope.add("truth", scalar < self._pick(draw, scope, "scalar"))

    def _reduced(self, draw: Draw, scope: Scope, *_: Any) -> None:
        vector, matrix = (self._pick(draw, scope, kind) for kind in ("vector", "matrix"))
        kind, value = draw.choice(
            [
                ("scalar", jnp.tanh(vector @ self._pick(draw, scope, "vector"))),
                ("vector", jnp.tanh((matrix @ vector) @ matrix)),
                ("vector", jnp.cumsum(vector) * 0.4),
                ("vector", jnp.sort(vector)),
                ("vector", jax.nn.softmax(vector)),
                ("scalar", jnp.mean(matrix)),
            ]
        )
        scope.add(kind, value)

    def _region(
        self,
        place: Place,
        arguments: Sequence[Any],
        kinds: Sequence[str],
        around: Scope | None,
        depth: int,
        reverse: bool,
    ) -> tuple[Draw, Scope]:
        draw, scope = self._draw(place), Scope(around)
        for kind, x in zip(kinds, arguments, strict=True):
            scope.add(kind, x)
        self._statements(draw, scope, depth, draw.randrange(4), place, reverse)
        return draw, scope

    def _results(self, place: Place, kinds: Sequence[str], *region: Any) -> tuple[Any, ...]:
        draw, scope = self._region(place, *region)
        return tuple(jnp.asarray(self._given(draw, scope, kind)) for kind in kinds)

    def _cond(self, draw: Draw, scope: Scope, depth: int, place: Place, reverse: bool) -> None:
        kinds = self._kinds(draw, 1, 3, ["integer"])
        test = self._pick(draw, scope, "scalar") < self._pick(draw, scope, "scalar") + 0.01
        branches = [
            lambda i=i: self._results((*place, i), kinds, (), (), scope, depth - 1, reverse) for i in range(2)
        ]
        self._added(scope, kinds, lax.cond(test, *branches))

    def _switch(self, draw: Draw, scope: Scope, depth: int, place: Place, reverse: bool) -> None:
        """Adds a switch whose index may be out of range."""
        kinds, index = self._kinds(draw, 1, 3), self._pick(draw, scope, "integer") - draw.randrange(2)
        branches = [
            lambda x, i=i: self._results((*place, i), kinds, [x], ["vector"], scope, depth - 1, reverse)
            for i in range(1 + draw.randrange(3))
        ]
        self._added(scope, kinds, lax.switch(index, branches, self._pick(draw, scope, "vector")))

    def _added(self, scope: Scope, kinds: Sequence[str], values: Sequence[Any]) -> None:
        for kind, x in zip(kinds, values, strict=True):
            scope.add(kind, x)

    def _carries(self, draw: Draw, scope: Scope) -> tuple[list[str], list[Any]]:
        kinds = self._kinds(draw, 1, 4, ["integer", "truth", "key"])
        return kinds, [jnp.asarray(self._pick(draw, scope, kind)) for kind in kinds]

    def _body(
        self, place: Place, kinds: Sequence[str], depth: int, reverse: bool, scope: Scope
    ) -> Callable[..., Any]:
        """Returns a loop body, which is a function from carried and other values to the following carried values.

        The body keeps or swaps some carried values.
        """

        def body(carries: Sequence[Any], more: Sequence[Any] = (), of: Sequence[str] = ()) -> list[Any]:
            draw, inner = self._region(place, [*carries, *more], [*kinds, *of], scope, depth - 1, reverse)
            following = []
            for kind, x in zip(kinds, carries, strict=True):
                alike = [y for y, other in zip(carries, kinds, strict=True) if other == kind]
                chance = draw.random()
                y = (
                    x
                    if chance < 0.15
                    else draw.choice(alike)
                    if chance < 0.35
                    else self._given(draw, inner, kind)
                )
                following.append(jnp.asarray(y % 5 if kind == "integer" else y, x.dtype))
            return following

        return body

    def _scan(self, draw: Draw, scope: Scope, depth: int, place: Place, reverse: bool) -> None:
        kinds, carries = self._carries(draw, scope)
        over = draw.choice(["matrix", "vector", None])
        body = self._body(place, kinds, depth, reverse, scope)

        def step(c: Any, x: Any) -> Any:
            more = {"matrix": ["vector"], "vector": ["scalar"], None: []}[over]
            following = body(c, [x] if more else [], more)
            return tuple(following), following[0]

        xs = None if over is None else self._pick(draw, scope, over)
        length = draw.choice([0, 1, 2, 5]) if over is None else None
        last, ys = lax.scan(step, tuple(carries), xs, length=length, reverse=draw.random() < 0.4)
        self._added(scope, kinds, last)
        if kinds[0] == "scalar":
            scope.add("scalar", jnp.sum(ys * jnp.arange(1, 1 + len(ys))))
        elif kinds[0] in FLOATS:
            scope.add(kinds[0], jnp.sum(ys, 0) * 0.5)

    def _fori(self, draw: Draw, scope: Scope, depth: int, place: Place, reverse: bool) -> None:
        self._counted(draw, scope, depth, place, reverse, draw.choice([(0, 3), (2, 3), (2, 5), (0, 0)]))

    def _dynamic(self, draw: Draw, scope: Scope, depth: int, place: Place, reverse: bool) -> None:
        ends = jnp.int32(draw.choice([0, 0, 1, -1])), self._pick(draw, scope, "integer")
        self._counted(draw, scope, depth, place, reverse, ends)

    def _counted(self, draw: Draw, scope: Scope, depth: int, place: Place, reverse: bool, ends: Any) -> None:
        kinds, carries = self._carries(draw, scope)
        body = self._body(place, kinds, depth, reverse, scope)

        def step(i: Any, c: Any) -> Any:
            return tuple(body(c, [jnp.asarray(i, jnp.int32)], ["integer"]))

        self._added(scope, kinds, lax.fori_loop(*ends, step, tuple(carries)))

    def _while(self, draw: Draw, scope: Scope, depth: int, place: Place, reverse: bool) -> None:
        """Adds a loop with at most four iterations. It may also end when a carried value becomes large or small."""
        kinds, carries = self._carries(draw, scope)
        body = self._body(place, kinds, depth, reverse, scope)
        limit, until, cutoff = draw.randrange(5), draw.choice(["counter", "large", "small"]), draw.random()
        bound, of = self._pick(draw, scope, "scalar"), [i for i, kind in enumerate(kinds) if kind in FLOATS]

        def test(state: Any) -> Any:
            within = state[0] < limit
            if until == "counter" or not of:
                return within
            x = state[1][of[0]]
            return within & (jnp.sum(x) < bound + cutoff if until == "large" else jnp.sum(x * x) > 0.05)

        n, last = lax.while_loop(
            test, lambda s: (s[0] + 1, tuple(body(s[1]))), (jnp.int32(0), tuple(carries))
        )
        self._added(scope, [*kinds, "integer"], [*last, n])

    def _called(self, draw: Draw, scope: Scope, depth: int, place: Place, reverse: bool) -> None:
        """Calls a function that is the same for all calls in the program."""
        if place[0] == "function":
            return
        kinds = ["vector", "scalar"]
        if self._function is None:
            self._function = jax.jit(lambda *x: self._results(("function",), kinds, x, kinds, None, 1, False))
        self._added(scope, kinds, self._function(*(self._pick(draw, scope, kind) for kind in kinds)))

    def _gradient(self, draw: Draw, scope: Scope, depth: int, place: Place, reverse: bool) -> None:
        """Adds a gradient that JAX computes.

        With `jax.checkpoint`, JAX emits optimization barriers before the ops that it computes again.
        """

        def f(x: Any) -> Any:
            y, z = self._results(place, ["vector", "scalar"], [x], ["vector"], scope, depth - 1, True)
            return jnp.sum(jnp.sin(y)) + z

        body = jax.checkpoint(f) if draw.random() < 0.5 else f
        scope.add("vector", jnp.tanh(jax.grad(body)(self._pick(draw, scope, "vector"))))

    def _mapped(self, draw: Draw, scope: Scope, depth: int, place: Place, reverse: bool) -> None:
        mapped = draw.choice([jax.vmap, lambda f: lambda x: lax.map(f, x)])

        def f(x: Any) -> Any:
            return self._results(place, ["vector"], [x], ["vector"], scope, depth - 1, reverse)[0]

        scope.add("matrix", mapped(f)(self._pick(draw, scope, "matrix")))

    def _keys(self, draw: Draw, scope: Scope, *_: Any) -> None:
        following, key = jax.random.split(self._pick(draw, scope, "key"))
        scope.add("key", following)
        scope.add("vector", jax.random.uniform(key, (3,)) * self._pick(draw, scope, "vector"))
