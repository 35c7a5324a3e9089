"""Tests residuals of loops: stored for all iterations ("stack"), or recomputed from few checkpoints ("sqrt", "log")."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases.control_flow_texts import UNBOUNDED_TEXTS
from cases.loop_gradients import MEMORIES, Array, grad, random, scanned, stacks
from harness import xla
from harness.compare import compare
from harness.exports import exported
from jax import lax
from jax.experimental import io_callback

import tiduc
from tiduc.backends.reference.interpreter import evaluate


def counted(n: int) -> tuple[Callable[..., Any], list[Array]]:
    def f(x: Any, w: Any) -> Any:
        return jnp.sum(lax.fori_loop(0, n, lambda i, c: jnp.sin(c * w) + 0.01 * i * x, x))

    return f, random((3,), (3,))


def two_carries(n: int) -> tuple[Callable[..., Any], list[Array]]:
    def f(x: Any, a: Any) -> Any:
        c = lax.fori_loop(2, n + 2, lambda i, c: (a @ c[1] + i, jnp.tanh(c[0]) * c[1]), (x, x * x))
        return jnp.sum(c[0] * c[1])

    return f, random((2,), (2, 2))


def nested(n: int) -> tuple[Callable[..., Any], list[Array]]:
    def f(x: Any, a: Any) -> Any:
        def outer(i: Any, c: Any) -> Any:
            return lax.fori_loop(0, 4, lambda j, d: jnp.tanh(a @ d) + 0.1 * j * c, c)

        return jnp.sum(lax.fori_loop(0, n, outer, x))

    return f, random((2,), (2, 2))


def hoisted(n: int) -> tuple[Callable[..., Any], list[Array]]:
    """A loop-invariant inner loop, whose trip count differs from that of the outer loop."""

    def f(x: Any, w: Any) -> Any:
        def outer(i: Any, c: Any) -> Any:
            return jnp.sin(lax.fori_loop(0, 3, lambda j, d: jnp.sin(d) * w, x)) + 0.1 * c

        return jnp.sum(lax.fori_loop(0, n, outer, x))

    return f, random((2,), (2,))


PROGRAMS = {
    **{f"counted {n}": counted(n) for n in (0, 1, 2, 17, 1000)},
    **{f"two carries {n}": two_carries(n) for n in (1, 6)},
    "nested": nested(5),
    "scanned": scanned(7),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_same_numbers(name: str) -> None:
    function, arguments = PROGRAMS[name]
    program = tiduc.load(exported(function, *arguments))
    with jax.enable_x64(True):
        wanted = jax.jit(jax.grad(function, (0, 1)))(*arguments)
    run = xla.by_xla if "1000" in name else evaluate  # not for long loops, because `evaluate` is slow
    for memory in MEMORIES:
        compare(run(replace(program.grad(), loop_memory=memory).text, arguments), wanted)


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("make", [two_carries, hoisted])
def test_second_order(make: Any, memory: str) -> None:
    function, arguments = make(6)
    program = replace(tiduc.load(exported(function, *arguments)), loop_memory=memory)
    dx = random(*(x.shape for x in arguments))
    with jax.enable_x64(True):
        along = jax.jit(lambda x, dx: jax.jvp(jax.grad(function, (0, 1)), x, dx)[1])
        wanted = along(tuple(arguments), tuple(dx))
    compare(evaluate(program.hvp().text, [*arguments, *dx]), wanted)
    compare(evaluate(program.grad().vjp().text, [*arguments, *dx])[2:], wanted)


# ---- sizes of residuals ------------------------------------------------------------------------------------


def forwards(text: str) -> str:
    """The text before the body of the first loop. It has the types of this loop's carried values."""
    return text.partition("do {")[0]


