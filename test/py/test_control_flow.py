"""Derivatives of loops, branches and calls in both modes, to order two, compared with JAX or central differences."""

import itertools
import re
from collections.abc import Callable, Sequence
from typing import Any

import cases.control_flow_calls  # noqa: F401 (its programs join the table)
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases.control_flow_programs import LONG, PROGRAMS, UNBOUNDED
from cases.control_flow_random import program as random_program
from cases.control_flow_texts import COUNTERS, SAME, TEXTS, UNBOUNDED_TEXTS, counter
from harness import xla
from harness.check_rule import like
from harness.compare import compare
from harness.control_flow_check import Kink, check
from harness.exports import exported, flat, floats
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import tiduc
from tiduc.backends.reference.interpreter import evaluate
from tiduc.dialect.mlir.context import parse
from tiduc.opt import run_pipeline

Array = NDArray[Any]


def by_jax(function: Callable[..., Any], wrt: Sequence[int], count: int) -> Callable[..., Any]:
    """The JVP of the VJP, computed by JAX: (x..., ct..., dx...) -> (y..., cx..., dy..., dcx...)."""

    def call(*values: Any) -> Any:
        n = len(values) - count - len(wrt)
        point, ct, dx = values[:n], values[n : n + count], values[n + count :]

        def of_floats(*floating: Any) -> tuple[Any, ...]:
            placed = dict(zip(wrt, floating, strict=True))
            return flat(function)(*(placed.get(i, x) for i, x in enumerate(point)))

        def both(*floating: Any) -> Any:
            y, pullback = jax.vjp(of_floats, *floating)
            return (*y, *pullback(tuple(ct)))

        primals, tangents = jax.jvp(both, tuple(point[i] for i in wrt), tuple(dx))
        return (*primals, *tangents)

    return call


@pytest.mark.parametrize("name", PROGRAMS)
def test_against_jax(name: str) -> None:
    """The JVP, the VJP and forward over reverse equal JAX's. Reverse over each mode gives equal second derivatives."""
    function, given = PROGRAMS[name]
    run = xla.by_xla if name in LONG else evaluate
    point, wrt = [np.asarray(x) for x in given], floats(given)
    program = tiduc.load(exported(flat(function), *given))
    outputs = run(program.text, point)
    n, k, rng = len(outputs), len(wrt), np.random.default_rng(0)
    dx, ct = [like(point[i], rng) for i in wrt], [like(y, rng) for y in outputs]

    expected = run(exported(by_jax(function, wrt, n), *point, *ct, *dx), [*point, *ct, *dx])
    y, cx, dy, dcx = (expected[i:j] for i, j in itertools.pairwise((0, n, n + k, 2 * n + k, 2 * (n + k))))
    compare(y, outputs)
    vjp, jvp = program.vjp(), program.jvp()
    compare(run(jvp.text, [*point, *dx]), [*y, *dy])
    compare(run(vjp.text, [*point, *ct]), [*y, *cx])
    compare(run(vjp.jvp(wrt).text, [*point, *ct, *dx]), [*y, *cx, *dy, *dcx])
    # The gradient of <ct, dy> = <cx, dx> with respect to x is dcx.
    zeros = [np.zeros_like(x) for x in outputs]
    compare(run(jvp.vjp(wrt).text, [*point, *dx, *zeros, *ct])[2 * n :], dcx)
    compare(run(vjp.vjp(wrt).text, [*point, *ct, *zeros, *dx])[n + k :], dcx)


def narrow(x: Any) -> Array:
    """Converts an argument to JAX's default 32-bit types."""
    kinds = {"f": np.dtype(np.float32), "i": np.dtype(np.int32)}
    return np.asarray(x, kinds.get(np.asarray(x).dtype.kind))


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_against_jax_as_it_exports_by_default(name: str) -> None:
    """Compares forward over reverse with JAX in f32 and with 32-bit induction variables, run by XLA."""
    function, given = PROGRAMS[name]
    point, wrt, rng = [narrow(x) for x in given], floats(given), np.random.default_rng(0)
    program = tiduc.load(jax.jit(flat(function)).lower(*point).as_text())
    outputs = xla.by_xla(program.text, point)
    ct, dx = ([narrow(like(np.float64(x), rng)) for x in xs] for xs in (outputs, [point[i] for i in wrt]))
    derived = jax.jit(by_jax(function, wrt, len(outputs))).lower(*point, *ct, *dx).as_text()
    assert "xi64>" not in derived
    got, expected = (xla.by_xla(text, [*point, *ct, *dx]) for text in (program.vjp().jvp(wrt).text, derived))
    compare(got, expected, 2e-3)


