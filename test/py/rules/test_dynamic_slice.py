"""Dynamic slices: start indices that are in range, clamped at each end, unsigned, or of small integer types."""

import numpy as np
import pytest
from harness.check_rule import check_rule

RNG = np.random.default_rng(0)


def random(*sizes: int, element: str = "f64") -> np.ndarray:
    x = np.asarray(RNG.standard_normal(sizes))
    return x if element == "f64" else x + 1j * RNG.standard_normal(sizes)


def dynamic_slice(element: str = "f64", index: str = "i32") -> str:
    x, y, i = f"tensor<4x5x{element}>", f"tensor<2x3x{element}>", f"tensor<{index}>"
    return f"""
    func.func @main(%x: {x}, %i: {i}, %j: {i}) -> {y} {{
      %0 = stablehlo.dynamic_slice %x, %i, %j, sizes = [2, 3] : ({x}, {i}, {i}) -> {y}
      %1 = stablehlo.multiply %0, %0 : {y}
      return %1 : {y}
    }}"""


def dynamic_update_slice(
    element: str = "f64", index: str = "i32", update: str = "2x3", operands: str = "%x, %u"
) -> str:
    x, u, i = f"tensor<4x5x{element}>", f"tensor<{update}x{element}>", f"tensor<{index}>"
    return f"""
    func.func @main(%x: {x}, %u: {u}, %i: {i}, %j: {i}) -> {x} {{
      %0 = stablehlo.dynamic_update_slice {operands}, %i, %j : ({x}, {u}, {i}, {i}) -> {x}
      %1 = stablehlo.multiply %0, %0 : {x}
      return %1 : {x}
    }}"""


STARTS = [(1, 2), (0, 0), (2, 2), (3, -4), (-1, 9), (100, 100)]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("element", ["f64", "complex<f64>"])
@pytest.mark.parametrize("start", STARTS)
def test_dynamic_slice(start: tuple[int, int], element: str) -> None:
    check_rule(dynamic_slice(element), random(4, 5, element=element), *np.array(start, np.int32))


@pytest.mark.sampled(6)
@pytest.mark.parametrize("element", ["f64", "complex<f64>"])
@pytest.mark.parametrize("start", STARTS)
def test_dynamic_update_slice(start: tuple[int, int], element: str) -> None:
    x, u = random(4, 5, element=element), random(2, 3, element=element)
    check_rule(dynamic_update_slice(element), x, u, *np.array(start, np.int32))


@pytest.mark.parametrize("index", ["i8", "ui8", "i64"])
def test_index_types(index: str) -> None:
    start = np.array((1, 120), {"i8": np.int8, "ui8": np.uint8, "i64": np.int64}[index])
    check_rule(dynamic_slice(index=index), random(4, 5), *start)
    check_rule(dynamic_update_slice(index=index), random(4, 5), random(2, 3), *start)


@pytest.mark.parametrize("sizes", [(4, 5), (4, 0), (0, 0), (1, 1)])
def test_update_of_any_size(sizes: tuple[int, int]) -> None:
    text = dynamic_update_slice(update="x".join(map(str, sizes)))
    check_rule(text, random(4, 5), random(*sizes), np.int32(1), np.int32(1))


def test_update_with_itself() -> None:
    text = dynamic_update_slice(update="4x5", operands="%x, %x")
    check_rule(text, random(4, 5), random(4, 5), np.int32(1), np.int32(1))


def test_scalars() -> None:
    text = """
    func.func @main(%x: tensor<f64>, %u: tensor<f64>) -> (tensor<f64>, tensor<f64>) {
      %0 = "stablehlo.dynamic_slice"(%x) {slice_sizes = array<i64>} : (tensor<f64>) -> tensor<f64>
      %1 = stablehlo.dynamic_update_slice %x, %u : (tensor<f64>, tensor<f64>) -> tensor<f64>
      return %0, %1 : tensor<f64>, tensor<f64>
    }"""
    check_rule(text, random(), random())
