"""Compares derivatives of functions inside JAX's transformations with JAX's.

`from_jax` imports these functions as more than their ops: they have derivative rules, solvers or stopped gradients.
They may be batched several times, called in loops and branches, and differentiated by JAX before the import.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np
import optimistix as optx
import pytest
from harness.compare import compare

import tiduc

Scalar = Callable[[Any, Any], Any]
A, B = np.array([1.3, 1.7]), np.array([1.1, 1.9])
ALONG = (np.array([0.4, -0.7]), np.array([-0.2, 1.1]))


@jax.custom_jvp
def by_jvp(a: Any, c: Any) -> Any:
    return jnp.sin(a) * c


@by_jvp.defjvp
def _tangent(at: Any, along: Any) -> Any:
    (a, c), (da, dc) = at, along
    return by_jvp(a, c), jnp.cos(a) * c * da + by_jvp(a, jnp.ones_like(c)) * dc


@jax.custom_vjp
def by_vjp(a: Any, c: Any) -> Any:
    return jnp.sin(a) * c


def _forward(a: Any, c: Any) -> Any:
    return by_vjp(a, c), (a, c)


def _backward(kept: Any, ct: Any) -> Any:
    a, c = kept
    return jnp.cos(a) * c * ct, by_vjp(a, jnp.ones_like(c)) * ct


by_vjp.defvjp(_forward, _backward)


def matrix(a: Any, c: Any) -> Any:
    return jnp.array([[2.0 + a, 1.0], [c, 4.0]])


def vector(a: Any, c: Any) -> Any:
    return jnp.array([a * c, 1.0 + a])


def solved(solver: Any, a: Any, c: Any) -> Any:
    return lx.linear_solve(lx.MatrixLinearOperator(matrix(a, c)), vector(a, c), solver).value.sum()


def solved_by_cg(a: Any, c: Any) -> Any:
    m = matrix(a, c)
    return jax.scipy.sparse.linalg.cg(lambda y: m.T @ (m @ y), vector(a, c), tol=1e-12)[0].sum()


def root(a: Any, c: Any) -> Any:
    equation: Any = lambda y, p: y**3 + p[0] * y - p[1]  # noqa: E731
    return optx.root_find(equation, optx.Newton(1e-11, 1e-11), jnp.array(0.5), (a, c), max_steps=50).value


FUNCTIONS: dict[str, Scalar] = {
    "custom_jvp": by_jvp,
    "custom_vjp": by_vjp,
    "LU": functools.partial(solved, lx.LU()),
    "SVD": functools.partial(solved, lx.SVD()),
    "jnp.linalg.solve": lambda a, c: jnp.linalg.solve(matrix(a, c), vector(a, c)).sum(),
    "cg": solved_by_cg,
    "root_find": root,
    "gammainc": lambda a, c: jax.scipy.special.gammainc(2.5, a * c),
    "stop_gradient": lambda a, c: jnp.sin(jax.lax.stop_gradient(a) * c) * a,
    "checkpoint": lambda a, c: jax.checkpoint(lambda a, c: jnp.sin(jnp.sin(a) * c))(a, c),
    "relu": lambda a, c: jax.nn.relu(a - c) * a + jax.nn.relu(c - a) ** 2,
    "logsumexp": lambda a, c: jax.nn.logsumexp(jnp.stack([a, c, a * c])),
    "sinc": lambda a, c: jnp.sinc(a * c),
    "hessian": lambda a, c: jax.hessian(lambda z: jnp.exp(-z * z * c))(a),
}


def nested_batches(f: Scalar) -> Scalar:
    def of_all(e: Any, a: Any, b: Any) -> Any:
        return jax.vmap(lambda c: jax.vmap(lambda d: f(c * e, d))(b))(a)

    return lambda a, b: (jax.vmap(lambda e: of_all(e, a, b))(jnp.array([1.0, 0.9])) ** 2).sum()


def batch_in_scan(f: Scalar) -> Scalar:
    def step(state: Any, x: Any, b: Any) -> Any:
        return jax.vmap(lambda d: f(x, d))(b).sum() + 0.1 * state, state

    return lambda a, b: jax.lax.scan(functools.partial(step, b=b), 0.0, a)[0]


def scan_in_batch(f: Scalar) -> Scalar:
    def step(state: Any, x: Any, z: Any) -> Any:
        return f(x, z) + 0.1 * state, state

    return lambda a, b: jax.vmap(lambda z: jax.lax.scan(functools.partial(step, z=z), 0.0, a)[0])(b).sum()


def branch_in_batch(f: Scalar) -> Scalar:
    def chosen(x: Any, y: Any) -> Any:
        return jax.lax.cond(x > 1.5, lambda: f(x, y), lambda: f(y, x) * 2)

    return lambda a, b: jax.vmap(chosen)(a, b).sum()


def gradients_in_batches(f: Scalar) -> Scalar:
    slope = jax.grad(f, 1)
    return lambda a, b: (jax.vmap(lambda x: jax.vmap(lambda y: slope(x, y))(b))(a) ** 2).sum()


AROUND: list[Callable[[Scalar], Scalar]] = [
    *(nested_batches, batch_in_scan, scan_in_batch, branch_in_batch, gradients_in_batches)
]


def products(function: Scalar) -> Any:
    """JAX's Hessian-vector product, by reverse mode over reverse mode if a function has no forward mode."""
    gradient = jax.grad(function, (0, 1))

    def slope(a: Any, b: Any) -> Any:
        return sum(jnp.vdot(x, y) for x, y in zip(gradient(a, b), ALONG, strict=True))

    try:
        return jax.jit(lambda *x: jax.jvp(gradient, x, ALONG)[1])(A, B)
    except TypeError:
        return jax.jit(jax.grad(slope, (0, 1)))(A, B)


@pytest.mark.more
@pytest.mark.filterwarnings("ignore::tiduc.dialect.errors.TiducRemark")
@pytest.mark.parametrize("around", AROUND, ids=lambda around: around.__name__)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_inside_transformations(name: str, around: Callable[[Scalar], Scalar]) -> None:
    function = around(FUNCTIONS[name])
    with jax.enable_x64(True):
        program = tiduc.from_jax(function, A, B)
        gradient = jax.jit(jax.grad(function, (0, 1)))(A, B)
        compare(program.grad([0, 1]).compile(engine="xla")(A, B), gradient, 1e-8)
        compare(program.hvp([0, 1]).compile(engine="xla")(A, B, *ALONG), products(function), 1e-8)
