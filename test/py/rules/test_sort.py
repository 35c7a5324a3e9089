"""sort: dimensions, orders, several operands, ties, and comparators in the form that JAX exports."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from harness.check_rule import check_rule

from tiduc.dialect.errors import Unsupported
from tiduc.loading import load

RNG = np.random.default_rng(0)


def text(sizes: tuple[int, ...], dimension: int, direction: str = "LT", element: str = "f64") -> str:
    x = f"tensor<{''.join(f'{n}x' for n in sizes)}{element}>"
    return f"""
    func.func @main(%x: {x}) -> {x} {{
      %0 = "stablehlo.sort"(%x) <{{dimension = {dimension} : i64, is_stable = true}}> ({{
      ^bb0(%a: tensor<{element}>, %b: tensor<{element}>):
        %1 = stablehlo.compare {direction}, %a, %b : (tensor<{element}>, tensor<{element}>) -> tensor<i1>
        stablehlo.return %1 : tensor<i1>
      }}) : ({x}) -> {x}
      return %0 : {x}
    }}"""


@pytest.mark.sampled(8)
@pytest.mark.parametrize("direction", ["LT", "GT"])
@pytest.mark.parametrize(
    ("sizes", "dimension"),
    [((4,), 0), ((1,), 0), ((0,), 0), ((3, 4), 0), ((3, 4), 1), ((2, 3, 2), 1), ((2, 0), 0), ((2, 3), -1)],
)
def test_shapes(sizes: tuple[int, ...], dimension: int, direction: str) -> None:
    check_rule(text(sizes, dimension, direction), RNG.standard_normal(sizes))


def test_ties_keep_their_order() -> None:
    x = np.array([2.0, 1, 2, 1, 1])
    check_rule(text((5,), 0), x, differences=False, jax_function=jnp.sort)


SEVERAL = """
func.func @main(%x: tensor<2x4xf64>, %n: tensor<2x4xi32>, %y: tensor<2x4xf64>, %z: tensor<2x4xcomplex<f64>>)
    -> (tensor<2x4xf64>, tensor<2x4xi32>, tensor<2x4xf64>, tensor<2x4xcomplex<f64>>) {
  %0:4 = "stablehlo.sort"(%x, %n, %y, %z) <{dimension = 1 : i64}> ({
  ^bb0(%a: tensor<f64>, %b: tensor<f64>, %m: tensor<i32>, %o: tensor<i32>, %c: tensor<f64>, %d: tensor<f64>,
       %e: tensor<complex<f64>>, %f: tensor<complex<f64>>):
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %2 = stablehlo.compare EQ, %a, %cst, FLOAT : (tensor<f64>, tensor<f64>) -> tensor<i1>
    %3 = stablehlo.select %2, %cst, %a : tensor<i1>, tensor<f64>
    %4 = stablehlo.compare EQ, %b, %cst, FLOAT : (tensor<f64>, tensor<f64>) -> tensor<i1>
    %5 = stablehlo.select %4, %cst, %b : tensor<i1>, tensor<f64>
    %6 = stablehlo.compare LT, %3, %5, TOTALORDER : (tensor<f64>, tensor<f64>) -> tensor<i1>
    stablehlo.return %6 : tensor<i1>
  }) : (tensor<2x4xf64>, tensor<2x4xi32>, tensor<2x4xf64>, tensor<2x4xcomplex<f64>>)
    -> (tensor<2x4xf64>, tensor<2x4xi32>, tensor<2x4xf64>, tensor<2x4xcomplex<f64>>)
  return %0#0, %0#1, %0#2, %0#3 : tensor<2x4xf64>, tensor<2x4xi32>, tensor<2x4xf64>, tensor<2x4xcomplex<f64>>
}"""


def several() -> list[np.ndarray]:
    """Arguments for `SEVERAL`. The keys are far apart, so that finite differences do not change their order."""
    x = RNG.permuted(np.linspace(-2, 2, 8)).reshape(2, 4)
    y, re, im = RNG.standard_normal((3, 2, 4))
    return [x, np.arange(8, dtype=np.int32).reshape(2, 4), y, re + 1j * im]


def test_several_operands() -> None:
    """In a sort of several operands, each tangent is sorted with its operand, whichever operand is the key."""
    check_rule(SEVERAL, *several())


def test_order_three() -> None:
    """Derivatives of a sort are right to order three if the program is printed and parsed after order one.

    MLIR then moves constants out of the comparator.
    """
    lowered = str(load(SEVERAL).jvp([0, 2]))
    point = several()
    tangents = [RNG.standard_normal((2, 4)) for _ in range(2)]
    check_rule(lowered, *point, *tangents, subsets=False, order=2)


@pytest.mark.usefixtures("double_precision")
def test_through_jax() -> None:
    def function(x: jax.Array, y: jax.Array) -> jax.Array:
        x, n, y = jax.lax.sort((x * y, jax.lax.broadcasted_iota(int, (3, 4), 0), y), dimension=0, num_keys=2)
        return jnp.sin(x) * y + n

    x, y = RNG.standard_normal((2, 3, 4))
    check_rule(jax.jit(function).lower(x, y).as_text(), x, y, jax_function=function)


def test_comparator_reading_from_outside() -> None:
    outside = text((4,), 0).replace("(%x: tensor<4xf64>)", "(%x: tensor<4xf64>, %t: tensor<f64>)")
    outside = outside.replace("LT, %a, %b", "LT, %a, %t")
    with pytest.raises(
        Unsupported, match=r"unsupported jvp AD rule for stablehlo.sort: its comparator reads"
    ):
        load(outside).jvp([0])
    with pytest.raises(
        Unsupported, match=r"unsupported jvp AD rule for stablehlo.sort: its region reads an active"
    ):
        load(outside).jvp([1])