def test_cheap_values_are_recomputed() -> None:
    """The VJP of a scan of tanh(c x) + x stores two residuals per iteration, but no x and no induction variable."""

    def f(xs: Any) -> Any:
        return lax.scan(lambda c, x: (jnp.tanh(c * x) + x, None), jnp.ones(2), xs)[0].sum()

    text = grad(f, random((7, 2)), "stack")
    assert stacks(forwards(text), 7) == ["tensor<7x2xf64>"] * 2
    assert text.count("stablehlo.tanh") == 1


def test_values_of_fewest_bytes_are_kept() -> None:
    """Products of one wide value are recomputed. The wide value is stacked once."""

    def f(x: Any, w: Any) -> Any:
        def body(i: Any, c: Any) -> Any:
            wide = jnp.exp(jnp.broadcast_to(c[:, None], (2, 50)) * w)
            return c * jnp.sum(wide * wide, 1) / (1 + jnp.sum(wide, 1))

        return lax.fori_loop(0, 7, body, x).sum()

    kept = stacks(forwards(grad(f, random((2,), (50,)), "stack")), 7)
    assert [t for t in kept if "x2x50x" in t] == ["tensor<7x2x50xf64>"]  # neither wide w nor the products


def test_loop_invariants_are_hoisted() -> None:
    """The loop invariants exp(w) and its products in sin(c) exp(w) y are hoisted in both modes."""

    def f(x: Any, w: Any, y: Any) -> Any:
        return jnp.sum(lax.fori_loop(0, 7, lambda i, c: jnp.sin(c) * jnp.exp(w) * y, x))

    arguments = random((5,), (5,), ())
    program = tiduc.load(exported(f, *arguments))
    jvp, gradient = program.jvp().text, program.grad().text
    body = jvp.rpartition("do {")[2].partition("stablehlo.return")[0]
    assert body.count("stablehlo.multiply") == 7 and "exponential" not in body  # 8 if exp(w) dw were inside
    after = gradient.rpartition("stablehlo.return")[2]
    assert "stablehlo.multiply" in after
    carried = re.findall(r"stablehlo.while\(.*\) : (.*)", gradient)[-1].split(", ")
    assert carried.count("tensor<f64>") == 1 and carried.count("tensor<5xf64>") == 2  # y's sum is a scalar
    with jax.enable_x64(True):
        wanted = jax.jit(jax.grad(f, (0, 1, 2)))(*arguments)
    compare(evaluate(gradient, arguments), wanted)


def test_products_of_matrices_are_kept() -> None:
    """The residuals of tanh(a @ c) are c and one other value: the tangent's factor or the product."""
    assert stacks(forwards(grad(*scanned(7), "stack")), 7) == ["tensor<7x2xf64>"] * 2


def test_checkpoints_are_few() -> None:
    text = grad(*counted(100), "sqrt")
    assert not stacks(text, 100)
    assert set(stacks(text, 11)) == {"tensor<11x3xf64>"}  # ten checkpoints, and an unused row
    assert set(stacks(text, 10)) == {"tensor<10x3xf64>"}  # the residuals of one segment
    text = grad(*counted(100), "log")
    # The rows are a checkpoint of the start, one for each bisection, and an unused row.
    assert not stacks(text, 100) and "tensor<9x3xf64>" in text


@pytest.mark.parametrize("most", [1, 2, 7, 8])
def test_checkpoints_of_loops_that_end_early(most: int) -> None:
    """Loops with an induction variable and a second condition need no additional checkpoints."""

    def steps(x: Any, stop: Any, n: int) -> Any:
        for _ in range(n):
            x = jnp.sin(x) * 0.5 + x
        return x

    def f(x: Any, stop: Any) -> Any:
        def going(c: Any) -> Any:
            return (jnp.abs(c[1]) < stop) & lax.gt(np.int32(most), c[0])

        return lax.while_loop(going, lambda c: (c[0] + 1, steps(c[1], stop, 1)), (np.int32(0), x))[1]

    program = tiduc.load(exported(f, np.float64(0.3), np.float64(0.0)))
    first, second = program.grad([0]).text, program.grad([0]).grad([0]).text
    assert f"tensor<{most.bit_length() + 2}xf64>" in first and "tensor<34x" not in first + second
    for n in range(most + 1):
        with jax.enable_x64(True):
            stop = np.inf if n == most else float(steps(0.3, None, n))
            wanted = [jax.grad(steps)(0.3, None, n), jax.grad(jax.grad(steps))(0.3, None, n)]
        got = [evaluate(text, [np.float64(0.3), np.float64(stop)])[0] for text in (first, second)]
        np.testing.assert_allclose(got, wanted, rtol=1e-12)


