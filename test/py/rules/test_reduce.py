"""reduce: each reducer, initial values, ties, zeros, and bodies that select by an index."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from harness.check_rule import check_rule, run
from harness.tensors import normal, tensor

from tiduc.dialect.errors import Unsupported
from tiduc.loading import load

RNG = np.random.default_rng(0)
INF = "0xFFF0000000000000"


def text(
    op: str, sizes: tuple[int, ...], dims: list[int], init: str | None = None, element: str = "f64"
) -> str:
    """A program that reduces by one op. The initial value is a constant, or the second argument if `init` is None."""
    x, kept = tensor(sizes, element), tensor(tuple(n for i, n in enumerate(sizes) if i not in dims), element)
    argument = f", %init: tensor<{element}>" if init is None else ""
    constant = "" if init is None else f"%init = stablehlo.constant dense<{init}> : tensor<{element}>"
    return f"""
    func.func @main(%x: {x}{argument}) -> {kept} {{
      {constant}
      %0 = stablehlo.reduce(%x init: %init) applies stablehlo.{op} across dimensions = {dims}
        : ({x}, tensor<{element}>) -> {kept}
      return %0 : {kept}
    }}"""


def random(*sizes: int, element: str = "f64") -> np.ndarray:
    return normal(RNG, sizes, element)


SHAPES = [
    ((3,), [0]), ((1,), [0]), ((0,), [0]), ((2, 3), [1]), ((2, 3, 2), [0, 2]), ((2, 3), []), ((2, 0), [1]),
    ((0, 2), [1]), ((5, 2), [0, 1]), ((7,), [0]), ((), []),
]  # fmt: skip
IDENTITY = {"add": "0.0", "maximum": INF, "minimum": "0x7FF0000000000000", "multiply": "1.0"}


@pytest.mark.sampled(20)
@pytest.mark.parametrize(("sizes", "dims"), SHAPES)
@pytest.mark.parametrize("op", IDENTITY)
def test_shapes(op: str, sizes: tuple[int, ...], dims: list[int]) -> None:
    empty = 0 in [sizes[d] for d in dims]  # then the result is the initial value, which may be infinite
    check_rule(text(op, sizes, dims, IDENTITY[op]), random(*sizes), differences=not empty)
    if dims:  # without dimensions, StableHLO's simplification drops the initial value
        check_rule(text(op, sizes, dims), random(*sizes), random())


@pytest.mark.parametrize("op", ["add", "multiply"])
def test_complex(op: str) -> None:
    x, init = random(2, 3, element="complex"), random(element="complex")
    check_rule(text(op, (2, 3), [1], element="complex<f64>"), x, init)


@pytest.mark.parametrize(("op", "init"), [("maximum", INF), ("minimum", "0x7FF0000000000000")])
def test_ties_share_evenly(op: str, init: str) -> None:
    x = np.array([[1.0, 2, 2], [3, 3, 3], [1, 1, 1], [-1, 0, 0]])
    function = jnp.max if op == "maximum" else jnp.min
    check_rule(
        text(op, (4, 3), [1], init), x, differences=False, jax_function=lambda x: function(x, axis=1), order=2
    )


def test_ties_with_the_initial_value() -> None:
    program = load(text("maximum", (3,), [0]))
    x, init, dx, dinit = np.array([2.0, 1, 2]), np.array(2.0), np.array([3.0, 5, 7]), np.array(11.0)
    _, dy = run(program.jvp(), [x, init, dx, dinit])
    assert dy == pytest.approx((3 + 7 + 11) / 3)
    _, dy = run(program.jvp([0]), [x, init, dx])
    assert dy == pytest.approx((3 + 7) / 3)


@pytest.mark.parametrize("init", [5.0, 0.0])
def test_initial_value_that_decides(init: float) -> None:
    check_rule(text("maximum", (3, 2), [0], str(init)), np.array([[1.0, -1], [2, -2], [3, -3]]))


def test_infinities_stay_out() -> None:
    """Elements -inf get no cotangent from a row with a finite maximum.

    If all elements of a row are -inf, they share the cotangent.
    """
    program = load(text("maximum", (2, 3), [1], INF))
    x = np.array([[-np.inf, 1, -np.inf], [-np.inf] * 3])
    dx = np.arange(6.0).reshape(2, 3)
    _, dy = run(program.jvp(), [x, dx])
    np.testing.assert_array_equal(dy, [1, 4])
    _, cx = run(program.vjp(), [x, np.array([2.0, 3.0])])
    np.testing.assert_array_equal(cx, [[0, 2, 0], [1, 1, 1]])


@pytest.mark.parametrize("zeros", range(4))
def test_product_with_zeros(zeros: int) -> None:
    x = random(5)
    x[:zeros] = 0
    check_rule(text("multiply", (5,), [0], "1.0"), x, jax_function=jnp.prod, order=2)
    check_rule(text("multiply", (5,), [0]), x, np.array(0.0), order=2)


def test_product_of_an_odd_number() -> None:
    for count in range(1, 12):
        check_rule(text("multiply", (count,), [0], "1.0"), random(count), order=1)


ARGMAX = """
func.func @main(%x: tensor<3x4xf64>, %init: tensor<f64>) -> (tensor<3xf64>, tensor<3xi64>) {
  %i = stablehlo.iota dim = 1 : tensor<3x4xi64>
  %c = stablehlo.constant dense<0> : tensor<i64>
  %0:2 = stablehlo.reduce(%x init: %init), (%i init: %c) across dimensions = [1]
    : (tensor<3x4xf64>, tensor<3x4xi64>, tensor<f64>, tensor<i64>) -> (tensor<3xf64>, tensor<3xi64>)
   reducer(%a: tensor<f64>, %b: tensor<f64>) (%m: tensor<i64>, %n: tensor<i64>)  {
    %2 = stablehlo.compare GT, %a, %b, FLOAT : (tensor<f64>, tensor<f64>) -> tensor<i1>
    %3 = stablehlo.compare NE, %a, %a, FLOAT : (tensor<f64>, tensor<f64>) -> tensor<i1>
    %4 = stablehlo.or %2, %3 : tensor<i1>
    %5 = stablehlo.compare EQ, %a, %b, FLOAT : (tensor<f64>, tensor<f64>) -> tensor<i1>
    %6 = stablehlo.compare LT, %m, %n, SIGNED : (tensor<i64>, tensor<i64>) -> tensor<i1>
    %7 = stablehlo.and %5, %6 : tensor<i1>
    %8 = stablehlo.or %4, %7 : tensor<i1>
    %9 = stablehlo.select %4, %a, %b : tensor<i1>, tensor<f64>
    %10 = stablehlo.select %8, %m, %n : tensor<i1>, tensor<i64>
    stablehlo.return %9, %10 : tensor<f64>, tensor<i64>
  }
  return %0#0, %0#1 : tensor<3xf64>, tensor<3xi64>
}"""


def test_argmax() -> None:
    """Derivatives of JAX's export of argmax are right: the tangent of the value is the tangent of the selected
    element.
    """
    x = random(3, 4)
    check_rule(ARGMAX, x, np.array(-9.0))
    check_rule(ARGMAX, x, np.array(0.8))  # the initial value is the result in some rows
    for op in ("maximum", "minimum"):
        body = f"%9 = stablehlo.{op} %a, %b : tensor<f64>"
        check_rule(
            ARGMAX.replace("%9 = stablehlo.select %4, %a, %b : tensor<i1>, tensor<f64>", body),
            x,
            np.array(0.5),
        )


def test_argmax_of_an_index_only() -> None:
    only = ARGMAX.replace("-> (tensor<3xf64>, tensor<3xi64>) {", "-> tensor<3xi64> {", 1)
    only = only.replace("return %0#0, %0#1 : tensor<3xf64>, tensor<3xi64>", "return %0#1 : tensor<3xi64>")
    assert "tensor<3xi64>" in str(load(only.replace("%init: tensor<f64>", "%init: tensor<f64>")).jvp())


SEVERAL = """
func.func @main(
    %x: tensor<2x3xf64>, %y: tensor<2x3xf64>, %n: tensor<2x3xi64>, %p: tensor<f64>, %q: tensor<f64>
) -> (tensor<2xf64>, tensor<2xf64>, tensor<2xi64>) {
  %c = stablehlo.constant dense<0> : tensor<i64>
  %0:3 = stablehlo.reduce(%x init: %p), (%y init: %q), (%n init: %c) across dimensions = [1]
    : (tensor<2x3xf64>, tensor<2x3xf64>, tensor<2x3xi64>, tensor<f64>, tensor<f64>, tensor<i64>)
      -> (tensor<2xf64>, tensor<2xf64>, tensor<2xi64>)
   reducer(%a: tensor<f64>, %b: tensor<f64>) (%c0: tensor<f64>, %d: tensor<f64>)
      (%m: tensor<i64>, %o: tensor<i64>) {
    %2 = stablehlo.add %b, %a : tensor<f64>
    %3 = stablehlo.multiply %c0, %d : tensor<f64>
    %4 = stablehlo.add %m, %o : tensor<i64>
    stablehlo.return %2, %3, %4 : tensor<f64>, tensor<f64>, tensor<i64>
  }
  return %0#0, %0#1, %0#2 : tensor<2xf64>, tensor<2xf64>, tensor<2xi64>
}"""


def test_several_results() -> None:
    check_rule(SEVERAL, random(2, 3), random(2, 3), np.arange(6).reshape(2, 3), random(), random())


@pytest.mark.parametrize("name", ["subtract", "divide", "power"])
def test_refused(name: str) -> None:
    """A reduce by this op is refused, even if the operand is inactive."""
    for wrt in ([0], [1], None):
        with pytest.raises(
            Unsupported, match=rf"jvp AD rule for stablehlo.reduce: its body is one stablehlo.{name}"
        ):
            load(SEVERAL.replace("stablehlo.add %b, %a", f"stablehlo.{name} %b, %a")).jvp(wrt)


def general(
    sizes: tuple[int, ...], dims: list[int], count: int, lines: str, returned: str, elements: str = ""
) -> str:
    """A program that reduces `count` operands by a body of several ops on %a0, %a1, ... and %b0, %b1, ....

    The operands and the initial values are the arguments. Their element types are `elements`, or f64 by default.
    """
    of = elements.split() or ["f64"] * count
    kept = tuple(n for i, n in enumerate(sizes) if i not in dims)
    xs, scalars = [tensor(sizes, e) for e in of], [tensor((), e) for e in of]
    ys, numbers = [tensor(kept, e) for e in of], range(count)
    arguments = [f"%x{i}: {xs[i]}" for i in numbers] + [f"%i{i}: {scalars[i]}" for i in numbers]
    pairs = ", ".join(f"(%x{i} init: %i{i})" for i in numbers)
    body = " ".join(f"(%a{i}: {scalars[i]}, %b{i}: {scalars[i]})" for i in numbers)
    return f"""
    func.func @main({", ".join(arguments)}) -> ({", ".join(ys)}) {{
      %c = stablehlo.constant dense<0.5> : tensor<f64>
      %0:{count} = stablehlo.reduce{pairs} across dimensions = {dims}
        : ({", ".join(xs + scalars)}) -> ({", ".join(ys)})
       reducer{body} {{
        {lines}
        stablehlo.return {returned} : {", ".join(scalars)}
      }}
      return {", ".join(f"%0#{i}" for i in numbers)} : {", ".join(ys)}
    }}"""


S, P = "tensor<f64>", "tensor<i1>"
AFFINE = f"""
%s = stablehlo.multiply %a0, %b0 : {S}
%u = stablehlo.multiply %b0, %a1 : {S}
%t = stablehlo.add %u, %b1 : {S}"""
"""The body of a reduction that composes two maps x -> s x + t, first a and then b.

