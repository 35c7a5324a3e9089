"""Tests which form a loop gets on IREE (such as kernel, or updates in place), and why it does not get other forms."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from harness.exports import exported
from jax import lax

import tiduc
from tiduc.backends.iree.fast.loops.carries_in_place import carries_in_place
from tiduc.backends.iree.fast.loops.loop_forms import COUNTED, FORMS, IN_KERNEL, IN_PLACE, LoopForm
from tiduc.backends.iree.fast.loops.loops_by_count import loops_by_count
from tiduc.backends.iree.fast.loops.loops_to_kernels import loops_to_kernels
from tiduc.backends.iree.pipeline import PIPELINE, legalize
from tiduc.backends.iree.settings import Settings
from tiduc.dialect.graph.functions import outer_first
from tiduc.dialect.mlir.context import parse, stage

SMALL, LARGE = np.ones(8, np.float32), np.ones(20_000, np.float32)
PASSES: dict[str, Callable[[Any], int]] = {
    "kernel": loops_to_kernels,
    "counted": loops_by_count,
    "in place": carries_in_place,
}


def backward(x: Any) -> Any:
    return lax.fori_loop(0, 9, lambda i, c: c * (9 - i), x)


def rising(x: Any) -> Any:
    return lax.while_loop(lambda c: c[0] < 9, lambda c: (c[0] + 1, c[1] * c[0]), (jnp.int32(0), x))[1]


def stacked(x: Any) -> Any:
    return lax.scan(lambda c, _: (jnp.tanh(c), c), x, None, 20)[1]


def by_data(x: Any) -> Any:
    return lax.while_loop(lambda c: jnp.sum(c) < 100, lambda c: c * 2 + 1, x)


def reflected(x: Any) -> Any:
    return lax.while_loop(lambda c: c[0] > 0, lambda c: (c[0] - 2, c[1] * c[0]), (jnp.int32(9), x))[1]


FITS = ""
TOO_LARGE = "an array of stablehlo.tanh is too large for the stack, or has a type that kernels do not have"
LOOPS = {
    "small": (backward, SMALL, FITS, FITS, FITS),
    "small, falling": (reflected, SMALL, FITS, FITS, FITS),
    "small, with a stack": (stacked, SMALL, FITS, FITS, FITS),
    "small, rising": (rising, SMALL, FITS, "it counts from zero already", FITS),
    "large, with a stack": (stacked, LARGE, TOO_LARGE, FITS, FITS),
    "small, by data": (by_data, SMALL, FITS, "its trip count is unknown", FITS),
}
"""For each name: a function, its argument, and for three forms the reason why the function's loop cannot get it.

The forms are a kernel, a loop that counts from zero, and a loop that updates in place.
"""


WITH_CALL = """
func.func @main(%x: tensor<4xf32>, %n: tensor<i32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %r:2 = stablehlo.while(%i = %zero, %c = %x) : tensor<i32>, tensor<4xf32> cond {
    %go = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %go : tensor<i1>
  } do {
    %j = stablehlo.add %i, %one : tensor<i32>
    %d = func.call @twice(%c) : (tensor<4xf32>) -> tensor<4xf32>
    stablehlo.return %j, %d : tensor<i32>, tensor<4xf32>
  }
  return %r#1 : tensor<4xf32>
}
func.func private @twice(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = stablehlo.add %x, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
"""


@stage
def reasons_of(text: str, legal: bool = True) -> list[str]:
    """For each form, the reason why the only loop of a program cannot get this form."""
    module = parse(text)
    if legal:
        legalize(module, Settings())
    (loop,) = outer_first(module.operation, ("stablehlo.while",))
    return [form.against(loop) for form in FORMS]


@stage
def rewrites(text: str, rewrite: Callable[[Any], int]) -> int:
    """Legalizes a program, and returns the number of its loops that a pass rewrites."""
    module = parse(text)
    legalize(module, Settings())
    return rewrite(module)


def text_of(name: str) -> str:
    function, x, *_ = LOOPS[name]
    return tiduc.load(exported(function, x)).text


@pytest.mark.parametrize("name", LOOPS)
def test_forms(name: str) -> None:
    assert reasons_of(text_of(name)) == [*LOOPS[name][2:]]


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("form", FORMS, ids=[form.name for form in FORMS])
def test_the_passes_do_as_the_table_says(name: str, form: LoopForm) -> None:
    reason = LOOPS[name][2 + FORMS.index(form)]
    assert rewrites(text_of(name), PASSES[form.name]) == (reason == "")


def test_a_loop_that_runs_once_is_not_counted() -> None:
    text = text_of("small, falling").replace("dense<9>", "dense<2>")
    assert reasons_of(text, legal=False)[FORMS.index(COUNTED)] == "it runs less than twice"


def test_a_loop_with_a_call_keeps_its_copies() -> None:
    reasons = dict(zip(FORMS, reasons_of(WITH_CALL, legal=False), strict=True))
    assert reasons[IN_PLACE] == "the module has func.call, whose function may update a carry"
    assert reasons[IN_KERNEL] == "func.call does not compile in a kernel"


def test_each_form_is_made_by_a_pass_of_the_pipeline() -> None:
    assert {form.made_by for form in FORMS} <= {entry.function.__name__ for entry in PIPELINE}
    assert [form.name for form in FORMS] == list(PASSES)
