"""Memory budgets for programs with loops: the residuals of each loop, and the memory of small loops on IREE."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from harness.allocations import allocated
from harness.exports import exported
from jax import lax

import tiduc
from tiduc.dialect.control.control import is_control
from tiduc.dialect.control.small_loops import is_small
from tiduc.dialect.errors import RequestError
from tiduc.passes.rematerialize.rematerialize import estimated, memory_curve
from tiduc.pipeline import loops_of, lowering, run_stages

BENCH = Path(__file__).resolve().parents[1] / "bench"

LOOP = """func.func @main(%x: tensor<64x64xf32>) -> tensor<f32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %i, %y = stablehlo.while(%k = %zero, %h = %x) : tensor<i32>, tensor<64x64xf32>
  cond {
    %n = stablehlo.constant dense<100> : tensor<i32>
    %c = stablehlo.compare LT, %k, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %next = stablehlo.add %k, %one : tensor<i32>
    %z = stablehlo.sine %h : tensor<64x64xf32>
    stablehlo.return %next, %z : tensor<i32>, tensor<64x64xf32>
  }
  %f = stablehlo.constant dense<0.0> : tensor<f32>
  %sum = stablehlo.reduce(%y init: %f) applies stablehlo.add across dimensions = [0, 1]
      : (tensor<64x64xf32>, tensor<f32>) -> tensor<f32>
  return %sum : tensor<f32>
}
"""


def test_loops_keep_what_the_budget_allows() -> None:
    """With a large budget a loop stacks the residuals of all 100 iterations.

    With a small budget it sets checkpoints, and the gradient has the same values.
    """
    gradient = tiduc.load(LOOP).grad()
    stack = "tensor<100x64x64xf32>"
    assert stack in gradient.text
    assert stack in gradient.rematerialize("3MB").text
    small = gradient.rematerialize("700kB")
    assert stack not in small.text
    x = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    for y, wanted in zip(small.compile(engine="xla")(x), gradient.compile(engine="xla")(x), strict=True):
        np.testing.assert_allclose(y, wanted, rtol=1e-5)
    with pytest.raises(RequestError, match="the least budget that it fits is"):
        _ = gradient.rematerialize("10kB").text
    with pytest.raises(RequestError, match="the least budget that it fits is"):
        _ = tiduc.load(LOOP, loop_memory="stack").grad().rematerialize("700kB").text


def test_each_loop_is_a_choice() -> None:
    """The budget decides for each loop separately.

    Of two loops, the one with large stacks sets checkpoints, and the other keeps its stack.
    """

    def loss(x: Any, y: Any) -> Any:
        wide, small = (
            lax.scan(lambda c, _: (jnp.sin(c), None), c, None, n)[0] for c, n in ((x, 100), (y, 50))
        )
        return wide.sum() + small.sum()

    gradient = tiduc.load(
        exported(loss, jnp.ones((64, 64), jnp.float32), jnp.ones((16, 16), jnp.float32))
    ).grad()
    stacks = "tensor<100x64x64xf32>", "tensor<50x16x16xf32>"
    for memory, kept in (("3MB", [True, True]), ("700kB", [False, True])):
        text = gradient.rematerialize(memory).text
        assert [stack in text for stack in stacks] == kept


def test_memory_inside_of_loops_counts() -> None:
    """The estimated memory includes arrays that exist only within an iteration.

    Here, the body of the loop computes an array of 8 MB that it does not return.
    """

    def body(c: Any, _: Any) -> Any:
        return jnp.exp(c[:, :, None] + c[:, None, :]).sum(2), None

    program = tiduc.load(exported(lambda x: lax.scan(body, x, None, 5)[0], jnp.ones((2, 1000))))
    graph = run_stages(program, lowering("structure")[1:], program.merged)
    assert memory_curve(program.view, graph)[0][0] > 4e6


# ---- small loops -----------------------------------------------------------------------------------------------


def structured(program: tiduc.Program) -> Any:
    return run_stages(program, lowering("structure")[1:], program.merged)


@pytest.mark.parametrize(("width", "is_kernel"), [(64, True), (256, False)])
def test_small_loops_allocate_nothing(width: int, is_kernel: bool) -> None:
    """A loop is compiled to one kernel, which allocates no memory, only if the arrays of an iteration fit in 64 KiB.

    Here, an iteration computes two arrays of 4 `width`^2 bytes.
    """

    def f(x: Any) -> Any:
        return lax.scan(lambda c, _: (jnp.tanh(c @ c) @ x, None), x, None, 9)[0]

    program = tiduc.load(exported(f, jnp.ones((width, width), jnp.float32)))
    graph = structured(program)
    (loop,) = (op for op in graph.definitions if is_control(op))
    assert is_small(program.view, program.view.graph(loop_body(loop))) is is_kernel
    array = 4 * width * width
    beside = [point[0] - 2 * array for point in memory_curve(program.view, graph)]
    assert (beside[0] < array // 2) is is_kernel


def loop_body(loop: Any) -> str:
    return str(list(loop.attributes["called_computations"])[0].value)


def lstm(monkeypatch: pytest.MonkeyPatch) -> tuple[tiduc.Program, list[Any]]:
    """A program that computes the value and the gradient of the benchmark LSTM, and the arguments of the program."""
    monkeypatch.syspath_prepend(BENCH)
    from functions import FUNCTIONS

    function = FUNCTIONS["lstm"]
    arguments = [np.float32(x) for x in function.arguments(np.random.default_rng(0))]
    text = jax.jit(function.function, keep_unused=True).lower(*arguments).as_text()
    return tiduc.load(text).grad(list(function.wrt), value=True), arguments


def test_lstm_fits_a_third(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a budget of 0.35 times its memory, the LSTM is estimated to take 1.2 to 1.6 times as long.

    It sets as many checkpoints as the square root of its iterations, and runs the forward loop once more.
    """
    program, _ = lstm(monkeypatch)
    loops = loops_of(program)
    free, held = (estimated(program.view, structured(program), memory, loops) for memory in ("", "0.35x"))
    assert held.peak - held.throughout <= 0.35 * (free.peak - free.throughout)
    assert 1.2 < held.time < 1.6