@pytest.mark.parametrize("memory", ["sqrt", "log"])
def test_checkpoints_are_few_at_order_two(memory: str) -> None:
    """Neither reverse over reverse nor `hvp`, whose loop is in forward mode, stacks values of all iterations."""
    function, arguments = counted(100)
    program = replace(tiduc.load(exported(function, *arguments)), loop_memory=memory)
    for twice in (program.grad().vjp(), program.hvp()):
        assert not stacks(twice.text, 100)
    assert stacks(replace(program, loop_memory="stack").grad().vjp().text, 100)


def test_large_stacks_need_a_request() -> None:
    function, _ = counted(100_000)
    arguments = random((1000,), (1000,))
    assert stacks(grad(function, arguments, "stack"), 100_000)
    assert not stacks(grad(function, arguments), 100_000)


@pytest.mark.parametrize("sum_", ["%i, %one", "%one, %i"])
def test_induction_variables_are_never_stored(sum_: str) -> None:
    """The increment may be either operand of the addition."""
    text = f"""func.func @main(%x: tensor<f64>) -> tensor<f64> {{
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %r:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<f64> cond {{
        %ten = stablehlo.constant dense<10> : tensor<i32>
        %p = stablehlo.compare LT, %i, %ten : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %p : tensor<i1>
      }} do {{
        %one = stablehlo.constant dense<1> : tensor<i32>
        %j = stablehlo.add {sum_} : tensor<i32>
        %f = stablehlo.convert %i : (tensor<i32>) -> tensor<f64>
        %z = stablehlo.multiply %y, %f : tensor<f64>
        stablehlo.return %j, %z : tensor<i32>, tensor<f64>
      }}
      return %r#1 : tensor<f64>
    }}"""
    program = replace(tiduc.load(text), loop_memory="stack").grad()
    assert not stacks(program.text, 10)
    assert evaluate(program.text, [np.array(1.0)]) == (0.0,)


# ---- attributes of loops -----------------------------------------------------------------------------------


def said(attributes: str) -> str:
    """The text of a loop with these attributes. It has n iterations c = sin(c) x, where c is x initially."""
    return f"""
func.func @main(%x: tensor<f64>, %n: tensor<i32>) -> tensor<f64> {{
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %0:2 = stablehlo.while(%i = %zero, %c = %x) : tensor<i32>, tensor<f64> attributes {{{attributes}}} cond {{
    %1 = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }} do {{
    %1 = stablehlo.add %i, %one : tensor<i32>
    %2 = stablehlo.sine %c : tensor<f64>
    %3 = stablehlo.multiply %2, %x : tensor<f64>
    stablehlo.return %1, %3 : tensor<i32>, tensor<f64>
  }}
  return %0#1 : tensor<f64>
}}"""


BOUNDED = "tidu.max_trip_count = 8 : i64"


def by_hand(n: int, order: int = 2) -> list[float]:
    """The loop's derivatives up to an order, computed by formula."""

    def f(x: Any) -> Any:
        c = x
        for _ in range(n):
            c = jnp.sin(c) * x
        return c

    derivatives = [f]
    for _ in range(order):
        derivatives.append(jax.grad(derivatives[-1]))
    with jax.enable_x64(True):
        return [float(g(0.7)) for g in derivatives[1:]]


