"""Compares gradients of random eager programs with JAX's and with finite differences.

The programs have loops, branches and writes.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tiduc.eager import Array, grad

SHAPES = ((), (3,), (2, 3))
POINT = [np.array(0.7), np.array([0.3, -0.8, 1.1]), np.array([[0.5, -0.4, 0.9], [1.2, 0.6, -0.7]])]

Step = Callable[[Any, list[Any]], Any]
"""A step of a program: a function (xp, the values computed so far) -> a new value. `xp` is numpy or jax.numpy."""

pytestmark = pytest.mark.usefixtures("interpreted")


# ---- steps: each is smooth where it is defined, and keeps its values small ---------------------------------

UNARY: tuple[Callable[[Any, Any], Any], ...] = (
    lambda xp, x: xp.sin(x),
    lambda xp, x: xp.tanh(x),
    lambda xp, x: xp.exp(-x * x),
    lambda xp, x: xp.log(1.5 + x * x),
    lambda xp, x: xp.sqrt(x**2 + 0.5),
    lambda xp, x: 1.0 / (2.0 + xp.cos(x)),
    lambda xp, x: xp.where(x > 0.25, x * x, 0.5 * x),
    lambda xp, x: xp.sum(x, axis=-1, keepdims=True) * x if x.ndim else x,
    lambda xp, x: xp.mean(x) + x,
    lambda xp, x: x.T.reshape(x.shape) if x.ndim > 1 else x,
    lambda xp, x: x[..., ::-1] - x[..., :1] if x.ndim else x,
    lambda xp, x: xp.concatenate([x[..., 1:], x[..., :1] * 2.0], axis=-1) if x.ndim else x,
)
BINARY: tuple[Callable[[Any, Any, Any], Any], ...] = (
    lambda xp, x, y: x + y,
    lambda xp, x, y: xp.tanh(x - y),
    lambda xp, x, y: x * xp.sin(y),
    lambda xp, x, y: x / (1.5 + xp.square(y)),
    lambda xp, x, y: xp.logaddexp(x, y),
    lambda xp, x, y: xp.tanh(x @ y.T) @ y if x.ndim == y.ndim == 2 else x - y,
)


def unary(function: int, i: int) -> Step:
    return lambda xp, values: UNARY[function](xp, values[i % len(values)])


def binary(function: int, i: int, j: int) -> Step:
    return lambda xp, values: BINARY[function](xp, values[i % len(values)], values[j % len(values)])


def loop(function: int, i: int) -> Step:
    """A step with a loop whose trip count, at most five, depends on the data."""

    def step(xp: Any, values: list[Any]) -> Any:
        x = values[i % len(values)]
        for _ in range(5):
            if number(xp.sum(x * x)) < 0.5:
                break
            x = UNARY[function](xp, 0.5 * x)
        return x

    return step


def branch(function: int, i: int, j: int) -> Step:
    def step(xp: Any, values: list[Any]) -> Any:
        x, y = values[i % len(values)], values[j % len(values)]
        return UNARY[function](xp, x) if number(xp.mean(y)) > 0.1 else x * 0.75

    return step


def write(i: int, j: int, scaled: bool) -> Step:
    """A step that copies an array, reads the copy, overwrites a part of it, and reads it again."""

    def step(xp: Any, values: list[Any]) -> Any:
        x, y = values[i % len(values)], values[j % len(values)]
        if not x.ndim:
            return x
        new = xp.tanh(xp.sum(y))
        if xp is jnp:
            written = x.at[..., 1].multiply(new) if scaled else x.at[..., 1].set(new)
            return x * x + written
        z = x.copy()
        before = z * z
        if scaled:
            z[..., 1] *= new
        else:
            z[..., 1] = new
        return before + z

    return step


def number(x: Any) -> Any:
    """The value that a branch tests. For JAX arrays, it is detached from the derivative."""
    return jax.lax.stop_gradient(x) if isinstance(x, jax.Array) else x


INDEX = st.integers(0, 20)
STEPS = st.one_of(
    st.builds(unary, st.integers(0, len(UNARY) - 1), INDEX),
    st.builds(binary, st.integers(0, len(BINARY) - 1), INDEX, INDEX),
    st.builds(loop, st.integers(0, 3), INDEX),
    st.builds(branch, st.integers(0, 5), INDEX, INDEX),
    st.builds(write, INDEX, INDEX, st.booleans()),
)
PROGRAMS = st.lists(STEPS, min_size=4, max_size=10)


def run(xp: Any, steps: list[Step], inputs: list[Any]) -> Any:
    """Runs the steps on the inputs, and reduces the last three values to one number."""
    values = list(inputs)
    for step in steps:
        values.append(step(xp, values))
    return sum(xp.sum(xp.sin(x)) for x in values[-3:])


def eager(steps: list[Step], points: list[np.ndarray]) -> tuple[Array, list[Array]]:
    inputs = [Array(x, requires_grad=True) for x in points]
    return run(np, steps, inputs), inputs


SETTINGS = settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


@SETTINGS
@given(PROGRAMS)
def test_gradients_are_those_of_finite_differences(steps: list[Step]) -> None:
    """Gradients equal finite differences, and values equal NumPy's."""
    y, inputs = eager(steps, POINT)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(y.data, run(np, steps, POINT), rtol=1e-12)
        actual = grad([y], inputs)
        generator, h = np.random.default_rng(1), 1e-6
        dx = [generator.standard_normal(x.shape) for x in POINT]
        ends = [run(np, steps, [x + s * h * d for x, d in zip(POINT, dx, strict=True)]) for s in (1, -1)]
    slope = sum(np.sum(ct.data * d) for ct, d in zip(actual, dx, strict=True))
    np.testing.assert_allclose(slope, (ends[0] - ends[1]) / (2 * h), rtol=1e-5, atol=1e-6)