@pytest.mark.slow
def test_lstm_takes_a_third_on_iree(monkeypatch: pytest.MonkeyPatch) -> None:
    program, arguments = lstm(monkeypatch)
    throughout = estimated(program.view, structured(program)).throughout / 1024
    free, held = (
        allocated(one.compile().vmfb, arguments) - throughout
        for one in (program, program.rematerialize("0.35x"))
    )
    assert held <= 0.35 * free


def with_unread_values(seed: int) -> str:
    """A program with a loop or a branch that contains unused ops.

    These ops read values that possibly no other op reads.
    """
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 4))
    outer = [f"  %a{i} = stablehlo.sine %{['u', 'a0', 'a1'][i]} : tensor<3xf64>" for i in range(count)]
    read = int(rng.integers(count))
    unused = "\n".join(
        f"    %unused{i} = stablehlo.multiply %a{i}, %u : tensor<3xf64>"
        for i in range(count)
        if rng.integers(2)
    )
    used = "%k = stablehlo.sine %y : tensor<f64>"
    if rng.integers(2):
        used = f"%s = stablehlo.slice %a{read} [0:1] : (tensor<3xf64>) -> tensor<1xf64>\n    " + (
            "%t = stablehlo.reshape %s : (tensor<1xf64>) -> tensor<f64>\n    "
            "%k = stablehlo.multiply %y, %t : tensor<f64>"
        )
    newline = "\n"
    return f"""func.func @main(%x: tensor<f64>, %u: tensor<3xf64>) -> tensor<f64> {{
{newline.join(outer)}
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %n = stablehlo.constant dense<5> : tensor<i32>
  %r:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<f64>
  cond {{
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }} do {{
{unused}
    {used}
    %z = stablehlo.sine %k : tensor<f64>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %z : tensor<i32>, tensor<f64>
  }}
  return %r#1 : tensor<f64>
}}"""


@pytest.mark.parametrize("seed", range(10))
def test_loops_may_hold_ops_that_no_result_needs(seed: int) -> None:
    """Budgets do not change the results of programs whose loops or branches contain unused ops.

    Values that only unused ops read are computed before the loop, but take no memory during the loop.
    """
    program = tiduc.load(with_unread_values(seed))
    arguments = np.array(0.5), np.array([1.0, 2.0, 3.0])
    for derived in (program, program.grad("x"), program.grad(), program.jvp("x")):
        given = [*arguments, np.array(2.0)][: len(derived.inputs)]
        wanted = derived.compile(engine="reference")(*given)
        for memory in ("min", "0.5x", "1.0x"):
            try:
                values = derived.rematerialize(memory).compile(engine="reference")(*given)
            except RequestError as error:
                assert "the least budget that it fits is" in str(error)
                continue
            for y, y_wanted in zip(values, wanted, strict=True):
                np.testing.assert_array_equal(y, y_wanted)
