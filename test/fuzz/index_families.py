"""Defines families of gathers, scatters, dynamic slices and sorts, from which random programs are drawn."""

import math
from collections.abc import Callable
from typing import Any

from cases.index_cases import Indexing, body, drawn
from composer import ELEMENTS, SIZES, Composer, Value, tensor


def _indexing(c: Composer, x: Value) -> tuple[Indexing, str, str] | None:
    """Returns random dimension numbers of a gather of x, the name of an array of indices, and its type.

    The indices are constants, or a value rounded to integers. Constants are in range or slightly out of range. Returns
    None if the result of the gather would have too many elements.
    """
    numbers = drawn(c.random, x.shape, SIZES)
    numbers.sizes = [max(1, n) for n in numbers.sizes]
    shape = tuple(numbers.indices)
    if math.prod(numbers.windows) > ELEMENTS or math.prod(shape) > ELEMENTS:
        return None
    type_ = tensor(shape, c.choose(("i32", "i64")))
    if c.flag() and math.prod(shape):
        value = c.fit(c.real(), shape)
        return numbers, c.emit(f"stablehlo.convert {value.name} : ({value.type}) -> {type_}").name, type_
    largest = max((numbers.operand[i] for i in numbers.where), default=0)
    values = str(_nested(shape, lambda: c.integer(-1, largest))) if math.prod(shape) else ""
    return numbers, c.emit(f"stablehlo.constant dense<{values}> : {type_}").name, type_


def _nested(shape: tuple[int, ...], draw: Callable[[], int]) -> Any:
    return [_nested(shape[1:], draw) for _ in range(shape[0])] if shape else draw()


def gather(c: Composer) -> Value:
    """Adds a gather with random dimension numbers. Windows may overlap and be out of range."""
    x = c.any()
    indexing = _indexing(c, x)
    if indexing is None:
        return x
    numbers, indices, type_ = indexing
    shape = tuple(numbers.windows)
    sizes = ", ".join(map(str, numbers.sizes))
    text = (
        f'"stablehlo.gather"({x.name}, {indices}) {{dimension_numbers = #stablehlo.gather<'
        f"offset_dims = {numbers.window}, collapsed_slice_dims = {numbers.collapsed}, "
        f"operand_batching_dims = {numbers.batching}, start_indices_batching_dims = {numbers.index_batching}, "
        f"start_index_map = {numbers.where}, index_vector_dim = {numbers.vector_dim}>, "
        f"slice_sizes = array<i64{': ' if sizes else ''}{sizes}>, indices_are_sorted = false}} "
        f": ({x.type}, {type_}) -> {tensor(shape, x.element)}"
    )
    return c.emit(text, shape, x.is_complex, x.bound)


def scatter(c: Composer) -> Value:
    """Adds a scatter with random dimension numbers. It adds, multiplies, replaces, or takes the minimum or maximum.

    Windows may overlap and be out of range.
    """
    x = c.any()
    indexing = _indexing(c, x)
    if indexing is None or not indexing[0].where:  # XLA cannot compile some of these scatters
        return x
    numbers, indices, type_ = indexing
    if any(numbers.sizes[i] != 1 for i in numbers.where):  # XLA never updates parts of windows
        return x
    op = c.choose(("add", "subtract") if x.is_complex else ("add", "multiply", "minimum", "maximum", "set"))
    op = "add" if op == "subtract" else op
    y = c.fit(c.any(), tuple(numbers.windows), x.is_complex)
    text = (
        f'"stablehlo.scatter"({x.name}, {indices}, {y.name}) ({{ {body(op, x.element)} }}) '
        f"{{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = {numbers.window}, "
        f"inserted_window_dims = {numbers.collapsed}, input_batching_dims = {numbers.batching}, "
        f"scatter_indices_batching_dims = {numbers.index_batching}, "
        f"scatter_dims_to_operand_dims = {numbers.where}, index_vector_dim = {numbers.vector_dim}>, "
        f"unique_indices = false}} : ({x.type}, {type_}, {y.type}) -> {x.type}"
    )
    count = math.prod(y.shape)
    bound = x.bound * max(1.0, y.bound) ** count if op == "multiply" else x.bound + count * y.bound
    return c.emit(text, x.shape, x.is_complex, bound)


def dynamic_slice(c: Composer) -> Value:
    """Adds a dynamic_slice or a dynamic_update_slice. Start indices may be out of range, and may be computed."""
    x = c.any(1)
    starts = []
    for i in c.integers(x.rank, -1, 3):
        start = c.emit(f"stablehlo.constant dense<{i}> : tensor<i32>").name
        if c.flag():
            y = c.fit(c.real(), ())
            start = c.emit(f"stablehlo.convert {y.name} : (tensor<f64>) -> tensor<i32>").name
        starts.append(start)
    sizes = tuple(c.integer(1, n) for n in x.shape)
    positions = ", ".join(["tensor<i32>"] * x.rank)
    if c.flag():
        text = (
            f"stablehlo.dynamic_slice {x.name}, {', '.join(starts)}, sizes = {list(sizes)} "
            f": ({x.type}, {positions}) -> {tensor(sizes, x.element)}"
        )
        return c.emit(text, sizes, x.is_complex, x.bound)
    y = c.fit(c.any(), sizes, x.is_complex)
    text = (
        f"stablehlo.dynamic_update_slice {x.name}, {y.name}, {', '.join(starts)} "
        f": ({x.type}, {y.type}, {positions}) -> {x.type}"
    )
    return c.emit(text, x.shape, x.is_complex, max(x.bound, y.bound))


def top_k(c: Composer) -> Value:
    x = c.real(1)
    k = c.integer(1, x.shape[-1])
    shape = (*x.shape[:-1], k)
    results = c.emit(f"chlo.top_k({x.name}, k = {k}) : {x.type} -> ({tensor(shape)}, {tensor(shape, 'i32')})")
    c.several(results, 2)
    return Value(f"{results.name}#0", shape, False, x.bound)


def sort(c: Composer) -> Value:
    """Adds a sort of one to three operands by the first one. An operand may occur several times."""
    keys = c.real(1)
    operands = [keys, *(c.choose((keys, c.fit(c.real(), keys.shape))) for _ in range(c.integer(0, 2)))]
    dimension, direction = c.integer(0, keys.rank - 1), c.choose(("LT", "GT"))
    arguments = ", ".join(f"%a{i}: tensor<f64>, %b{i}: tensor<f64>" for i in range(len(operands)))
    names, types = (", ".join(getattr(x, field) for x in operands) for field in ("name", "type"))
    results = c.emit(
        f'"stablehlo.sort"({names}) <{{dimension = {dimension} : i64, is_stable = true}}> ({{\n'
        f"  ^bb0({arguments}):\n"
        f"    %p = stablehlo.compare {direction}, %a0, %b0 : (tensor<f64>, tensor<f64>) -> tensor<i1>\n"
        f"    stablehlo.return %p : tensor<i1>\n  }}) : ({types}) -> ({types})"
    )
    if len(operands) == 1:
        return Value(results.name, keys.shape, False, keys.bound)
    c.several(results, len(operands))
    i = c.integer(0, len(operands) - 1)
    return Value(f"{results.name}#{i}", keys.shape, False, operands[i].bound)


INDICES = (gather, gather, scatter, scatter, dynamic_slice, sort, top_k)
