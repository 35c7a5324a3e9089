"""Softmax and logsumexp subtract a maximum.

Derivatives omit the tangent of such an extremum if the tangent is proved to cancel.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from harness.check_rule import run
from harness.compare import compare
from harness.exports import exported
from harness.stages import numbers
from jax import lax

from tiduc.dialect.shapes.types import is_float
from tiduc.loading import load
from tiduc.passes.linear_transpose import linear_transpose
from tiduc.passes.linearize import linearize
from tiduc.passes.rules import OPSET, reduce
from tiduc.program import Program

RANDOM = np.random.default_rng(0)
X = RANDOM.integers(-2, 3, (3, 5)) + 0.5  # includes ties of the largest elements
W, U, V = RANDOM.standard_normal((3, 3, 5))

Function = Callable[[Any], Any]


def normalized(x: Any, axis: int, shift: Any) -> Any:
    e = jnp.exp(x - shift)
    return e / e.sum(axis, keepdims=True)


def by_logarithms(x: Any) -> Any:
    m = x.max(0)
    return jnp.log(jnp.sum(jnp.exp(x - m), 0)) + m


def guarded(x: Any) -> Any:
    m = x.max(1, keepdims=True)
    return W * normalized(x, 1, jnp.where(m > -100, m, 0.0))


def by_masks(x: Any, number: float) -> Any:
    e = jnp.where(X > 0, jnp.exp(x - x.max(1, keepdims=True)), number)
    return e / e.sum(1, keepdims=True)


def returned(x: Any) -> Any:
    m = x.max(1, keepdims=True)
    return W * normalized(x, 1, m) + m


def in_a_loop(x: Any) -> Any:
    return lax.scan(lambda c, w: (jax.nn.softmax(c + w), jnp.sum(c)), x[0], x)[0]


SHIFTS: dict[str, Function] = {
    "softmax": lambda x: W * jax.nn.softmax(x),
    "log_softmax": lambda x: W * jax.nn.log_softmax(x, 0),
    "logsumexp": jax.scipy.special.logsumexp,
    "logsumexp of rows": lambda x: jax.scipy.special.logsumexp(x, 1),
    "by logarithms": by_logarithms,
    "softmin": lambda x: W * normalized(-x, 1, -x.min(1, keepdims=True)),
    "masked": lambda x: W * jax.nn.softmax(x, where=X > 0),
    "weighted": lambda x: jax.scipy.special.logsumexp(x, 1, b=jnp.abs(W)),
    "transposed": lambda x: W * normalized(x.T, 0, x.max(1)).T,
    "two": lambda x: jax.nn.softmax(jax.nn.softmax(x, 0), 1),
    "any function of the other axis": lambda x: W[:, :3] * normalized(x[:, :3], 0, x[:, :3].max(1)),
    "shift of the whole array": lambda x: W * normalized(x, 1, x.max()),
    "guarded": guarded,
    "in a loop": in_a_loop,
    "in a call": jax.jit(lambda x: jnp.sum(jax.jit(jax.nn.softmax)(x) * x, 1)),
    "in a batch": jax.vmap(lambda x: W[0] * jax.nn.softmax(x)),
}

OTHERS: dict[str, Function] = {
    "returned": returned,
    "no quotient": lambda x: jnp.exp(x - x.max(0)),
    "another axis": lambda x: W * normalized(x, 1, x.max(0)),
    "a factor": lambda x: W * normalized(x, 1, 2 * x.max(1, keepdims=True) * x),
    "twice the shift": lambda x: jnp.log(jnp.sum(jnp.exp(x - x.max(1, keepdims=True)), 1)) + 2 * x.max(1),
    "masked by another number": lambda x: by_masks(x, 1.0),
    "another quotient": lambda x: jnp.exp(x - x.max(0)) / jnp.exp(2 * x - x.max(0)).sum(0),
    "kept by a guard": lambda x: W * normalized(x, 1, 0.0) * jnp.where(x.max() > 0, x.max(), 0.0),
}


def orders(function: Function) -> tuple[list[str], list[Any]]:
    """The texts of the derivatives of orders 1 to 3 of a loss that applies the function, and all their results."""
    program = load(exported(lambda x: jnp.sum(jnp.sin(function(x))), X))
    gradient, along = program.grad(), program.hvp()
    cases: list[tuple[Program, Sequence[Any]]] = [
        (gradient, [X]),
        (along, [X, V]),
        (along.jvp([0]), [X, V, U]),
    ]
    return [p.text for p, _ in cases], [y for p, point in cases for y in run(p, point)]


def with_and_without(function: Function, monkeypatch: Any) -> tuple[list[str], list[str]]:
    """Asserts that the derivatives equal those that keep the tangents of all extrema. Returns the texts of both."""
    texts, found = orders(function)
    monkeypatch.setattr(reduce, "cancels", lambda b, m: False)
    plain, expected = orders(function)
    compare(found, expected, 1e-12)
    return texts, plain


@pytest.mark.parametrize("name", SHIFTS)
def test_shifts_have_no_tangent(name: str, monkeypatch: Any) -> None:
    texts, plain = with_and_without(SHIFTS[name], monkeypatch)
    assert all(len(x) < len(y) for x, y in zip(texts, plain, strict=True))


@pytest.mark.parametrize("name", OTHERS)
def test_other_extrema_keep_their_tangents(name: str, monkeypatch: Any) -> None:
    texts, plain = with_and_without(OTHERS[name], monkeypatch)
    assert texts == plain


@pytest.mark.parametrize("name", ["softmax", "logsumexp of rows", "two"])
def test_intermediate_values_of_second_order(name: str) -> None:
    """The tangents of all values in a program, in its linear graph and in the transposed graph equal finite
    differences.
    """
    x, dx, ct, v = RANDOM.standard_normal((4, 3, 5))
    view = load(exported(SHIFTS[name], x)).view
    main = view.graph("main")
    y = main.outputs[0]
    assert y is not None
    first = linearize(view, [y], ["arg0"], OPSET)
    transposed = linear_transpose(view, first, OPSET)
    keys = [next(iter(g.inputs)) for g in (main, first, transposed)]
    fixed = {keys[1]: dx, keys[2]: ct.reshape(y.type.shape) if y.type.shape == [3, 5] else ct[:, 0]}
    values = [z for g in (main, first, transposed) for op in g.definitions for z in op.results if is_float(z)]
    tangents, seeds = {}, {}
    for z in values:
        second = linearize(view, [z], [keys[0]], OPSET)
        if second.outputs[0] is not None:
            tangents[z] = second.outputs[0]
            seeds[next(iter(second.inputs))] = v
    found = numbers(view, list(tangents.values()), {keys[0]: x, **fixed, **seeds})
    h = 1e-4
    at = [numbers(view, list(tangents), {keys[0]: x + k * h * v, **fixed}) for k in (-2, -1, 1, 2)]
    expected = [(8 * (c - b) - (d - a)) / (12 * h) for a, b, c, d in zip(*at, strict=True)]
    assert len(found) > 10
    compare(found, expected, 1e-8)