@pytest.mark.parametrize("name", UNBOUNDED)
def test_unbounded(name: str) -> None:
    """Checks derivatives of loops with data-dependent trip counts. JAX cannot differentiate them in reverse mode."""
    function, given = UNBOUNDED[name]
    check(exported(flat(function), *given), *given, subsets=False)


@pytest.mark.parametrize("name", [*TEXTS, *UNBOUNDED_TEXTS])
def test_written(name: str) -> None:
    """Checks derivatives of programs that no front end emits, with respect to each subset of the arguments."""
    text, given = (TEXTS | UNBOUNDED_TEXTS)[name]
    check(text, *given)


@pytest.mark.sampled(20)
@pytest.mark.parametrize("where", ["inside", "outside", "swapped", "argument"])
@pytest.mark.parametrize("case", COUNTERS, ids=str)
def test_counters(case: tuple[Any, ...], where: str) -> None:
    """Checks derivatives of loops that count. If the trip count is a constant, residuals are stacked in its size."""
    *parts, times = case
    text = counter(*parts, where)
    if where == "argument":
        limit = np.asarray(parts[3], parts[0].replace("i", "int"))
        check(text, 0.4, 0.7, limit, subsets=False)
        return
    check(text, 0.4, 0.7, subsets=False)
    stacks = f"tensor<{times}xf64>" in str(tiduc.load(text).vjp())
    assert stacks == (times > 0)


@pytest.mark.parametrize("case", [("i4", 1, 2, 7, "LT", 3), ("ui2", 0, 1, 3, "NE", 3)], ids=str)
def test_counters_of_few_bits(case: tuple[Any, ...]) -> None:
    """Induction variables with few bits give the right trip count. The programs do not return these variables."""
    *parts, times = case
    text = counter(*parts, "inside").replace("-> (!f, !n) {", "-> !f {")
    text = text.replace("return %r#1, %r#0 : !f, !n", "return %r#1 : !f")
    check(text, 0.4, 0.7, subsets=False)
    assert f"tensor<{times}xf64>" in tiduc.load(text).vjp().text


@settings(max_examples=12, derandomize=True, deadline=None, database=None)
@given(st.data(), st.integers(0, 4))
def test_random(data: Any, n: int) -> None:
    text = random_program(lambda count: data.draw(st.integers(0, count - 1)))
    try:
        check(text, 0.43, np.array([0.71, 0.38]), np.int32(n), subsets=False)
    except Kink:
        assume(False)


SMALL = [*TEXTS, *UNBOUNDED_TEXTS]
"""Programs for `test_through_text`: every output depends on an input, because the passes omit zero derivatives."""


@pytest.mark.sampled(20)
@pytest.mark.parametrize("passes", ["tidu-linearize", "tidu-linearize,tidu-linear-transpose"])
@pytest.mark.parametrize("name", [x for x in SMALL if x not in ("arguments_of_calls", "float_counter")])
def test_through_text(name: str, passes: str) -> None:
    """Running the passes one by one, with printing and parsing between them, gives the results of the Python API."""
    text, given = (TEXTS | UNBOUNDED_TEXTS)[name]
    program, point, rng = tiduc.load(text), [np.asarray(x) for x in given], np.random.default_rng(0)
    derived = program.vjp() if "transpose" in passes else program.jvp()
    given_more = (
        [y for y in evaluate(text, point) if y.dtype.kind in "fc"]
        if "transpose" in passes
        else [point[i] for i in floats(point)]
    )
    more = [like(x, rng) for x in given_more]
    for one in ("tidu-import", *passes.split(","), "tidu-materialize-merge", "tidu-structure", "tidu-lower"):
        module = parse(text)
        run_pipeline(module, one)
        text = str(module)
    got, expected = evaluate(text, [*point, *more]), evaluate(derived.text, [*point, *more])
    compare(got, expected, 1e-12)


