"""bitcast_convert: it is the identity between equal types, has zero tangents for integers, and is refused between float
types that differ.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from harness.check_rule import check_rule
from jax import lax

from tiduc.dialect.errors import Unsupported
from tiduc.loading import load

REAL, COMPLEX = "tensor<3xf64>", "tensor<3xcomplex<f64>>"
X = np.array([0.7, -1.3, 2.0])


def cast(x: str, y: str, z: str | None = None) -> str:
    """A program that casts an argument of type x to y, and then to z."""
    z = z or y
    return f"""
    func.func @main(%x: {x}) -> {z} {{
      %0 = stablehlo.bitcast_convert %x : ({x}) -> {y}
      %1 = stablehlo.bitcast_convert %0 : ({y}) -> {z}
      return %1 : {z}
    }}"""


@pytest.mark.parametrize(("type_", "x"), [(REAL, X), (COMPLEX, X + 1j * X[::-1])])
def test_equal_types_are_the_identity(type_: str, x: Any) -> None:
    check_rule(cast(type_, type_), x)


def test_integers_have_no_tangent() -> None:
    """A value that is cast to integers and back has derivative zero, as in JAX, because integers have no tangent."""

    def function(x: Any) -> Any:
        return lax.bitcast_convert_type(lax.bitcast_convert_type(x, jnp.int64), jnp.float64)

    check_rule(cast(REAL, "tensor<3xi64>", REAL), X, differences=False, jax_function=function)


def test_bits_of_the_sign() -> None:
    """The derivative of JAX's copysign, which gives |x| the sign bit of y, is right. The sign bit has no derivative."""
    text = f"""
    func.func @main(%x: {REAL}, %y: {REAL}) -> {REAL} {{
      %bits = stablehlo.bitcast_convert %y : ({REAL}) -> tensor<3xi64>
      %zero = stablehlo.constant dense<0> : tensor<3xi64>
      %minus = stablehlo.compare LT, %bits, %zero : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi1>
      %a = stablehlo.abs %x : {REAL}
      %b = stablehlo.negate %a : {REAL}
      %0 = stablehlo.select %minus, %b, %a : tensor<3xi1>, {REAL}
      return %0 : {REAL}
    }}"""
    check_rule(text, X, X[::-1].copy())


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (REAL, "tensor<3x2xf32>"),
        ("tensor<2xf32>", "tensor<f64>"),
        ("tensor<bf16>", "tensor<f16>"),
        (COMPLEX, "tensor<3x2xcomplex<f32>>"),
    ],
)
def test_other_floats_are_refused(x: str, y: str) -> None:
    with pytest.raises(Unsupported, match="it reinterprets the bits of a float as another"):
        load(cast(x, y)).jvp()