@pytest.mark.parametrize("memory", MEMORIES)
def test_bounded(memory: str) -> None:
    """Derivatives are right up to the bound on a loop's trip count. Beyond it, they are NaN, except with "log"."""
    program = replace(tiduc.load(said(BOUNDED)), loop_memory=memory)
    first, second = program.grad().text, program.grad().grad().text
    for n in (0, 1, 5, 8):
        got = [evaluate(text, [np.float64(0.7), np.int32(n)])[0] for text in (first, second)]
        np.testing.assert_allclose(got, by_hand(n), rtol=1e-12)
    beyond = [evaluate(text, [np.float64(0.7), np.int32(9)])[0] for text in (first, second)]
    np.testing.assert_allclose(beyond, by_hand(9) if memory == "log" else [np.nan, np.nan], rtol=1e-12)


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("varies", [True, False])
def test_bounded_in_a_loop(memory: str, varies: bool) -> None:
    """Derivatives of a bounded loop in a loop are right, or NaN beyond the bound, also if it is loop-invariant."""

    def f(x: Any) -> Any:
        def until(c: Any) -> Any:
            return lax.while_loop(lambda d: jnp.sum(d * d) < 3.0, lambda d: d * 1.4 + 0.1 * jnp.sin(d), c)

        return jnp.sum(lax.fori_loop(0, 3, lambda i, c: jnp.sin(until(c if varies else x)) * x, x))

    arguments = random((2,))
    text = exported(f, *arguments)
    gradient = tiduc.load(text).grad()
    for bound in (9, 1):
        bounded = re.sub(
            r"(while\(.*\) : .*)", rf"\1 attributes {{tidu.max_trip_count = {bound} : i64}}", text
        )
        program = replace(tiduc.load(bounded), loop_memory=memory)
        for derived, other in ((program.grad(), gradient), (program.grad().vjp(), gradient.vjp())):
            given = [*arguments, *arguments][: len(derived.inputs)]
            (*_, got), (*_, wanted) = (evaluate(x.text, given) for x in (derived, other))
            compare([got], [wanted if bound == 9 or memory == "log" else np.full(2, np.nan)])


def test_gradient_of_a_written_gradient() -> None:
    """The gradient of a loop with unknown trip count has nested loops with unknown trip counts."""
    program = tiduc.load(tiduc.load(said("")).grad().text)
    for n in (0, 1, 5, 17):
        got = evaluate(program.grad().text, [np.float64(0.7), np.int32(n)])[0]
        np.testing.assert_allclose(got, by_hand(n)[1], rtol=1e-12)


def test_bound_stays_in_text() -> None:
    program = tiduc.load(tiduc.load(said(BOUNDED)).grad().text)
    got = evaluate(program.grad().text, [np.float64(0.7), np.int32(5)])[0]
    np.testing.assert_allclose(got, by_hand(5)[1], rtol=1e-12)


@pytest.mark.parametrize(
    ("attributes", "memory"), [("", "auto"), *((BOUNDED, memory) for memory in MEMORIES)]
)
def test_third_order(attributes: str, memory: str) -> None:
    """Reverse over reverse over reverse, with and without a bound on the trip count."""
    program = replace(tiduc.load(said(attributes)), loop_memory=memory)
    text = program.grad().grad().grad().text
    for n in (0, 1, 2, 8):
        got = evaluate(text, [np.float64(0.7), np.int32(n)])[0]
        np.testing.assert_allclose(got, by_hand(n, 3)[2], rtol=1e-11)


def test_the_loop_overrides() -> None:
    text = said('tidu.max_trip_count = 100 : i64, tidu.loop_memory = "sqrt"')
    program = replace(tiduc.load(text), loop_memory="stack")
    assert not stacks(program.grad().text, 100)
    with pytest.raises(tiduc.TiducError, match="stack, sqrt, log, auto"):
        _ = tiduc.load(said('tidu.loop_memory = "much"')).grad().text