LAYER = """
func.func private @layer(%x: tensor<f64>) -> tensor<f64> {LINES
  return %y : tensor<f64>
}
func.func @main(%x: tensor<f64>) -> tensor<f64> {
  %0 = call @layer(%x) : (tensor<f64>) -> tensor<f64>
  %1 = call @layer(%0) : (tensor<f64>) -> tensor<f64>
  return %1 : tensor<f64>
}
"""


def test_recursion_is_refused() -> None:
    text = LAYER.replace("LINES", "\n  %y = call @layer(%x) : (tensor<f64>) -> tensor<f64>")
    with pytest.raises(tiduc.Unsupported, match=r"-:3:8: error: the call of @layer is recursive"):
        tiduc.load(text)


def test_a_function_with_a_rule_of_its_own_stays_a_call() -> None:
    """A function with a custom VJP is not inlined into a reducer, so the program is refused.

    The region of a reduction must not contain calls.
    """
    text = """
func.func private @f(%a: tensor<f64>, %b: tensor<f64>) -> tensor<f64> attributes {tidu.vjp = @f_vjp} {
  %0 = stablehlo.add %a, %b : tensor<f64>
  return %0 : tensor<f64>
}
func.func private @f_vjp(%a: tensor<f64>, %b: tensor<f64>, %c: tensor<f64>) -> (tensor<f64>, tensor<f64>) {
  return %c, %c : tensor<f64>, tensor<f64>
}
func.func @main(%x: tensor<3xf64>) -> tensor<f64> {
  %zero = stablehlo.constant dense<0.0> : tensor<f64>
  %0 = stablehlo.reduce(%x init: %zero) across dimensions = [0] : (tensor<3xf64>, tensor<f64>) -> tensor<f64>
    reducer(%a: tensor<f64>, %b: tensor<f64>) {
      %1 = func.call @f(%a, %b) : (tensor<f64>, tensor<f64>) -> tensor<f64>
      stablehlo.return %1 : tensor<f64>
    }
  return %0 : tensor<f64>
}"""
    with pytest.raises(
        tiduc.Unsupported, match=r"-:13:12: error: @f is called in a region of stablehlo.reduce"
    ):
        tiduc.load(text)


def test_inline() -> None:
    """The VJP calls a large function, and inlines it only if `inline=True` is given. The values are equal."""
    lines = "".join(
        f"\n  %{'y' if i == 20 else f'v{i}'} = stablehlo.sine %{f'v{i - 1}' if i else 'x'} : tensor<f64>"
        for i in range(21)
    )
    text = LAYER.replace("LINES", lines)
    program, inlined = tiduc.load(text).vjp(), tiduc.load(text, inline=True).vjp()
    assert program.text.count("call @layer") == 4 and "call" not in inlined.text
    compare(evaluate(program.text, [0.3, 0.7]), evaluate(inlined.text, [0.3, 0.7]), 1e-14)


def layers(count: int) -> tuple[str, list[Array]]:
    """The text of a network whose layers call one function with separate weights, and the network's arguments."""

    @jax.jit
    def layer(x: Any, w: Any, v: Any) -> Any:
        h = jnp.tanh(x @ w) * jax.nn.sigmoid(x @ v)
        return (h - h.mean()) / jnp.sqrt(jnp.var(h) + 1e-5) + x

    def network(x: Any, ws: Any, vs: Any) -> Any:
        for w, v in zip(ws, vs, strict=True):
            x = layer(x, w, v)
        return jnp.sum(x * x)

    rng = np.random.default_rng(0)
    weights = [[rng.normal(size=(4, 4)) for _ in range(count)] for _ in range(2)]
    arguments = rng.normal(size=(3, 4)), *weights
    return exported(network, *arguments), jax.tree.leaves(arguments)


def operations_but_calls(text: str) -> int:
    return sum(" = " in line and "call @" not in line for line in text.splitlines())


