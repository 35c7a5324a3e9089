"""Families of ops that few frontends emit: einsum, scan, composite, bit ops, and ops with parameters as operands."""

import math

from composer import ELEMENTS, SIZES, Composer, Value, tensor


def einsum(c: Composer) -> Value:
    """Adds an einsum, which multiplies two arrays, or a unary_einsum, which sums and transposes one array."""
    x = c.real(1)
    letters = "abcdefgh"[: x.rank]
    if c.flag():
        kept = [letter for letter in letters if c.flag()]
        c.random.shuffle(kept)
        shape = [x.shape[letters.index(letter)] for letter in kept]
        config = f'einsum_config = "{letters}->{"".join(kept)}"'
        text = f'"stablehlo.unary_einsum"({x.name}) {{{config}}} : ({x.type}) -> {tensor(shape)}'
        return c.emit(text, shape, bound=x.bound * math.prod(x.shape))
    y = c.fit(c.real(), (x.shape[-1], c.choose(SIZES)))
    kept = [*letters[:-1], "z"]
    c.random.shuffle(kept)
    shape = [y.shape[1] if letter == "z" else x.shape[letters.index(letter)] for letter in kept]
    config = f'einsum_config = "{letters},{letters[-1]}z->{"".join(kept)}"'
    text = f'"stablehlo.einsum"({x.name}, {y.name}) {{{config}}} : ({x.type}, {y.type}) -> {tensor(shape)}'
    return c.emit(text, shape, bound=x.bound * y.bound * x.shape[-1])


def scan(c: Composer) -> Value:
    """Adds a scan over the rows of an array, in forward or reverse order."""
    x = c.real(1)
    row = x.shape[1:]
    init, part = c.fit(c.real(), row), tensor(row)
    where = " attributes {is_reverse = true}" if c.flag() else ""
    results = c.emit(
        f"chlo.scan({x.name}) inits({init.name}) dimension=0{where} {{\n  ^bb0(%a: {part}, %b: {part}):\n"
        f"    %1 = stablehlo.{c.choose(('add', 'multiply'))} %a, %b : {part}\n    %2 = stablehlo.tanh %1 : {part}\n"
        f"    stablehlo.return %1, %2 : {part}, {part}\n  }} : ({x.type}, {part}) -> ({x.type}, {part})"
    )
    c.several(results, 2)
    i = c.integer(0, 1)
    bound = max(1.0, init.bound)
    return Value(f"{results.name}#{i}", (x.shape, row)[i], False, (x.bound * bound + bound, 1.0)[i])


def torch_index_select(c: Composer) -> Value:
    x, count = c.real(1), c.choose(SIZES)
    dim = c.integer(0, x.rank - 1)
    indices = c.integers(count, 0, x.shape[dim] - 1)
    type_ = tensor((count,), "i32")
    where = c.emit(f"stablehlo.constant dense<{indices}> : {type_}")
    shape = (*x.shape[:dim], count, *x.shape[dim + 1 :])
    text = (
        f'"stablehlo.torch_index_select"({x.name}, {where.name}) <{{dim = {dim} : i64, batch_dims = 0 : i64}}> '
        f": ({x.type}, {type_}) -> {tensor(shape)}"
    )
    return c.emit(text, shape, bound=x.bound)


def composite(c: Composer) -> Value:
    """Adds a composite op, and the private function that is its decomposition."""
    x = c.real()
    y = c.fit(c.real(), x.shape)
    lines = [
        f"%0 = stablehlo.multiply %a, %b : {x.type}",
        f"%1 = stablehlo.sine %0 : {x.type}",
        f"%2 = stablehlo.add %1, %a : {x.type}",
        f"return %2 : {x.type}",
    ]
    name = c.function(f"(%a: {x.type}, %b: {x.type}) -> {x.type}", lines)
    text = (
        f'stablehlo.composite "fuzz.any" {x.name}, {y.name} {{decomposition = {name}}} '
        f": ({x.type}, {x.type}) -> {x.type}"
    )
    return c.emit(text, x.shape, bound=1.0 + x.bound)


def broadcast(c: Composer) -> Value:
    x = c.real()
    shape = (c.choose(SIZES), *x.shape)
    if math.prod(shape) > ELEMENTS:
        return x
    text = f"stablehlo.broadcast {x.name}, sizes = [{shape[0]}] : ({x.type}) -> {tensor(shape)}"
    return c.emit(text, shape, bound=x.bound)


def dot(c: Composer) -> Value:
    x = c.fit(c.real(1), (c.choose(SIZES), c.choose(SIZES)))
    y = c.fit(c.real(1), (x.shape[1], c.choose(SIZES)))
    shape = x.shape[0], y.shape[1]
    text = f"stablehlo.dot {x.name}, {y.name} : ({x.type}, {y.type}) -> {tensor(shape)}"
    return c.emit(text, shape, bound=x.bound * y.bound * x.shape[1])


def settings_as_operands(c: Composer) -> Value:
    """Adds a dynamic_pad or a real_dynamic_slice, whose parameters are constant operands."""
    x = c.real(1)
    numbers = f"tensor<{x.rank}xi32>"

    def listed(values: list[int]) -> str:
        return c.emit(f"stablehlo.constant dense<{values}> : {numbers}").name

    if c.flag():
        value = c.fit(c.real(), ())
        low, high, inner = (c.integers(x.rank, 0, 1) for _ in range(3))
        sizes = zip(x.shape, low, high, inner, strict=True)
        shape = [n + a + b + (n - 1) * i for n, a, b, i in sizes]
        operands = f"{x.name}, {value.name}, {listed(low)}, {listed(high)}, {listed(inner)}"
        types = f"({x.type}, tensor<f64>, {numbers}, {numbers}, {numbers}) -> {tensor(shape)}"
        return c.emit(f"stablehlo.dynamic_pad {operands} : {types}", shape, bound=x.bound + value.bound)
    first = [c.integer(0, n - 1) for n in x.shape]
    last = [c.integer(a + 1, n) for a, n in zip(first, x.shape, strict=True)]
    shape = [b - a for a, b in zip(first, last, strict=True)]
    operands = f"{x.name}, {listed(first)}, {listed(last)}, {listed([1] * x.rank)}"
    types = f"({x.type}, {numbers}, {numbers}, {numbers}) -> {tensor(shape)}"
    return c.emit(f"stablehlo.real_dynamic_slice {operands} : {types}", shape, bound=x.bound)


def by_integers(c: Composer) -> Value:
    """Adds the product of a value x and an integer, which bit operations compute from x rounded to an integer.

    The derivative of the integer is zero.
    """
    x = c.real()
    whole = tensor(x.shape, "i32")
    n = c.emit(f"stablehlo.convert {x.name} : ({x.type}) -> {whole}").name
    two = c.emit(f"stablehlo.constant dense<2> : {whole}").name
    op = c.choose(
        ("shift_left", "shift_right_arithmetic", "shift_right_logical", "and", "or", "xor", "maximum")
    )
    n = c.emit(f"stablehlo.{op} {two}, {n} : {whole}").name
    n = c.emit(f"stablehlo.{c.choose(('popcnt', 'count_leading_zeros', 'not'))} {n} : {whole}").name
    factor = c.emit(f"stablehlo.convert {n} : ({whole}) -> {x.type}", x.shape, bound=33.0)
    return c.binary("multiply", factor, x, 33 * x.bound)


OTHERS = (einsum, torch_index_select, scan, composite, broadcast, dot, settings_as_operands, by_integers)
