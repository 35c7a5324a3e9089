"""select_and_scatter: the four comparisons and a body of several ops, with overlapping windows, ties and padding."""

import re

import jax
import numpy as np
import pytest
from harness.check_rule import check_rule, run
from harness.tensors import tensor
from harness.xla import by_xla

from tiduc.dialect.errors import Unsupported
from tiduc.loading import load

RNG = np.random.default_rng(0)

Sizes = tuple[int, ...]
Pads = tuple[tuple[int, int], ...]


def places(size: Sizes, window: Sizes, stride: Sizes, pad: Pads) -> Sizes:
    every = zip(size, window, stride, pad, strict=True)
    return tuple(max((n + lo + hi - k) // s + 1, 0) for n, k, s, (lo, hi) in every)


def text(
    size: Sizes,
    window: Sizes,
    stride: Sizes,
    pad: Pads,
    select: str = "GE",
    scatter: str = "add",
    init: float = 0.0,
) -> str:
    x, y = tensor(size), tensor(places(size, window, stride, pad))
    return f"""
    func.func @main(%x: {x}, %source: {y}) -> {x} {{
      %init = stablehlo.constant dense<{init}> : tensor<f64>
      %c = stablehlo.constant dense<2.0> : tensor<f64>
      %0 = "stablehlo.select_and_scatter"(%x, %source, %init) <{{
        window_dimensions = array<i64: {", ".join(map(str, window))}>,
        window_strides = array<i64: {", ".join(map(str, stride))}>,
        padding = dense<{[list(p) for p in pad]}> : tensor<{len(size)}x2xi64>}}> ({{
      ^bb0(%a: tensor<f64>, %b: tensor<f64>):
        %2 = stablehlo.compare {select}, %a, %b : (tensor<f64>, tensor<f64>) -> tensor<i1>
        stablehlo.return %2 : tensor<i1>
      }}, {{
      ^bb0(%a: tensor<f64>, %b: tensor<f64>):
        %2 = stablehlo.{scatter} %a, %b : tensor<f64>
        stablehlo.return %2 : tensor<f64>
      }}) : ({x}, {y}, tensor<f64>) -> {x}
      return %0 : {x}
    }}"""


CASES = {
    "disjoint": ((6,), (2,), (2,), ((0, 0),)),
    "overlap": ((6,), (3,), (1,), ((0, 0),)),
    "remainder": ((8,), (2,), (3,), ((0, 0),)),
    "pad": ((5,), (3,), (2,), ((1, 1),)),
    "pad_negative": ((6,), (2,), (1,), ((-1, -2),)),
    "unit": ((1,), (1,), (1,), ((0, 0),)),
    "empty_source": ((2,), (3,), (1,), ((0, 0),)),
    "two": ((4, 5), (2, 3), (2, 1), ((0, 1), (1, 1))),
}


@pytest.mark.sampled(8)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("select", ["GE", "LE", "GT", "LT"])
def test_random_values(select: str, case: tuple[Sizes, Sizes, Sizes, Pads]) -> None:
    check_rule(text(*case, select), RNG.standard_normal(case[0]), RNG.standard_normal(places(*case)))


@pytest.mark.parametrize("select", ["GE", "LE", "GT", "LT"])
@pytest.mark.parametrize("name", ["disjoint", "overlap", "pad", "two"])
def test_ties(name: str, select: str) -> None:
    """At ties, the transpose reads the cotangents of the elements to which the op scatters."""
    case = CASES[name]
    x = RNG.integers(0, 2, case[0]).astype(np.float64)
    program = load(text(*case, select))
    source, ct = RNG.standard_normal(places(*case)), RNG.standard_normal(case[0])
    expected = np.zeros(source.shape)
    for o in np.ndindex(*source.shape):
        one = np.zeros(source.shape)
        one[o] = 1
        expected[o] = np.sum(ct * run(program, [x, one])[0])
    _, cx = run(program.vjp([1]), [x, source, ct])
    np.testing.assert_allclose(cx, expected, atol=1e-14)


def test_against_jax() -> None:
    size, window, stride, pad = CASES["overlap"]

    def function(x: jax.Array, source: jax.Array) -> jax.Array:
        pooled = jax.vjp(lambda x: jax.lax.reduce_window(x, -np.inf, jax.lax.max, window, stride, pad), x)[1]
        return pooled(source)[0]  # type: ignore[no-any-return]

    x = np.array([1.0, 2, 2, 2, 0, 0])
    source = RNG.standard_normal(places(size, window, stride, pad))
    check_rule(text(size, window, stride, pad), x, source, differences=False, jax_function=function)


def test_selection_by_several_ops() -> None:
    """Derivatives are right if several ops select the element, here by the distance from 2.

    MLIR's folder moves the constant 2 out of the region.
    """
    source = text(*CASES["overlap"]).replace(
        "%2 = stablehlo.compare GE, %a, %b",
        """%d = stablehlo.subtract %a, %c : tensor<f64>
        %e = stablehlo.subtract %b, %c : tensor<f64>
        %f = stablehlo.abs %d : tensor<f64>
        %g = stablehlo.abs %e : tensor<f64>
        %2 = stablehlo.compare LT, %f, %g""",
    )
    check_rule(source, RNG.standard_normal(6) + 2, RNG.standard_normal(4))


def test_initial_value() -> None:
    check_rule(text(*CASES["overlap"], init=0.7), RNG.standard_normal(6), RNG.standard_normal(4))


def with_argument(program: str) -> str:
    return program.replace(", %source:", ", %t: tensor<f64>, %source:")


@pytest.mark.sampled(8)
@pytest.mark.parametrize(("scatter", "init"), [("multiply", 1.0), ("maximum", -9.0), ("minimum", 9.0)])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_scatters(scatter: str, init: float, case: tuple[Sizes, Sizes, Sizes, Pads]) -> None:
    program = text(*case, scatter=scatter, init=init)
    check_rule(program, RNG.standard_normal(case[0]), RNG.standard_normal(places(*case)), subsets=False)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["overlap", "empty_source"])
@pytest.mark.parametrize("scatter", ["add", "multiply", "maximum"])
def test_active_initial_value(scatter: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Derivatives with respect to the initial value are right on XLA, which adds this value once.

    The reference interpreter adds it for each source.
    """
    monkeypatch.setattr("harness.check_rule.chosen", lambda text: by_xla)
    case = CASES[name]
    program = with_argument(text(*case, scatter=scatter)).replace("(%x, %source, %init)", "(%x, %source, %t)")
    point = [RNG.standard_normal(case[0]), np.array(0.3), RNG.standard_normal(places(*case))]
    check_rule(program, *point, order=1, subsets=False)


def test_scatter_by_several_ops() -> None:
    source = text(*CASES["overlap"]).replace(
        "%2 = stablehlo.add %a, %b : tensor<f64>",
        """%3 = stablehlo.add %a, %b : tensor<f64>
        %4 = stablehlo.multiply %a, %b : tensor<f64>
        %2 = stablehlo.add %3, %4 : tensor<f64>""",
    )
    check_rule(source, RNG.standard_normal(6), RNG.standard_normal(4))


def test_long_window() -> None:
    case = ((60,), (40,), (4,), ((3, 2),))
    check_rule(text(*case), RNG.standard_normal(60), RNG.standard_normal(places(*case)), order=1)


def test_selection_by_a_value_from_outside() -> None:
    """Derivatives are right if the selection depends on a captured value, here a limit that the selected element
    exceeds.

    They are refused with respect to that value.
    """
    outside = with_argument(text(*CASES["overlap"])).replace("compare GE, %a, %b", "compare GE, %a, %t")
    x, source, ct = RNG.standard_normal(6), *RNG.standard_normal((2, 4))
    program = load(outside)
    dx = RNG.standard_normal(4)
    y, dy = run(program.jvp([2]), [x, np.array(0.2), source, dx])
    np.testing.assert_allclose(dy, run(program, [x, np.array(0.2), dx])[0])
    ct = RNG.standard_normal(6)
    _, cx = run(program.vjp([2]), [x, np.array(0.2), source, ct])
    assert np.vdot(cx, dx) == pytest.approx(np.vdot(ct, dy))
    with pytest.raises(Unsupported, match="its region reads an active value"):
        program.vjp([1])


def test_scalars_without_attributes_of_windows() -> None:
    """A select_and_scatter of a scalar without window attributes is right.

    Its only window has one element by default.
    """
    plain = re.sub(r"<\{.*?\}> ", "", text((), (), (), ()), flags=re.DOTALL)
    check_rule(plain, np.array(2.0), np.array(3.0))
    np.testing.assert_array_equal(load(plain).compile()(np.array(2.0), np.array(3.0)), [3.0])


def test_refused() -> None:
    outside = with_argument(text(*CASES["overlap"], scatter="maximum"))
    outside = outside.replace("compare GE, %a, %b", "compare GE, %a, %t")
    with pytest.raises(Unsupported, match="select_and_scatter: a region of it reads a value from outside"):
        load(outside).jvp([2])