@pytest.mark.parametrize("bound", ["-3 : i64", "9000000000 : i64", '"many"', "3.0 : f32"])
def test_invalid_bounds(bound: str) -> None:
    with pytest.raises(tiduc.RequestError, match=r"-:5:10: error: tidu.max_trip_count must be an integer"):
        _ = tiduc.load(said(f"tidu.max_trip_count = {bound}")).grad().text


def test_iterations_that_cannot_be_counted() -> None:
    """A loop of 3,000,000,000 iterations has a JVP, but reverse mode is refused, because trip counts have 32 bits."""
    text = said("").replace("i32", "i64").replace("%1 = stablehlo.compare LT, %i, %n", "LIMIT %i, %m")
    limit = "%m = stablehlo.constant dense<3000000000> : tensor<i64>\n    %1 = stablehlo.compare LT,"
    program = tiduc.load(text.replace("LIMIT", limit))
    assert program.jvp().text.count("stablehlo.while") == 1
    for memory in MEMORIES:
        with pytest.raises(tiduc.Unsupported, match=r"-:\d+:\d+: error: a loop of 3000000000 iterations"):
            _ = replace(program.grad(), loop_memory=memory).text


def test_effects_are_not_repeated() -> None:
    """A loop with side effects is not recomputed: "stack" has one call, and "sqrt" and "log" are refused."""
    call = "%k = stablehlo.custom_call @host(%i) {has_side_effect = true} : (tensor<i32>) -> tensor<i32>"
    factor = f"{call}\n    %f = stablehlo.convert %k : (tensor<i32>) -> tensor<f64>"
    text = said(BOUNDED).replace("%2 = stablehlo.sine %c", f"{factor}\n    %2 = stablehlo.multiply %c, %f")
    kept = replace(tiduc.load(text), loop_memory="stack").grad().text
    assert kept.count("@host") == 1
    for memory in ("sqrt", "log"):
        with pytest.raises(tiduc.Unsupported, match="or has effects, cannot be recomputed from checkpoints"):
            _ = replace(tiduc.load(text), loop_memory=memory).grad().text


def test_tokens_are_carried() -> None:
    """A loop that carries and returns a token, which is how JAX exports ordered effects."""

    def f(x: Any) -> Any:
        def body(i: Any, c: Any) -> Any:
            n = io_callback(lambda: np.int32(2), jax.ShapeDtypeStruct((), np.int32), ordered=True)
            return c * n

        return lax.fori_loop(0, 3, body, x)

    program = tiduc.load(exported(f, *random(())))
    for derived in (program.jvp(), program.vjp()):
        assert derived.text.count("ffi_python_cpu_callback") == 1


def test_dynamic_carries_have_forward_mode_only() -> None:
    """Stacks need loop-carried values of static shape. Reverse mode is refused; the error names the op."""
    text = said("").replace("tensor<f64>", "tensor<?xf64>")
    assert "stablehlo.while" in tiduc.load(text).jvp().text
    refusal = r"-:5:10: error: .* rule for stablehlo.while: .* make shapes static .*, or use forward mode"
    for memory in MEMORIES:
        for counter in ("%n", "%three"):
            limited = text.replace("%one =", "%three = stablehlo.constant dense<3> : tensor<i32>\n  %one =")
            limited = limited.replace("%i, %n", f"%i, {counter}")
            with pytest.raises(tiduc.Unsupported, match=refusal.replace(":5:", ":6:")):
                _ = replace(tiduc.load(limited).vjp(), loop_memory=memory).text


def test_recomputed_calls_share_their_function() -> None:
    """A loop's body is lowered for values, from checkpoints, and for residuals; all three call one @power."""
    text = tiduc.load(UNBOUNDED_TEXTS["captured_condition"][0]).vjp().text
    assert sorted(re.findall(r"private @(\S+?)\(", text)) == ["power", "power.jvp.transpose"]
