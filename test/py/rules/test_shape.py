"""Ops that move elements: special cases of each attribute, and empty and unit dimensions, in f64 and complex128."""

from functools import partial

import numpy as np
import pytest
from harness.check_rule import check_rule
from harness.tensors import normal, tensor

RNG = np.random.default_rng(0)
random = partial(normal, RNG)


def unary(op: str, sizes: list[int], result: list[int], attributes: str, element: str = "f64") -> str:
    """A program that squares the result of the op, so that the second derivative is not zero."""
    x, y = tensor(sizes, element), tensor(result, element)
    return f"""
    func.func @main(%x: {x}) -> {y} {{
      %0 = "stablehlo.{op}"(%x) {{{attributes}}} : ({x}) -> {y}
      %1 = stablehlo.multiply %0, %0 : {y}
      return %1 : {y}
    }}"""


def check_unary(
    op: str, sizes: list[int], result: list[int], attributes: str = "", element: str = "f64"
) -> None:
    check_rule(unary(op, sizes, result, attributes, element), random(sizes, element))


@pytest.mark.sampled(12)
@pytest.mark.parametrize("element", ["f64", "complex<f64>"])
@pytest.mark.parametrize(
    ("sizes", "result", "dimensions"),
    [
        ([], [2, 3], []),
        ([], [], []),
        ([3], [2, 3], [1]),
        ([3], [3, 2], [0]),
        ([1], [3], [0]),
        ([1], [1], [0]),
        ([2, 3], [3, 4, 2], [2, 0]),
        ([4, 2, 3], [2, 3, 4], [2, 0, 1]),
        ([2, 1, 3], [3, 5, 2, 4], [2, 1, 0]),
        ([1, 1], [2, 1, 3], [2, 1]),
        ([0, 2], [3, 2, 0], [2, 1]),
        ([1, 2], [0, 2], [0, 1]),
    ],
)
def test_broadcast_in_dim(sizes: list[int], result: list[int], dimensions: list[int], element: str) -> None:
    attributes = f"broadcast_dimensions = array<i64{':' * bool(dimensions)} {str(dimensions)[1:-1]}>"
    check_unary("broadcast_in_dim", sizes, result, attributes, element)


@pytest.mark.parametrize("element", ["f64", "complex<f64>"])
@pytest.mark.parametrize(
    ("sizes", "result"), [([2, 3], [6]), ([6], [3, 1, 2]), ([], [1, 1]), ([1], []), ([0, 3], [2, 0])]
)
def test_reshape(sizes: list[int], result: list[int], element: str) -> None:
    check_unary("reshape", sizes, result, element=element)


@pytest.mark.parametrize("element", ["f64", "complex<f64>"])
@pytest.mark.parametrize(
    ("sizes", "permutation"), [([], []), ([2, 3], [1, 0]), ([2, 3, 4], [2, 0, 1]), ([1, 0, 3], [1, 2, 0])]
)
def test_transpose(sizes: list[int], permutation: list[int], element: str) -> None:
    attributes = f"permutation = array<i64{':' * bool(permutation)} {str(permutation)[1:-1]}>"
    check_unary("transpose", sizes, [sizes[i] for i in permutation], attributes, element)


@pytest.mark.parametrize("element", ["f64", "complex<f64>"])
@pytest.mark.parametrize("dimensions", [[], [0], [1], [1, 0]])
def test_reverse(dimensions: list[int], element: str) -> None:
    attributes = f"dimensions = array<i64{':' * bool(dimensions)} {str(dimensions)[1:-1]}>"
    check_unary("reverse", [2, 3], [2, 3], attributes, element)


