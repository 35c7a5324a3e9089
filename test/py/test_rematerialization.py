"""Rematerialization that a program requests by the barriers of `jax.checkpoint`, and programs without ops."""

from typing import Any

import jax
import jax.numpy as jnp
from cases.loop_gradients import Array, random, stacks
from harness import xla
from harness.compare import compare
from harness.exports import exported
from jax import lax

import tiduc
from tiduc.passes.rematerialize.rematerialize import memory_curve


def gradient_of_layers(in_scan: bool, checkpointed: bool) -> tuple[str, list[Array]]:
    """The text of JAX's gradient of two layers, or of a scan over seven layers, and its arguments.

    Checkpointed layers are recomputed.
    """

    def layer(c: Any, w: Any) -> Any:
        return jnp.sin(jnp.exp(jnp.cos(c) * w))

    body = jax.checkpoint(layer) if checkpointed else layer

    def f(x: Any, w: Any) -> Any:
        if in_scan:
            return jnp.sum(lax.scan(lambda c, v: (body(c, v), None), x, w)[0])
        return jnp.sum(body(body(x, w[0]), w[1]))

    arguments = random((2,), (7 if in_scan else 2, 2))
    return exported(jax.grad(f, (0, 1)), *arguments), arguments


def exponentials(text: str) -> int:
    return text.count("stablehlo.exponential ")


def test_checkpoints_of_jax_stay() -> None:
    """Derivatives of a gradient with checkpoints keep its recomputation: they have the optimization barrier and one
    more exponential than without checkpoints.
    """
    for checkpointed, count in ((True, 3), (False, 2)):
        program = tiduc.load(gradient_of_layers(False, checkpointed)[0])
        for derived in (program, program.jvp(), program.vjp()):
            assert exponentials(derived.text) == count
            assert ("optimization_barrier" in derived.text) == checkpointed


def test_checkpoints_of_jax_stay_in_loops() -> None:
    """In loops, derivatives of a gradient with checkpoints stack no values that follow a barrier.

    They compute more exponentials instead, and have the same values.
    """
    texts = {flag: tiduc.load(gradient_of_layers(True, flag)[0]).vjp().text for flag in (True, False)}
    assert exponentials(texts[True]) == 3 and exponentials(texts[False]) == 1
    assert len(stacks(texts[True], 7)) < len(stacks(texts[False], 7)) - 7
    text, arguments = gradient_of_layers(True, True)
    ct = random(*(x.shape for x in arguments))
    got, kept = (xla.by_xla(x, [*arguments, *ct]) for x in texts.values())
    compare(got, kept)
    assert exponentials(tiduc.load(text).jvp().text) == 2


def test_programs_without_ops() -> None:
    text = "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n  return %x : tensor<2xf32>\n}"
    program = tiduc.load(text)
    assert program.rematerialize("min").text == program.text
    assert memory_curve(program.view, program.merged) == [(8, 1.0)]
