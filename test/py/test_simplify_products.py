"""`simplify` for products with repeated batches, sums of batched products, and conversions of constants."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from harness import xla
from harness.compare import compare
from harness.stages import body

from tiduc.dialect.mlir.context import parse
from tiduc.loading import load
from tiduc.passes.lower.simplify import simplify


def tensor(sizes: Sequence[int]) -> str:
    return f"tensor<{'x'.join([*map(str, sizes), 'f64'])}>"


def product(
    x: Sequence[int], y: Sequence[int], wide: Sequence[int], places: Sequence[int], batches: str, summed: str,
    result: Sequence[int],
) -> str:  # fmt: skip
    """The text of a program that broadcasts y to the shape `wide` and multiplies x by the result."""
    return f"""func.func @main(%x: {tensor(x)}, %y: {tensor(y)}) -> {tensor(result)} {{
      %0 = stablehlo.broadcast_in_dim %y, dims = {list(places)} : ({tensor(y)}) -> {tensor(wide)}
      %1 = stablehlo.dot_general %x, %0, batching_dims = {batches}, contracting_dims = {summed},
        precision = [HIGHEST, DEFAULT] : ({tensor(x)}, {tensor(wide)}) -> {tensor(result)}
      return %1 : {tensor(result)}
    }}"""


def simplified(text: str) -> str:
    module = parse(text)
    simplify(module.operation)
    return str(module)


def same_numbers(text: str) -> str:
    """The simplified text. Asserts that it computes the same values as the text."""
    after = simplified(text)
    signature = load(text).signature
    draw = np.random.default_rng(3).standard_normal
    arguments: list[Any] = [draw(port.type.shape) for port in signature.inputs]
    compare(xla.by_xla(after, arguments), xla.by_xla(text, arguments))
    return after


@pytest.mark.parametrize(
    ("case", "left"),
    [
        (([4, 5, 6], [6, 7], [4, 6, 7], [1, 2], "[0] x [0]", "[2] x [1]", [4, 5, 7]), ""),
        (([4, 5, 6], [7, 6], [4, 7, 6], [1, 2], "[0] x [0]", "[2] x [2]", [4, 5, 7]), ""),
        (([4, 5, 6], [6, 7], [4, 6, 7], [1, 2], "[0] x [0]", "[2] x [1]", [4, 5, 7]), ""),
        # a batch dimension of size 1 in the operand of the broadcast, and a vector
        (([4, 5, 6], [1, 6, 7], [4, 6, 7], [0, 1, 2], "[0] x [0]", "[2] x [1]", [4, 5, 7]), ""),
        (([4, 5, 6], [6], [4, 6], [1], "[0] x [0]", "[2] x [1]", [4, 5]), ""),
        # y is repeated along one of two batch dimensions; then along both, and its dimensions are permuted
        (([2, 4, 5, 6], [2, 6, 7], [2, 4, 6, 7], [0, 2, 3], "[0, 1] x [0, 1]", "[3] x [2]", [2, 4, 5, 7]), "0"),
        (([2, 4, 5, 6], [7, 6], [2, 4, 6, 7], [3, 2], "[0, 1] x [0, 1]", "[3] x [2]", [2, 4, 5, 7]), ""),
        # unchanged, because the order of the result's dimensions would change
        (([2, 4, 5, 6], [4, 6, 7], [2, 4, 6, 7], [1, 2, 3], "[0, 1] x [0, 1]", "[3] x [2]", [2, 4, 5, 7]), "0, 1"),
        (([5, 4, 6], [6, 7], [4, 6, 7], [1, 2], "[1] x [0]", "[2] x [1]", [4, 5, 7]), "1"),
    ],
)  # fmt: skip
def test_equal_batches_are_rows(case: Any, left: str) -> None:
    """A batch dimension along which a broadcast repeats the second operand becomes a dimension of rows of the first
    operand.
    """
    text = same_numbers(product(*case))
    assert f"batching_dims = [{left}]" in text if left else "batching_dims" not in text
    assert "precision = [HIGHEST, DEFAULT]" in text


def total(x: Sequence[int], y: Sequence[int], numbers: str, result: Sequence[int], over: Sequence[int],
          start: str = "0.0", more: str = "") -> str:  # fmt: skip
    """The text of a program that sums a product over the dimensions `over`."""
    kept = tensor([n for d, n in enumerate(result) if d not in over])
    return f"""func.func @main(%x: {tensor(x)}, %y: {tensor(y)}) -> ({kept}{more and f", {tensor(result)}"}) {{
      %start = stablehlo.constant dense<{start}> : tensor<f64>
      %0 = stablehlo.dot_general %x, %y, {numbers} : ({tensor(x)}, {tensor(y)}) -> {tensor(result)}
      %1 = stablehlo.reduce(%0 init: %start) applies stablehlo.add across dimensions = {list(over)}
        : ({tensor(result)}, tensor<f64>) -> {kept}
      return %1{more and ", %0"} : {kept}{more and f", {tensor(result)}"}
    }}"""


BATCHED = [4, 5, 6], [4, 5, 7], "batching_dims = [0] x [0], contracting_dims = [1] x [1]", [4, 6, 7]


def test_sums_of_batches_are_contracted() -> None:
    for text in (
        total(*BATCHED, [0]),
        total([4, 6], [4, 7], "batching_dims = [0] x [0], contracting_dims = [] x []", [4, 6, 7], [0]),
        total([2, 4, 5], [4, 2, 5], "batching_dims = [0, 1] x [1, 0], contracting_dims = [2] x [2]", [2, 4], [0, 1]),
        total([2, 4, 5], [2, 4, 5], "batching_dims = [0, 1] x [0, 1], contracting_dims = [2] x [2]", [2, 4], [1]),
    ):  # fmt: skip
        after = same_numbers(text)
        assert "stablehlo.reduce" not in after


def test_other_sums_stay() -> None:
    """A sum is not merged into its product if it also sums over rows, if another op reads the product, or if its
    initial value is not zero.
    """
    for text in (
        total(*BATCHED, [0, 1]),
        total(*BATCHED, [1]),
        total(*BATCHED, [0], start="1.0"),
        total(*BATCHED, [0], more="%0"),
    ):
        assert "stablehlo.reduce" in same_numbers(text)


OUTER = "contracting_dims = [] x []"
SUM = ["constant", "reduce", "add"]


def with_ones(x: Sequence[int], ones: Sequence[int], numbers: str, result: Sequence[int], left: bool) -> str:
    """The text of a program that multiplies x by an array of ones. The ones are the left or the right operand."""
    (a, one), (b, other) = [("%ones", ones), ("%x", x)][:: 1 if left else -1]
    return f"""func.func @main(%x: {tensor(x)}) -> {tensor(result)} {{
      %ones = stablehlo.constant dense<1.0> : {tensor(ones)}
      %0 = stablehlo.dot_general {a}, {b}, {numbers} : ({tensor(one)}, {tensor(other)}) -> {tensor(result)}
      return %0 : {tensor(result)}
    }}"""


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        (([4, 5], [], OUTER, [4, 5], True), []),
        (([4, 5], [], OUTER, [4, 5], False), []),
        (([4], [3], OUTER, [3, 4], True), ["broadcast_in_dim"]),
        (([4, 5], [4, 3], f"batching_dims = [0] x [0], {OUTER}", [4, 5, 3], False), ["broadcast_in_dim"]),
        (([4, 5], [4], "contracting_dims = [0] x [0]", [5], True), SUM),
        (([4, 5], [5, 3], "contracting_dims = [1] x [0]", [4, 3], False), [*SUM, "broadcast_in_dim"]),
        (([4, 5], [4, 5], "contracting_dims = [1, 0] x [1, 0]", [], False), SUM),
        # the product remains, because it permutes the dimensions of x
        (
            ([5, 4], [4, 3], f"batching_dims = [1] x [0], {OUTER}", [4, 5, 3], False),
            ["constant", "dot_general"],
        ),
    ],
)
def test_products_with_ones_are_sums(case: Any, expected: list[str]) -> None:
    after = same_numbers(with_ones(*case))
    assert [name for name in body(after) if name not in expected] == []
    assert ("dot_general" in body(after)) == ("dot_general" in expected)
    narrow = simplified(with_ones(*case).replace("f64", "bf16"))
    assert "dot_general" in narrow or "reduce" not in expected, (
        "a product may sum narrow floats in a wider type"
    )


def test_a_gradient_has_no_product_with_its_seed() -> None:
    v, m = tensor([8]), tensor([8, 3])
    text = f"""func.func @main(%x: {m}, %y: {v}, %w: tensor<3xf64> {{tidu.name = "w"}}) -> tensor<f64> {{
      %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : ({m}, tensor<3xf64>) -> {v}
      %1 = stablehlo.subtract %0, %y : {v}
      %2 = stablehlo.dot_general %1, %1, contracting_dims = [0] x [0] : ({v}, {v}) -> tensor<f64>
      return %2 : tensor<f64>
    }}"""
    assert body(load(text).grad(["w"]).text) == ["dot_general", "subtract", "add", "dot_general"]


def test_constant_integers_become_floats() -> None:
    """A constant integer that is converted to a float is folded.

    Then the derivative of a square that PyTorch exports, whose exponent is such a constant, contains no additional
    power op.
    """
    text = """func.func @main(%x: tensor<3xf32> {tidu.name = "x"}) -> tensor<3xf32> {
      %two = stablehlo.constant dense<2> : tensor<1xi64>
      %0 = stablehlo.convert %two : (tensor<1xi64>) -> tensor<1xf32>
      %1 = stablehlo.reshape %0 : (tensor<1xf32>) -> tensor<f32>
      %2 = stablehlo.broadcast_in_dim %1, dims = [] : (tensor<f32>) -> tensor<3xf32>
      %3 = stablehlo.power %x, %2 : tensor<3xf32>
      return %3 : tensor<3xf32>
    }"""
    after = load(text).vjp().text
    assert after.count("stablehlo.power") == 1
    assert not {"convert", "reshape", "broadcast_in_dim"} & set(body(after))
    kept = "func.func @main() -> tensor<2xTO> { %0 = stablehlo.constant dense<FROM> : tensor<2xi64>\n"
    kept += "%1 = stablehlo.convert %0 : (tensor<2xi64>) -> tensor<2xTO>\n return %1 : tensor<2xTO> }"
    for number, to, is_folded in (
        ("7", "f64", True), ("-3", "bf16", True), ("16777217", "f32", True),
        ("9007199254740993", "f32", False), ("[1, 2]", "f32", False), ("3", "i32", False), ("3", "f8E4M3FN", False),
    ):  # fmt: skip
        before = kept.replace("FROM", number).replace("TO", to)
        folded = "stablehlo.convert" not in simplified(before)
        assert folded == is_folded, (number, to)
        if folded and to != "bf16":
            compare(xla.by_xla(simplified(before), []), xla.by_xla(before, []), 0)