@settings(SETTINGS, max_examples=3)
@given(PROGRAMS)
@pytest.mark.more
def test_gradients_are_those_of_jax(steps: list[Step]) -> None:
    y, inputs = eager(steps, POINT)
    actual = grad([y], inputs)
    with jax.disable_jit():
        expected = jax.grad(lambda xs: run(jnp, steps, xs))(list(map(jnp.asarray, POINT)))
    for ct, wanted in zip(actual, expected, strict=True):
        np.testing.assert_allclose(ct.data, wanted, rtol=1e-9, atol=1e-12)


@settings(SETTINGS, max_examples=5)
@given(PROGRAMS)
def test_order_two(steps: list[Step]) -> None:
    """Compares a Hessian-vector product, computed by differentiating a gradient, with differences of gradients."""
    generator, h = np.random.default_rng(2), 1e-6
    dx = [generator.standard_normal(x.shape) for x in POINT]
    y, inputs = eager(steps, POINT)
    first = grad([y], inputs, create_graph=True)
    if not any(ct.requires_grad for ct in first):
        return
    along = sum(np.sum(ct * d) for ct, d in zip(first, dx, strict=True))
    actual = grad([along], inputs)
    ends = []
    for sign in (1, -1):
        moved, at = eager(steps, [x + sign * h * d for x, d in zip(POINT, dx, strict=True)])
        ends.append(grad([moved], at))
    for ct, after, before in zip(actual, *ends, strict=True):
        np.testing.assert_allclose(ct.data, (after.data - before.data) / (2 * h), rtol=2e-5, atol=2e-6)


# ---- indices -----------------------------------------------------------------------------------------------

SIZES = hnp.array_shapes(min_dims=1, max_dims=3, max_side=4)


@st.composite
def indexed(draw: Any) -> tuple[np.ndarray, Any]:
    """Draws an array and a NumPy index into it: a basic, integer or boolean index."""
    x = np.arange(1.0, 1 + np.prod(sizes := draw(SIZES))).reshape(sizes)
    kinds = (
        hnp.basic_indices(sizes, allow_newaxis=True),
        hnp.integer_array_indices(sizes),
        hnp.arrays(bool, sizes),
    )
    return x, draw(st.one_of(*kinds))


@settings(SETTINGS, max_examples=40)
@given(indexed())
def test_indices_are_those_of_numpy(case: tuple[np.ndarray, Any]) -> None:
    """For random indices, reads, writes, and writes into the result of a read have NumPy's effect.

    The gradient of a read adds the cotangents at the index.
    """
    x, index = case
    actual, expected = Array(x), x.copy()
    np.testing.assert_array_equal(np.asarray(actual[index]), expected[index])
    for y in (actual, expected):
        part = y[index]
        y[index] = -7.0
        if not np.isscalar(part) and not getattr(part, "is_scalar", False):
            part *= 2.0
    np.testing.assert_array_equal(np.asarray(actual), expected)
    leaf = Array(x, requires_grad=True)
    y = leaf[index]
    if not y.size:
        return
    seed = np.arange(1.0, 1 + y.size).reshape(y.shape)
    expected = np.zeros_like(x)
    np.add.at(expected, index, seed)
    np.testing.assert_array_equal(grad([y], leaf, [seed]).data, expected)