The order of the elements matters.
"""
LOGSUMEXP = f"""
%m = stablehlo.maximum %a0, %b0 : {S}
%u = stablehlo.subtract %a0, %m : {S}
%v = stablehlo.subtract %b0, %m : {S}
%eu = stablehlo.exponential %u : {S}
%ev = stablehlo.exponential %v : {S}
%p = stablehlo.multiply %a1, %eu : {S}
%q = stablehlo.multiply %b1, %ev : {S}
%s = stablehlo.add %p, %q : {S}"""
WELFORD = f"""
%n = stablehlo.add %a0, %b0 : {S}
%d = stablehlo.subtract %b1, %a1 : {S}
%r = stablehlo.divide %b0, %n : {S}
%dr = stablehlo.multiply %d, %r : {S}
%m = stablehlo.add %a1, %dr : {S}
%dd = stablehlo.multiply %d, %dr : {S}
%w = stablehlo.multiply %dd, %a0 : {S}
%v = stablehlo.add %a2, %b2 : {S}
%q = stablehlo.add %v, %w : {S}"""
SIX = """%u = stablehlo.add %a0, %b0 : tensor<f64>
%v = stablehlo.multiply %a0, %b0 : tensor<f64>
%w = stablehlo.multiply %v, %c : tensor<f64>
%r = stablehlo.add %u, %w : tensor<f64>"""
"""A body that computes x + y + x y / 2 and captures the constant 1/2."""


@pytest.mark.parametrize(("sizes", "dims"), SHAPES)
def test_affine_maps(sizes: tuple[int, ...], dims: list[int]) -> None:
    program = general(sizes, dims, 2, AFFINE, "%s, %t")
    check_rule(program, random(*sizes), random(*sizes), random(), random(), subsets=len(sizes) == 3)


@pytest.mark.parametrize(("lines", "returned"), [(LOGSUMEXP, "%m, %s"), (WELFORD, "%n, %m, %q")])
def test_means_and_sums(lines: str, returned: str) -> None:
    count = returned.count(",") + 1
    point = [random(2, 5) ** 2 for _ in range(count)] + [random() ** 2 for _ in range(count)]
    check_rule(general((2, 5), [1], count, lines, returned), *point, subsets=False)


def test_a_constant_from_outside() -> None:
    program = general((5,), [0], 1, SIX, "%r")
    check_rule(program, random(5), random())
    check_rule(str(load(program).jvp()), random(5), random(), random(5), random(), order=1)


def test_a_value_from_outside() -> None:
    program = general((5,), [0], 1, SIX, "%r").replace("main(", "main(%c: tensor<f64>, ")
    program = program.replace("%c = stablehlo.constant dense<0.5> : tensor<f64>", "")
    point = [random(), random(5), random()]
    _, dy = run(load(program).jvp([1]), [*point, np.ones(5)])
    c, x, init = point
    expected = sum(
        np.prod(np.delete(1 + c * np.append(x, init), i)) for i in range(5)
    )  # the derivative of prod (1 + c x) / c
    assert dy == pytest.approx(expected)
    with pytest.raises(Unsupported, match="its region reads an active value from outside"):
        load(program).jvp([0])


def test_sum_and_index_in_one_body() -> None:
    """Derivatives are right if one body both adds squares in f64 and tracks the index of the largest element in i64."""
    lines = f"""
    %u = stablehlo.power %a0, %c2 : {S}
    %v = stablehlo.power %b0, %c2 : {S}
    %w = stablehlo.add %u, %v : {S}
    %r = stablehlo.sqrt %w : {S}
    %g = stablehlo.compare GE, %a2, %b2 : ({S}, {S}) -> {P}
    %m = stablehlo.select %g, %a2, %b2 : {P}, {S}
    %n = stablehlo.select %g, %a1, %b1 : {P}, tensor<i64>"""
    program = general((2, 4), [1], 3, lines, "%r, %n, %m", "f64 i64 f64").replace("dense<0.5>", "dense<2.0>")
    point = [random(2, 4), np.arange(8).reshape(2, 4), random(2, 4), random(), np.array(-1), random()]
    check_rule(program.replace("%c2", "%c"), *point)


def test_order_three() -> None:
    check_rule(general((3,), [0], 1, SIX, "%r"), random(3), random(), order=3, subsets=False)


@pytest.mark.usefixtures("double_precision")
def test_through_jax() -> None:
    def combine(x: tuple[jax.Array, ...], y: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        (m, s), (n, t) = x, y
        top = jnp.maximum(m, n)
        return top, jnp.where(m == -jnp.inf, 0, s * jnp.exp(m - top)) + t * jnp.exp(n - top)

    def function(x: jax.Array) -> jax.Array:
        m, s = jax.lax.reduce((x, jnp.ones_like(x)), (-jnp.inf, 0.0), combine, [1])
        return m + jnp.log(s)

    x = random(3, 5)
    text = jax.jit(function).lower(x).as_text()
    check_rule(text, x, differences=False, jax_function=lambda x: jax.nn.logsumexp(x, axis=1))
