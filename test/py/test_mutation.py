"""Loops that update arrays in place.

Reads before an update get the old values, and only the changed parts of an array are stored as residuals.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases.loop_gradients import MEMORIES, Array, grad, random, scanned, stacks
from harness import xla
from harness.compare import compare
from harness.exports import exported
from jax import lax

import tiduc
from tiduc.backends.reference.interpreter import evaluate


def test_slices_of_a_state_are_updated_in_place() -> None:
    """The reverse loop of a scan reads and updates slices, and has no sums of whole arrays."""
    text = grad(*scanned(7), "stack").rpartition("do {")[2]
    assert "tensor<7x2xf64>" not in "".join(re.findall("= stablehlo.(?:add|multiply) .*", text))
    # The only update writes the cotangent of xs, because the loop only reads the cotangent of ys.
    assert text.count("stablehlo.dynamic_update_slice") == 1


def test_overwritten_entries_are_read_with_their_old_values() -> None:
    """The gradient is right for a loop that replaces the entries of an array one by one.

    Each new entry depends on the previous entry and on the old entry.
    """

    def f(x: Any, w: Any) -> Any:
        def body(i: Any, c: Any) -> Any:
            c = lax.dynamic_update_slice(c, jnp.sin(lax.dynamic_slice(c, (i - 1,), (2,)) * w), (i,))
            return c.at[jnp.array([0, 2])].add(c[i] * c[i])

        return jnp.sum(lax.fori_loop(1, 5, body, x) ** 2)

    arguments = random((6,), (2,))
    program = tiduc.load(exported(f, *arguments))
    with jax.enable_x64(True):
        wanted = jax.jit(jax.grad(f, (0, 1)))(*arguments)
    for memory in MEMORIES:
        compare(evaluate(replace(program.grad(), loop_memory=memory).text, arguments), wanted)


STATE, TIMES = 50, 7
PLACES = np.random.default_rng(0).integers(0, STATE, (TIMES, 3))  # some indices are equal


def mutated(how: str) -> tuple[Callable[..., Any], list[Array]]:
    """A loop that updates three entries of an array in place, and its arguments.

    The new values depend on other entries of the array.
    """

    def f(x: Any, w: Any) -> Any:
        def body(i: Any, c: Any) -> Any:
            if how == "slice":
                return lax.dynamic_update_slice(c, jnp.sin(lax.dynamic_slice(c, (i,), (3,)) * w), (i + 1,))
            k = jnp.asarray(PLACES)[i]
            return getattr(c.at[k], how)(jnp.sin(c[k + 1]) * w)

        return jnp.sum(lax.fori_loop(0, TIMES, body, x) ** 2)

    return f, random((STATE,), (3,))


@pytest.mark.parametrize("how", ["slice", "set", "add"])
def test_only_changed_slices_of_a_state_are_kept(how: str) -> None:
    """The residuals of a loop that updates an array in place are stacks of the changed slices.

    The reverse loop changes the whole array only by slice updates and scatters.
    """
    function, arguments = mutated(how)
    text = grad(function, arguments, "stack")
    with jax.enable_x64(True):
        compare(evaluate(text, arguments), jax.jit(jax.grad(function, (0, 1)))(*arguments))
    kept = stacks(text, TIMES)
    assert kept and all(re.fullmatch(r"tensor<7x3x(f64|i1)>", type_) for type_ in kept)
    backwards = text.rpartition("do {")[2]
    whole = re.findall(rf"= \"?(stablehlo\.\w+)[^\n]*tensor<{STATE}xf64>$", backwards, re.MULTILINE)
    assert set(whole) <= {"stablehlo.dynamic_update_slice", "stablehlo.scatter"}


def test_the_reverse_costs_as_much_as_the_changes() -> None:
    """The gradient of a loop whose n iterations each change one of n entries needs no array of n x n elements."""

    def f(x: Any) -> Any:
        return jnp.sum(lax.fori_loop(1, 500, lambda i, c: c.at[i].set(jnp.sin(c[i - 1]) * c[i]), x))

    arguments = random((500,))
    text = grad(f, arguments)
    assert "500x500" not in text
    with jax.enable_x64(True):
        compare(xla.by_xla(text, arguments), [jax.jit(jax.grad(f))(*arguments)])


def test_slots_that_meet_are_carried() -> None:
    """The gradient is right if two iterations write the same entry.

    The reverse loop zeroes that entry's cotangent for the second iteration, and the first iteration must read this
    zero.
    """

    def f(xs: Any) -> Any:
        def body(i: Any, c: Any) -> Any:
            return lax.dynamic_update_slice(c, lax.dynamic_slice(xs, (i,), (2,)) ** 2, (i,))

        return jnp.sum(lax.fori_loop(0, 4, body, jnp.ones(5)) ** 2)

    arguments = random((5,))
    with jax.enable_x64(True):
        wanted = jax.jit(jax.grad(f))(*arguments)
    compare(evaluate(grad(f, arguments), arguments), [wanted])


def test_donated_arguments() -> None:
    """A derivative keeps the alias of a donated argument and an output only if the derivative returns that output."""
    arguments = random((3,), (3,))
    with jax.enable_x64(True):
        donating = jax.jit(lambda x, w: x * jnp.sin(w), donate_argnums=0)
        program = tiduc.load(donating.lower(*arguments).as_text())
    assert "tf.aliasing_output = 0" in program.vjp().text
    assert "tf.aliasing_output = 0" in program.jvp().text
    vjp = program.vjp()
    backwards = replace(vjp, outputs=vjp.outputs[1:])
    assert "tf.aliasing_output" not in backwards.text