@pytest.mark.parametrize("element", ["f64", "complex<f64>"])
@pytest.mark.parametrize(
    ("sizes", "start", "limit", "strides"),
    [
        ([5], [1], [4], [1]),
        ([7], [1], [6], [3]),  # takes elements 1 and 4; the limit is larger than needed
        ([7], [0], [7], [4]),
        ([4], [2], [2], [1]),
        ([4], [4], [4], [2]),
        ([0], [0], [0], [1]),
        ([5], [0], [5], [9]),
        ([3, 6], [1, 0], [3, 6], [1, 2]),
    ],
)
def test_slice(
    sizes: list[int], start: list[int], limit: list[int], strides: list[int], element: str
) -> None:
    result = [-(-(hi - lo) // s) for lo, hi, s in zip(start, limit, strides, strict=True)]
    attributes = ", ".join(
        f"{name} = array<i64: {str(values)[1:-1]}>"
        for name, values in (("start_indices", start), ("limit_indices", limit), ("strides", strides))
    )
    check_unary("slice", sizes, result, attributes, element)


def pad(
    sizes: list[int], low: list[int], high: list[int], interior: list[int], element: str, value: str = "%v"
) -> str:
    result = [
        lo + hi + n + max(n - 1, 0) * i for n, lo, hi, i in zip(sizes, low, high, interior, strict=True)
    ]
    x, v, y = tensor(sizes, element), tensor([], element), tensor(result, element)
    attributes = f"low = {low}, high = {high}, interior = {interior}"
    return f"""
    func.func @main(%x: {x}, %v: {v}) -> {y} {{
      %0 = stablehlo.pad %x, {value}, {attributes} : ({x}, {v}) -> {y}
      %1 = stablehlo.multiply %0, %0 : {y}
      return %1 : {y}
    }}"""


@pytest.mark.sampled(16)
@pytest.mark.parametrize("element", ["f64", "complex<f64>"])
@pytest.mark.parametrize(
    ("sizes", "low", "high", "interior"),
    [
        ([], [], [], []),
        ([3], [0], [0], [0]),
        ([3], [1], [2], [0]),
        ([3], [0], [0], [2]),
        ([3], [2], [1], [1]),
        ([5], [-2], [0], [0]),
        ([5], [0], [-2], [0]),
        ([4], [-1], [3], [2]),  # ends within the interior padding: element 0 is dropped, element 1 remains
        ([4], [-2], [-4], [1]),
        ([3], [-5], [5], [0]),  # only padding remains
        ([3], [4], [-7], [0]),  # nothing remains
        ([3], [6], [-5], [0]),
        ([0], [2], [1], [3]),
        ([1], [-1], [3], [4]),
        ([2, 3], [1, -1], [0, 2], [2, 0]),
        ([2, 0], [1, 2], [0, 1], [0, 1]),
    ],
)
def test_pad(sizes: list[int], low: list[int], high: list[int], interior: list[int], element: str) -> None:
    x, value = random(sizes, element), random([], element)
    check_rule(pad(sizes, low, high, interior, element), x, value)


def test_padding_with_an_element_of_the_operand() -> None:
    text = pad([], [], [], [], "f64", "%x")
    check_rule(text, random([]), random([]))


def test_cotangent_of_the_padding_value() -> None:
    """The cotangent of the padding value is right if the operand is infinite.

    It must not be computed as the sum of all cotangents minus that of the operand, which would be NaN here.
    """
    from harness.check_rule import run

    from tiduc.loading import load

    text = pad([2], [1], [1], [0], "f64").replace("%0, %0", "%0, %0")
    x, value, ct = np.array([np.inf, 1.0]), np.array(2.0), np.array([1.0, 1.0, 1.0, 1.0])
    *_, cv = run(load(text).vjp([1]), [x, value, ct])
    assert cv == 8.0


def concatenate(sizes: list[int], dimension: int, operands: list[str], element: str) -> str:
    types = [tensor([2, n] if dimension else [n, 2], element) for n in sizes]
    names = ["%x", "%y", "%z"]
    of = dict(zip(names, zip(sizes, types, strict=True), strict=True))
    total = sum(of[name][0] for name in operands)
    y = tensor([2, total] if dimension else [total, 2], element)
    arguments = ", ".join(f"{name}: {type_}" for name, type_ in zip(names, types, strict=True))
    return f"""
    func.func @main({arguments}) -> {y} {{
      %0 = stablehlo.concatenate {", ".join(operands)}, dim = {dimension}
        : ({", ".join(of[name][1] for name in operands)}) -> {y}
      %1 = stablehlo.multiply %0, %0 : {y}
      return %1 : {y}
    }}"""


@pytest.mark.sampled(6)
@pytest.mark.parametrize("element", ["f64", "complex<f64>"])
@pytest.mark.parametrize("dimension", [0, 1])
@pytest.mark.parametrize("operands", [["%x"], ["%x", "%y", "%z"], ["%x", "%x", "%y", "%x"]])
def test_concatenate(operands: list[str], dimension: int, element: str) -> None:
    sizes = [2, 0, 3]
    text = concatenate(sizes, dimension, operands, element)
    check_rule(text, *(random([2, n] if dimension else [n, 2], element) for n in sizes))
