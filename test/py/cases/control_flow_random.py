"""Random small StableHLO programs with branches, loops and calls. The values are f64 scalars and pairs.

The values stay small, because most ops are sines, cosines and tanhs. A loop ends after a few iterations by a counter,
by a bound that is known only at run time, or by a condition on a value. Counters have various types, directions and
steps.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

SCALAR, PAIR = "tensor<f64>", "tensor<2xf64>"
Draw = Callable[[int], int]
"""A function that maps n to a random integer from 0 to n - 1."""


@dataclass
class Writer:
    """Collects the lines of a program.

    `functions` contains the name, argument types and result types of each function that can be called.
    """

    draw: Draw
    lines: list[str] = field(default_factory=list)
    functions: list[tuple[str, list[str], list[str]]] = field(default_factory=list)
    count: int = 0

    def fresh(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def emit(self, text: str) -> str:
        name = self.fresh()
        self.lines.append(f"{name} = {text}")
        return name

    def pick(self, scope: dict[str, str], type_: str) -> str:
        candidates = [name for name, t in scope.items() if t == type_]
        if candidates:
            return candidates[self.draw(len(candidates))]
        number = self.draw(100) / 100
        return self.emit(f"stablehlo.constant dense<{number}> : {type_}")

    def unary(self, name: str, x: str, type_: str) -> str:
        return self.emit(f"stablehlo.{name} {x} : {type_}")

    def binary(self, name: str, x: str, y: str, type_: str) -> str:
        return self.emit(f"stablehlo.{name} {x}, {y} : {type_}")

    def integer(self, value: int, type_: str = "i32") -> str:
        return self.emit(f"stablehlo.constant dense<{value}> : tensor<{type_}>")

    def compare(self, x: str, y: str, direction: str, type_: str) -> str:
        return self.emit(f"stablehlo.compare {direction}, {x}, {y} : ({type_}, {type_}) -> tensor<i1>")

    def results(self, count: int) -> list[str]:
        """Adds the beginning of the line of an op with `count` results. Returns the names of the results."""
        name = self.fresh()
        self.lines.append(f"{name}:{count} =" if count > 1 else f"{name} =")
        return [f"{name}#{i}" for i in range(count)] if count > 1 else [name]


def program(draw: Draw) -> str:
    """Writes a random module whose functions may call functions before them.

    The arguments of `main` are a scalar, a pair and an integer.
    """
    writer = Writer(draw)
    for i in range(draw(3)):
        taken = [(SCALAR, PAIR)[draw(2)] for _ in range(1 + draw(3))]
        given = [(SCALAR, PAIR)[draw(2)] for _ in range(1 + draw(2))]
        _function(writer, f"f{i}", taken, given, 1)
        writer.functions.append((f"f{i}", taken, given))
    _function(writer, "main", [SCALAR, PAIR, "tensor<i32>"], [SCALAR, PAIR], 2)
    return "\n".join(writer.lines) + "\n"


def _function(w: Writer, name: str, taken: list[str], given: list[str], depth: int) -> None:
    arguments = [w.fresh() for _ in taken]
    signature = ", ".join(f"{x}: {t}" for x, t in zip(arguments, taken, strict=True))
    hidden = "" if name == "main" else ("private ", "private ")[w.draw(2)]
    attributes = " attributes {no_inline}" if name != "main" and w.draw(2) else ""
    w.lines.append(f"func.func {hidden}@{name}({signature}) -> ({', '.join(given)}){attributes} {{")
    scope = dict(zip(arguments, taken, strict=True))
    _statements(w, scope, depth, 2 + w.draw(3))
    outputs = [_given(w, scope, t) for t in given]
    w.lines.append(f"return {', '.join(outputs)} : {', '.join(given)}\n}}")


def _statements(w: Writer, scope: dict[str, str], depth: int, count: int) -> None:
    kinds = [_elementwise, _elementwise, _mixed, _barrier]
    if depth:
        kinds += [_if, _case, _while, _while, _while]
        if w.functions:
            kinds += [_call]
    for _ in range(count):
        kinds[w.draw(len(kinds))](w, scope, depth)


def _given(w: Writer, scope: dict[str, str], type_: str) -> str:
    """Returns a value of the scope, or the sine of a value of the scope."""
    x = w.pick(scope, type_)
    return x if w.draw(3) == 0 else w.unary("sine", x, type_)


def _elementwise(w: Writer, scope: dict[str, str], depth: int) -> None:
    type_ = (SCALAR, PAIR)[w.draw(2)]
    x, y = w.pick(scope, type_), w.pick(scope, type_)
    result = w.binary(("add", "multiply", "subtract")[w.draw(3)], x, y, type_)
    scope[w.unary(("sine", "tanh", "cosine")[w.draw(3)], result, type_)] = type_


def _mixed(w: Writer, scope: dict[str, str], depth: int) -> None:
    if w.draw(2):
        x = w.pick(scope, SCALAR)
        scope[w.emit(f"stablehlo.broadcast_in_dim {x}, dims = [] : ({SCALAR}) -> {PAIR}")] = PAIR
        return
    x, y = w.pick(scope, PAIR), w.pick(scope, PAIR)
    result = w.emit(
        f"stablehlo.dot_general {x}, {y}, contracting_dims = [0] x [0] : ({PAIR}, {PAIR}) -> {SCALAR}"
    )
    scope[w.unary("sine", result, SCALAR)] = SCALAR


def _barrier(w: Writer, scope: dict[str, str], depth: int) -> None:
    """Adds a barrier, as JAX does before ops that derivatives compute again."""
    x, y = w.pick(scope, SCALAR), w.pick(scope, PAIR)
    results = w.results(2)
    w.lines.append(f"stablehlo.optimization_barrier {x}, {y} : {SCALAR}, {PAIR}")
    scope.update(zip(results, (SCALAR, PAIR), strict=True))


def _index(w: Writer, scope: dict[str, str]) -> str:
    """Returns an integer that is a value of the scope, or a constant, plus an offset."""
    x = w.pick(scope, "tensor<i32>") if "tensor<i32>" in scope.values() else w.integer(w.draw(3))
    return w.binary("add", x, w.integer(w.draw(3) - 1), "tensor<i32>")


def _predicate(w: Writer, scope: dict[str, str]) -> str:
    if w.draw(2):
        return w.compare(w.pick(scope, SCALAR), w.pick(scope, SCALAR), "LT", SCALAR)
    two = w.integer(2)
    return w.compare(
        w.binary("remainder", _index(w, scope), two, "tensor<i32>"), w.integer(0), "EQ", "tensor<i32>"
    )


def _branches(
    w: Writer, scope: dict[str, str], depth: int, head: str, operand: str, type_: str, count: int
) -> None:
    given = [(SCALAR, PAIR)[w.draw(2)] for _ in range(1 + w.draw(2))]
    results = w.results(len(given))
    w.lines.append(f'"stablehlo.{head}"({operand}) ({{')
    for i in range(count):
        if i:
            w.lines.append("}, {")
        inner = dict(scope)
        _statements(w, inner, depth - 1, w.draw(3))
        w.lines.append(f"stablehlo.return {', '.join(_late(w, inner, given))} : {', '.join(given)}")
    w.lines.append(f"}}) : ({type_}) -> ({', '.join(given)})")
    scope.update(zip(results, given, strict=True))


def _late(w: Writer, scope: dict[str, str], types: list[str]) -> list[str]:
    return [_given(w, scope, t) for t in types]


def _if(w: Writer, scope: dict[str, str], depth: int) -> None:
    _branches(w, scope, depth, "if", _predicate(w, scope), "tensor<i1>", 2)


def _case(w: Writer, scope: dict[str, str], depth: int) -> None:
    _branches(w, scope, depth, "case", _index(w, scope), "tensor<i32>", 1 + w.draw(3))


def _call(w: Writer, scope: dict[str, str], depth: int) -> None:
    name, taken, given = w.functions[w.draw(len(w.functions))]
    operands = [w.pick(scope, t) for t in taken]
    results = w.results(len(given))
    w.lines.append(f"call @{name}({', '.join(operands)}) : ({', '.join(taken)}) -> ({', '.join(given)})")
    scope.update(zip(results, given, strict=True))


COUNTERS = (  # (start, step, limit, direction) for 0 to 5 iterations
    (0, 1, 3, "LT"),
    (0, 1, 0, "LT"),
    (1, 2, 5, "LE"),
    (5, -1, 1, "GT"),
    (6, -2, 2, "GE"),
    (0, 1, 2, "NE"),
    (4, 1, 4, "EQ"),
    (0, 1, 1, "LT"),
)


def _while(w: Writer, scope: dict[str, str], depth: int) -> None:
    """Adds a loop with a counter and some other carried values. The position of the counter is random."""
    start, step, limit, direction = COUNTERS[w.draw(len(COUNTERS))]
    type_ = "tensor<i32>" if (kind := w.draw(3)) else ("tensor<i8>", "tensor<i64>", "tensor<ui32>")[w.draw(3)]
    number = type_[7:-1]
    types = [(SCALAR, PAIR)[w.draw(2)] for _ in range(1 + w.draw(3))]
    place = w.draw(len(types) + 1)
    inits = [w.pick(scope, t) for t in types]
    bound = None
    if kind == 1 and "tensor<i32>" in scope.values():  # the bound is known only at run time
        start, step, direction = 0, 1, "LT"
        bound = w.pick(scope, "tensor<i32>")
    elif step < 0 and number == "ui32":
        start, step, limit, direction = 0, 1, 3, "LT"
    inits.insert(place, w.integer(start, number))
    types.insert(place, type_)
    outside = w.integer(limit, number) if bound is None and w.draw(2) else bound
    results = w.results(len(types))
    w.lines.append(f'"stablehlo.while"({", ".join(inits)}) ({{')
    a = _block(w, types)
    stop = outside or w.integer(limit, number)
    test = w.compare(a[place], stop, direction, type_)
    if kind == 2:  # a condition on a value also ends the loop
        cutoff = w.emit(f"stablehlo.constant dense<{0.3 + w.draw(7) / 10}> : {SCALAR}")
        of = [x for x, t in zip(a, types, strict=True) if t == SCALAR]
        x = of[w.draw(len(of))] if of else w.pick(scope, SCALAR)
        test = w.binary("and", test, w.compare(x, cutoff, "LT", SCALAR), "tensor<i1>")
    w.lines.append(f"stablehlo.return {test} : tensor<i1>\n}}, {{")
    a = _block(w, types)
    inner = scope | {x: t for x, t in zip(a, types, strict=True)}
    _statements(w, inner, depth - 1, w.draw(4))
    nexts = [
        w.binary("add", a[i], w.integer(step, number), type_) if i == place else _given(w, inner, t)
        for i, t in enumerate(types)
    ]
    w.lines.append(f"stablehlo.return {', '.join(nexts)} : {', '.join(types)}")
    w.lines.append(f"}}) : ({', '.join(types)}) -> ({', '.join(types)})")
    scope.update((x, t) for x, t in zip(results, types, strict=True) if t != type_ or t == "tensor<i32>")


def _block(w: Writer, types: list[str]) -> list[str]:
    arguments = [w.fresh() for _ in types]
    typed = ", ".join(f"{x}: {t}" for x, t in zip(arguments, types, strict=True))
    w.lines.append(f"^bb0({typed}):")
    return arguments
