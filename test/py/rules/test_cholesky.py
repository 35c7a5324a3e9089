"""Cholesky factors, lower and upper, real and complex.

Derivatives are with respect to the triangle that the op reads.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from harness.check_rule import check_rule, run
from jax import lax

from tiduc.loading import load

RNG = np.random.default_rng(0)


def positive(batch: list[int], n: int, element: str) -> Any:
    x = RNG.standard_normal([*batch, n, n])
    if element != "f64":
        x = x + 1j * RNG.standard_normal([*batch, n, n])
    return x @ np.conj(np.swapaxes(x, -1, -2)) + n * np.eye(n)


def program(batch: list[int], n: int, element: str, lower: bool) -> str:
    """A program that computes a Cholesky factor of its argument.

    It drops the imaginary part of the diagonal, because XLA leaves this part unspecified.
    """
    sizes = "".join(f"{k}x" for k in [*batch, n, n])
    t, f, i = f"tensor<{sizes}{element}>", f"tensor<{sizes}f64>", f"tensor<{sizes}i32>"
    before = f"""
      %row = stablehlo.iota dim = {len(batch)} : {i}
      %column = stablehlo.iota dim = {len(batch) + 1} : {i}
      %diagonal = stablehlo.compare EQ, %row, %column : ({i}, {i}) -> tensor<{sizes}i1>
      %re = stablehlo.real %a : ({t}) -> {f}
      %im = stablehlo.imag %a : ({t}) -> {f}
      %none = stablehlo.constant dense<0.0> : {f}
      %im2 = stablehlo.select %diagonal, %none, %im : tensor<{sizes}i1>, {f}
      %a2 = stablehlo.complex %re, %im2 : {t}"""
    return f"""
    func.func @main(%a: {t}) -> {t} {{{"" if element == "f64" else before}
      %0 = stablehlo.cholesky {"%a" if element == "f64" else "%a2"}, lower = {str(lower).lower()} : {t}
      return %0 : {t}
    }}"""


@pytest.mark.sampled(8)
@pytest.mark.parametrize("element", ["f64", "complex<f64>"])
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize(
    ("batch", "n", "order"), [([], 1, 1), ([], 2, 2), ([], 4, 1), ([2, 1], 3, 1), ([0], 2, 1), ([], 0, 1)]
)
def test_factors(batch: list[int], n: int, order: int, lower: bool, element: str) -> None:
    check_rule(program(batch, n, element, lower), positive(batch, n, element), order=order)


@pytest.mark.parametrize("lower", [False, True])
def test_only_one_triangle_is_read(lower: bool) -> None:
    """The entries of the triangle that the op does not read change neither the factor nor its derivative."""
    a = positive([], 3, "f64")
    other = (np.triu if lower else np.tril)(RNG.standard_normal((3, 3)), 1 if lower else -1)
    check_rule(program([], 3, "f64", lower), a + other, order=1)
    p, dx = load(program([], 3, "f64", lower)).jvp(), RNG.standard_normal((3, 3))
    for x, y in zip(run(p, [a, dx]), run(p, [a + other, dx + other / 0.01]), strict=True):
        np.testing.assert_allclose(x, y, atol=1e-14)


@pytest.mark.parametrize("element", ["f64", "complex<f64>"])
def test_hermitian_matrices_as_jax(element: str) -> None:
    """The derivatives of the Cholesky factor of x x^H equal JAX's."""

    def function(x: Any) -> Any:
        return jnp.tril(lax.linalg.cholesky(x @ jnp.conj(x.T), symmetrize_input=False))

    t = f"tensor<3x3x{element}>"
    adjoint = "%c" if element == "f64" else "%h"
    conj = "" if element == "f64" else f'%h = "chlo.conj"(%c) : ({t}) -> {t}'
    text = f"""
    func.func @main(%x: {t}) -> {t} {{
      %c = stablehlo.transpose %x, dims = [1, 0] : ({t}) -> {t}
      {conj}
      %a = stablehlo.dot_general %x, {adjoint}, contracting_dims = [1] x [0] : ({t}, {t}) -> {t}
      %0 = stablehlo.cholesky %a, lower = true : {t}
      return %0 : {t}
    }}"""
    check_rule(text, positive([], 3, element), jax_function=function, order=1)
