"""Programs that pad several arrays with the same 64-bit number, or have constants of it, are correct on IREE.

IREE fills one array with the number, and uses it for all of them."""

from typing import Any

import numpy as np
import pytest
from cases.iree_fills import PADS_BY_ONE_NUMBER, PADS_IN_BRANCHES
from harness.one_module import compiled_together, selected

import tiduc
from tiduc.backends.reference import interpreter
from tiduc.runtime.run import Executable

RNG = np.random.default_rng(0)
X, Y = "tensor<3xf64>", "tensor<6xf64>"
PADDED = f"low = [0], high = [3], interior = [0] : ({X}, tensor<f64>) -> {Y}"
BY_A_CONSTANT = f"""func.func @main(%x: {X}, %a: {X}) -> ({Y}, {Y}) {{
%v = stablehlo.constant dense<1.5> : tensor<f64>
%0 = stablehlo.pad %x, %v, {PADDED}
%1 = stablehlo.pad %a, %v, {PADDED}
return %0, %1 : {Y}, {Y}
}}"""
BESIDE_A_CONSTANT = f"""func.func @main(%x: {X}) -> ({Y}, {Y}) {{
%v = stablehlo.constant dense<1.5> : tensor<f64>
%0 = stablehlo.pad %x, %v, {PADDED}
%1 = stablehlo.constant dense<1.5> : {Y}
return %0, %1 : {Y}, {Y}
}}"""
BESIDE_AN_UPDATE = f"""func.func @main(%x: {X}, %a: {X}, %i: tensor<i32>) -> ({Y}, {Y}) {{
%v = stablehlo.constant dense<1.5> : tensor<f64>
%c = stablehlo.constant dense<1.5> : {Y}
%0 = stablehlo.dynamic_update_slice %c, %a, %i : ({Y}, {X}, tensor<i32>) -> {Y}
%1 = stablehlo.pad %x, %v, {PADDED}
return %0, %1 : {Y}, {Y}
}}"""
OF_OTHER_TYPES = f"""func.func @main(%x: {X}, %a: tensor<3xi64>) -> ({Y}, tensor<6xi64>) {{
%v = stablehlo.constant dense<1.5> : tensor<f64>
%n = stablehlo.bitcast_convert %v : (tensor<f64>) -> tensor<i64>
%0 = stablehlo.pad %x, %v, {PADDED}
%1 = stablehlo.pad %a, %n, low = [3], high = [0], interior = [0] : (tensor<3xi64>, tensor<i64>) -> tensor<6xi64>
return %0, %1 : {Y}, tensor<6xi64>
}}"""


def pool(x: str, low: int, high: int, stride: int, result: str) -> str:
    """The text of a max-pool of x with windows of two elements."""
    return f"""= "stablehlo.reduce_window"({x}, %least) <{{window_dimensions = array<i64: 2>,
  window_strides = array<i64: {stride}>, padding = dense<[[{low}, {high}]]> : tensor<1x2xi64>}}> ({{
^bb0(%b: tensor<f64>, %c: tensor<f64>):
  %d = stablehlo.maximum %b, %c : tensor<f64>
  stablehlo.return %d : tensor<f64>
}}) : ({X}, tensor<f64>) -> {result}"""


POOLS = f"""func.func @main(%x: {X}, %a: {X}) -> ({X}, tensor<2xf64>) {{
%least = stablehlo.constant dense<0xFFF0000000000000> : tensor<f64>
%0 {pool("%x", 0, 1, 1, X)}
%1 {pool("%a", 1, 0, 2, "tensor<2xf64>")}
return %0, %1 : {X}, tensor<2xf64>
}}"""
OF_PADS = f"""func.func @main(%x: {X}) -> tensor<7xf64> {{
%v = stablehlo.constant dense<0.0> : tensor<f64>
%0 = stablehlo.pad %x, %v, low = [0], high = [0], interior = [1] : ({X}, tensor<f64>) -> tensor<5xf64>
%1 = stablehlo.pad %0, %v, low = [1], high = [1], interior = [0] : (tensor<5xf64>, tensor<f64>) -> tensor<7xf64>
return %1 : tensor<7xf64>
}}"""
PROGRAMS = {
    "of pads": OF_PADS,
    "of pads of unsigned numbers": OF_PADS.replace("f64", "ui32").replace("0.0", "0"),
    "of pads of complex numbers": OF_PADS.replace("f64", "complex<f32>").replace("0.0", "(0.0, 0.0)"),
    "by an argument": PADS_BY_ONE_NUMBER,
    "in branches": PADS_IN_BRANCHES,
    "of integers": PADS_BY_ONE_NUMBER.replace("f64", "i64"),
    "of complex numbers": PADS_BY_ONE_NUMBER.replace("f64", "complex<f64>"),
    "by a constant": BY_A_CONSTANT,
    "by -0": BY_A_CONSTANT.replace("1.5", "-0.0"),
    "by 0": BY_A_CONSTANT.replace("1.5", "0.0"),
    "beside a constant": BESIDE_A_CONSTANT,
    "beside an update": BESIDE_AN_UPDATE,
    "of other types": OF_OTHER_TYPES,
    "of pools": POOLS,
}


def arguments(text: str) -> list[Any]:
    """Random arguments of a program. They are integers, so that results are exact."""
    types = [value.type for value in tiduc.load(text).signature.inputs]
    return [np.asarray(RNG.integers(1, 99, t.shape), t.dtype) for t in types]


def check(text: str, run: Executable) -> None:
    """Compares two calls with the interpreter. The second call may read memory that the first call has freed."""
    given = arguments(text)
    expected = interpreter.evaluate(text, given)
    for results in (run(*given), run(*given)):
        for y, z in zip(results, expected, strict=True):
            np.testing.assert_array_equal(y, z)
            np.testing.assert_array_equal(np.signbit(np.real(y)), np.signbit(np.real(z)))


@pytest.fixture(scope="module")
def compiled(request: pytest.FixtureRequest) -> dict[str, Executable]:
    names = selected(request, "test_paddings_have_arrays_of_their_own")
    return compiled_together({name: text for name, text in PROGRAMS.items() if name in names})


@pytest.mark.parametrize("name", PROGRAMS)
def test_paddings_have_arrays_of_their_own(name: str, compiled: dict[str, Executable]) -> None:
    check(PROGRAMS[name], compiled[name])


def test_without_rewrites_for_speed() -> None:
    check(BY_A_CONSTANT, tiduc.load(BY_A_CONSTANT).compile("cpu", fast=False))


def test_the_derivative_of_a_product_of_complex_numbers() -> None:
    """The VJP of a product of complex numbers is correct, although it pads with a zero that is also a result.

    tiduc hides this zero behind an optimization barrier. IREE would pad with only a part of the bytes of the hidden
    zero.
    """
    types = "(tensor<2xcomplex<f64>>, tensor<complex<f64>>) -> tensor<complex<f64>>"
    text = f"""func.func @main(%n: tensor<complex<f64>>, %v: tensor<complex<f64>>, %x: tensor<2xcomplex<f64>>)
  -> tensor<complex<f64>> {{
%0 = stablehlo.reduce(%x init: %v) applies stablehlo.multiply across dimensions = [0] : {types}
return %0 : tensor<complex<f64>>
}}"""
    program = tiduc.load(text).vjp()
    given = [np.array(1j), np.array(2 - 1j), np.array([3 + 1j, 1 - 2j]), np.array(1 + 2j)]
    for y, z in zip(
        program.compile("cpu")(*given), interpreter.evaluate(str(program.module), given), strict=True
    ):
        np.testing.assert_allclose(y, z)