@pytest.mark.parametrize("mode", ["jvp", "vjp", "grad", "hvp"])
def test_many_calls_of_a_layer_cost_one(mode: str) -> None:
    """Not counting calls, derivatives of 48 calls of a function have at most twice as many ops as those of one call."""
    texts = {n: getattr(tiduc.load(layers(n)[0]), mode)().text for n in (1, 2, 48)}
    size = {n: operations_but_calls(text) for n, text in texts.items()}
    assert size[48] <= 2 * size[1] and size[48] == size[2], size
    assert texts[48].count("func.func") == texts[2].count("func.func")
    assert texts[48].count("call @") == 24 * texts[2].count("call @")


def test_residuals_of_calls_are_few() -> None:
    """The primal function of a layer returns few residuals, and the VJP is the adjoint of the JVP.

    The residuals are expensive to recompute: a tanh, an exponential and three reductions.
    """
    text, arguments = layers(2)
    program = tiduc.load(text)
    given = re.search(r"@layer.primal\(.*\) -> \((.*)\) {", program.vjp().text)
    assert given is not None and given[1].count("tensor<3x4xf64>") == 3 and given[1].count(",") == 5
    rng = np.random.default_rng(1)
    dx, ct = [like(x, rng) for x in arguments], np.float64(0.7)
    dy, cx = (
        evaluate(program.jvp().text, [*arguments, *dx])[1],
        evaluate(program.vjp().text, [*arguments, ct])[1:],
    )
    compare([ct * dy], [sum(np.sum(c * d) for c, d in zip(cx, dx, strict=True))], 1e-12)


def test_behind_a_barrier_nothing_is_kept() -> None:
    """After an optimization barrier in a loop, values are no residuals.

    The reverse pass recomputes them from the carried value, which is stored in each iteration.
    """
    body = SAME.replace("sine %a", "sine %h").replace(
        "%s =", "%h = stablehlo.optimization_barrier %a : !f\n %s ="
    )
    text = TEXTS["same_body_twice"][0].replace(SAME, body)
    assert text.count("barrier") == 3
    check(text, 0.4, 1.2)
    without, behind_barrier = (
        tiduc.load(x).grad(0).text for x in (_first(TEXTS["same_body_twice"][0]), _first(text))
    )
    assert without.count("dynamic_update_slice") == behind_barrier.count("dynamic_update_slice") == 1
    backwards = [x[x.rindex("stablehlo.while") :] for x in (without, behind_barrier)]
    assert "cosine" not in backwards[0] and "cosine" in backwards[1]


def _first(text: str) -> str:
    """The program without the results of all loops but the first."""
    return text.replace("-> (!f, !f)", "-> !f").replace("return %q#1, %o#1 : !f, !f", "return %r#1 : !f")


ON_IREE = (
    "idle_carries",
    "in_place",
    "captured_condition",
    "triangular",
    "switch_in_loop",
    "scan_stacks",
    "until_norm",
)


SLOW_ON_IREE = "captured_condition", "triangular", "until_norm"


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW_ON_IREE else n for n in ON_IREE]
)
def test_on_iree(name: str) -> None:
    """Forward over reverse gives equal results if compiled by IREE and if run by the interpreter."""
    written = TEXTS | UNBOUNDED_TEXTS
    if name in written:
        text, given = written[name]
    else:
        function, given = (PROGRAMS | UNBOUNDED)[name]
        text = exported(flat(function), *given)
    program, point, rng = tiduc.load(text), [np.asarray(x) for x in given], np.random.default_rng(0)
    wrt = floats(given)
    outputs = [y for y in evaluate(program.text, point) if y.dtype.kind in "fc"]
    both = program.vjp().jvp(wrt)
    point += [like(y, rng) for y in outputs] + [like(point[i], rng) for i in wrt]
    compare(both.compile()(*point), evaluate(both.text, point))


@pytest.mark.parametrize("name", ["newton", pytest.param("until_norm", marks=pytest.mark.slow)])
def test_reverse_over_reverse_on_iree(name: str) -> None:
    """IREE and the interpreter agree on the VJP, and on the VJP of the VJP, of loops with unknown trip counts."""
    function, given = UNBOUNDED[name]
    point, rng = [np.asarray(x) for x in given], np.random.default_rng(0)
    program = tiduc.load(exported(flat(function), *given))
    for derived in (program.vjp(), program.vjp().vjp(floats(given))):
        outputs, program = evaluate(program.text, point), derived
        point += [like(y, rng) for y in outputs]
    compare(program.compile()(*point), evaluate(program.text, point))
