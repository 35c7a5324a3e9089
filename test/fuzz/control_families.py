"""Families of control flow for random programs: branches, loops and calls with small random bodies."""

from composer import Composer, Value

SCALAR = "tensor<i32>"


def body(c: Composer, x: str, y: str, type_: str, prefix: str) -> tuple[list[str], str]:
    """Returns the lines of one to three random ops on x and y, and the name of the last result.

    The absolute values of this result are at most 1.
    """
    lines, value = [], x
    for i in range(c.integer(1, 3)):
        name = f"%{prefix}{i}"
        op = c.choose(("sine", "tanh", "cosine", "multiply", "add", "subtract"))
        if op in ("sine", "tanh", "cosine"):
            lines.append(f"{name} = stablehlo.{op} {value} : {type_}")
        else:
            lines.append(f"{name}s = stablehlo.{op} {value}, {c.choose((x, y, value))} : {type_}")
            lines.append(f"{name} = stablehlo.tanh {name}s : {type_}")
        value = name
    return lines, value


def branches(c: Composer) -> Value:
    """Adds an `if` with a comparison as its predicate, or a `case` with a rounded value as its index.

    The branches read values from outside.
    """
    x = c.real()
    y = c.fit(c.real(), x.shape)
    chooser = c.fit(c.real(), ())
    regions = []
    count = c.choose((2, 3))
    for i in range(count):
        lines, value = body(c, x.name, y.name, x.type, f"b{i}_")
        regions.append("{\n    " + "\n    ".join([*lines, f"stablehlo.return {value} : {x.type}"]) + "\n  }")
    if count == 2:
        zero = c.constant(0.1)
        index = c.emit(
            f"stablehlo.compare LT, {chooser.name}, {zero.name} : (tensor<f64>, tensor<f64>) -> tensor<i1>"
        )
        text = f'"stablehlo.if"({index.name}) ({", ".join(regions)}) : (tensor<i1>) -> {x.type}'
    else:
        index = c.emit(f"stablehlo.convert {chooser.name} : (tensor<f64>) -> {SCALAR}")
        text = f'"stablehlo.case"({index.name}) ({", ".join(regions)}) : ({SCALAR}) -> {x.type}'
    return c.emit(text, x.shape, bound=max(2.0, x.bound))


def loop(c: Composer) -> Value:
    """Adds a while loop whose body may read a value from outside.

    Its trip count is at most 4, or depends on a value.
    """
    x = c.real()
    y = c.fit(c.real(), x.shape)
    start, count = c.integer(0, 1), c.integer(0, 4)
    numbers = [c.emit(f"stablehlo.constant dense<{n}> : {SCALAR}").name for n in (start, count, 1)]
    if c.flag():  # a value of the program determines the trip count, so that compilers do not know it
        rounded = c.emit(f"stablehlo.convert {c.fit(c.real(), ()).name} : (tensor<f64>) -> {SCALAR}")
        numbers[1] = c.emit(f"stablehlo.add {rounded.name}, {numbers[1]} : {SCALAR}").name
    lines, value = body(c, "%carry", c.choose((y.name, "%carry")), x.type, "w")
    pair = c.emit(
        f"stablehlo.while(%i = {numbers[0]}, %carry = {x.name}) : {SCALAR}, {x.type}\n"
        "  cond {\n"
        f"    %p = stablehlo.compare LT, %i, {numbers[1]} : ({SCALAR}, {SCALAR}) -> tensor<i1>\n"
        "    stablehlo.return %p : tensor<i1>\n  } do {\n    "
        + "\n    ".join([f"%j = stablehlo.add %i, {numbers[2]} : {SCALAR}", *lines])
        + f"\n    stablehlo.return %j, {value} : {SCALAR}, {x.type}\n  }}"
    )
    c.several(pair, 2)
    return Value(f"{pair.name}#1", x.shape, False, max(2.0, x.bound))


def call(c: Composer) -> Value:
    """Adds a function of two arguments, and one or two calls of it. Both arguments of a call may be the same value."""
    x = c.real()
    y = c.fit(c.real(), x.shape)
    lines, value = body(c, "%a", "%b", x.type, "f")
    name = c.function(f"(%a: {x.type}, %b: {x.type}) -> {x.type}", [*lines, f"return {value} : {x.type}"])
    types = f"({x.type}, {x.type}) -> {x.type}"
    result = c.emit(f"func.call {name}({x.name}, {y.name}) : {types}", x.shape, bound=2.0)
    if c.flag():
        other = c.choose((x, y, result))
        result = c.emit(f"func.call {name}({result.name}, {other.name}) : {types}", x.shape, bound=2.0)
    return result


CONTROL = (branches, loop, call)
