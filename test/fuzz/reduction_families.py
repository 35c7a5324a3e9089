"""Defines families of reductions and products, from which random programs are drawn."""

import math

from composer import SIZES, Composer, Value, tensor


def reduce(c: Composer) -> Value:
    x = c.any(1)
    dimensions = [i for i in range(x.rank) if c.flag()]
    op = c.choose(("add", "multiply") if x.is_complex else ("add", "multiply", "maximum", "minimum"))
    count = math.prod(x.shape[i] for i in dimensions)
    # XLA ignores the initial value if each result is the reduction of only one element.
    init = c.fit(c.any(), (), x.is_complex) if count > 1 and c.flag() else None
    return c.reduce(x, dimensions, op, init)


def reduce_pair(c: Composer) -> Value:
    """Adds a reduction of two operands, which finds the largest elements and their positions. Returns the elements."""
    x = c.real(1)
    dimension = c.integer(0, x.rank - 1)
    kept = x.shape[:dimension] + x.shape[dimension + 1 :]
    where, init = tensor(x.shape, "i32"), c.constant(-100.0)
    position = c.emit(f"stablehlo.iota dim = {dimension} : {where}", x.shape)
    zero = c.emit("stablehlo.constant dense<0> : tensor<i32>")
    types = f"{tensor(kept)}, {tensor(kept, 'i32')}"
    pair = c.emit(
        f"stablehlo.reduce({x.name} init: {init.name}), ({position.name} init: {zero.name}) across dimensions = "
        f"[{dimension}] : ({x.type}, {where}, tensor<f64>, tensor<i32>) -> ({types})\n"
        "  reducer(%a: tensor<f64>, %b: tensor<f64>) (%i: tensor<i32>, %j: tensor<i32>) {\n"
        "    %p = stablehlo.compare GE, %a, %b : (tensor<f64>, tensor<f64>) -> tensor<i1>\n"
        "    %v = stablehlo.select %p, %a, %b : tensor<i1>, tensor<f64>\n"
        "    %w = stablehlo.select %p, %i, %j : tensor<i1>, tensor<i32>\n"
        "    stablehlo.return %v, %w : tensor<f64>, tensor<i32>\n  }",
        kept,
        bound=x.bound,
    )
    c.several(pair, 2)
    return Value(f"{pair.name}#0", kept, False, x.bound)


def dot_general(c: Composer) -> Value:
    x = c.any(1)
    batch = [c.integer(0, x.rank - 1)] if c.flag() else []
    contract = [i for i in range(x.rank) if i not in batch and c.flag()]
    free = [c.choose(SIZES) for _ in range(c.integer(0, 1))]
    shape = tuple(x.shape[i] for i in contract) + tuple(x.shape[i] for i in batch) + tuple(free)
    y = c.fit(c.any(), shape, x.is_complex)
    kept = [n for i, n in enumerate(x.shape) if i not in batch + contract]
    result = [x.shape[i] for i in batch] + kept + free
    of_y = list(range(len(contract))), list(range(len(contract), len(contract) + len(batch)))
    text = f"stablehlo.dot_general {x.name}, {y.name}, "
    if batch:
        text += f"batching_dims = {batch} x {of_y[1]}, "
    text += f"contracting_dims = {contract} x {of_y[0]} : ({x.type}, {y.type}) -> {tensor(result, x.element)}"
    count = math.prod(x.shape[i] for i in contract)
    return c.emit(text, result, x.is_complex, x.bound * y.bound * count)


REDUCTIONS = (reduce, reduce_pair, dot_general)
