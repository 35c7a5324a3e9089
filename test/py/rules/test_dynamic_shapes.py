"""Ops on dynamic dimensions, and ops with shapes as operands: their derivatives equal those of the static ops."""

import numpy as np
import pytest
from cases.dynamic_programs import CASES, a
from harness.dynamic_shapes import check_dynamic
from harness.evidence import NOTES
from harness.one_module import compiled_together

from tiduc.dialect.errors import Unsupported
from tiduc.loading import load


@pytest.mark.parametrize("everywhere", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("case", CASES)
def test_derivatives_are_those_of_the_static_program(case: str, everywhere: bool) -> None:
    text, points = CASES[case]
    check_dynamic(text, *points, everywhere=everywhere)


BOUNDED = "tensor<4x?xf64, #stablehlo.bounds<?, 3>>"
FIRST_COLUMNS = f"""
func.func @main(%x: tensor<4x3xf64>, %n: tensor<i32>) -> tensor<4xf64> {{
  %zero = stablehlo.constant dense<0.0> : tensor<f64>
  %0 = stablehlo.set_dimension_size %x, %n, dim = 1 : (tensor<4x3xf64>, tensor<i32>) -> {BOUNDED}
  %1 = stablehlo.multiply %0, %0 : {BOUNDED}
  %y = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [1]
    : ({BOUNDED}, tensor<f64>) -> tensor<4xf64>
  return %y : tensor<4xf64>
}}"""


def test_elements_cut_off_have_derivative_zero() -> None:
    """Elements that set_dimension_size cuts off have derivative zero.

    IREE runs the program, because the reference interpreter aborts on bounded sizes.
    """
    p, x, dx, ct = load(FIRST_COLUMNS), a(4, 3), a(4, 3), a(4)
    derivatives = {"jvp": p.jvp(), "vjp": p.vjp(), "hvp": p.vjp().jvp([0])}
    run = compiled_together({name: q.text for name, q in derivatives.items()})
    jvp, vjp, hvp = run["jvp"], run["vjp"], run["hvp"]
    for n in (0, 1, 3):
        size, kept = np.array(n, np.int32), np.arange(3) < n
        np.testing.assert_allclose(jvp(x, size, dx)[1], (2 * x * dx * kept).sum(1))
        np.testing.assert_allclose(vjp(x, size, ct)[1], 2 * x * kept * ct[:, None])
        np.testing.assert_allclose(hvp(x, size, ct, dx)[3], 2 * dx * kept * ct[:, None])
    NOTES.checked_text(FIRST_COLUMNS, 2)


def test_set_size_of_a_dynamic_dimension() -> None:
    """The transpose of set_dimension_size is refused for a dimension that is already dynamic.

    A new size above the old one would expose undefined elements.
    """
    text = FIRST_COLUMNS.replace("tensor<4x3xf64>", BOUNDED)
    assert load(text).jvp().text
    with pytest.raises(Unsupported, match=r"transpose AD rule for stablehlo.set_dimension_size: .* exceed"):
        load(text).vjp()
