"""`tidu.root`: the derivatives of a function that solves an equation need one linear solve, and equal the derivatives
of the loop that solves it.
"""

from collections.abc import Callable

import numpy as np
import pytest
from harness import xla
from harness.compare import compare

from tiduc.dialect.errors import ParseError, Unsupported
from tiduc.loading import load
from tiduc.program import Program

V, M = "tensor<2xf64>", "tensor<2x1xf64>"
ROOT = " attributes {tidu.root = @f}"
FIXED_POINT = f"""
func.func @main(%a: tensor<f64> {{tidu.name = "a"}}, %b: {V} {{tidu.name = "b"}}) -> {V} {{
  %0 = call @solve(%a, %b) : (tensor<f64>, {V}) -> {V}
  %1 = stablehlo.multiply %0, %0 : {V}
  return %1 : {V}
}}
func.func private @solve(%a: tensor<f64>, %b: {V}) -> {V}{ROOT} {{
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %y0 = stablehlo.constant dense<0.5> : {V}
  %r:2 = stablehlo.while(%i = %zero, %y = %y0) : tensor<i32>, {V}
  cond {{
    %n = stablehlo.constant dense<60> : tensor<i32>
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }} do {{
    %one = stablehlo.constant dense<1> : tensor<i32>
    %j = stablehlo.add %i, %one : tensor<i32>
    %g = func.call @g(%a, %b, %y) : (tensor<f64>, {V}, {V}) -> {V}
    stablehlo.return %j, %g : tensor<i32>, {V}
  }}
  return %r#1 : {V}
}}
func.func private @g(%a: tensor<f64>, %b: {V}, %y: {V}) -> {V} {{
  %s = stablehlo.sine %y : {V}
  %rev = stablehlo.reverse %s, dims = [0] : {V}
  %w = stablehlo.broadcast_in_dim %a, dims = [] : (tensor<f64>) -> {V}
  %p = stablehlo.multiply %w, %rev : {V}
  %q = stablehlo.add %p, %b : {V}
  return %q : {V}
}}
func.func private @f(%a: tensor<f64>, %b: {V}, %y: {V}) -> {V} {{
  %g = call @g(%a, %b, %y) : (tensor<f64>, {V}, {V}) -> {V}
  %d = stablehlo.subtract %g, %y : {V}
  return %d : {V}
}}
"""
"""A function of two inputs that solves y = a sin(y reversed) + b by iteration."""

LINEAR = f"""
func.func @main(%a: tensor<f64> {{tidu.name = "a"}}, %b: {M} {{tidu.name = "b"}}) -> ({M}, tensor<f64>) {{
  %0:2 = call @solve(%a, %b) : (tensor<f64>, {M}) -> ({M}, tensor<f64>)
  return %0#0, %0#1 : {M}, tensor<f64>
}}
func.func private @solve(%a: tensor<f64>, %b: {M}) -> ({M}, tensor<f64>){ROOT} {{
  %c = stablehlo.broadcast_in_dim %a, dims = [] : (tensor<f64>) -> {M}
  %y = stablehlo.divide %b, %c : {M}
  %z = stablehlo.constant dense<0.0> : tensor<f64>
  %s = stablehlo.reduce(%y init: %z) applies stablehlo.add across dimensions = [0, 1]
    : ({M}, tensor<f64>) -> tensor<f64>
  return %y, %s : {M}, tensor<f64>
}}
func.func private @f(%a: tensor<f64>, %b: {M}, %y: {M}, %t: tensor<f64>) -> ({M}, tensor<f64>) {{
  %c = stablehlo.broadcast_in_dim %a, dims = [] : (tensor<f64>) -> {M}
  %p = stablehlo.multiply %c, %y : {M}
  %r = stablehlo.subtract %p, %b : {M}
  %z = stablehlo.constant dense<0.0> : tensor<f64>
  %s = stablehlo.reduce(%y init: %z) applies stablehlo.add across dimensions = [0, 1]
    : ({M}, tensor<f64>) -> tensor<f64>
  %q = stablehlo.subtract %t, %s : tensor<f64>
  return %r, %q : {M}, tensor<f64>
}}
"""
"""A function that solves a y = b and t = sum y. Its two results have different shapes."""

DERIVATIVES: dict[str, Callable[[Program], Program]] = {
    "jvp": lambda p: p.jvp(),
    "vjp": lambda p: p.vjp(),
    "vjp in one input": lambda p: p.vjp(["b"]),
    "jvp of jvp": lambda p: p.jvp().jvp(["a", "b"]),
    "jvp of vjp": lambda p: p.vjp().jvp(["a", "b"]),
    "vjp of vjp": lambda p: p.vjp().vjp(["a", "b"]),
    "vjp of jvp": lambda p: p.jvp().vjp(["a", "b"]),
    "jet": lambda p: p.jet(3),
    "jacobian": lambda p: p.jacobian(mode="forward").jvp(["a", "b"]),
}


def check(text: str, derivative: str) -> None:
    """Asserts that derivatives by `tidu.root` equal the derivatives of the ops that solve the equation."""
    implicit, explicit = (DERIVATIVES[derivative](load(each)) for each in (text, text.replace(ROOT, "")))
    draw = np.random.default_rng(3).standard_normal
    arguments = [np.array(0.4), np.array([0.4, 0.9]).reshape(implicit.inputs[1].type.shape)]
    arguments += [draw(port.type.shape) for port in implicit.inputs[2:]]
    compare(xla.by_xla(implicit.text, arguments), xla.by_xla(explicit.text, arguments), 1e-11)


@pytest.mark.parametrize("derivative", ["vjp", "jvp of vjp"])
def test_a_fixed_point(derivative: str) -> None:
    check(FIXED_POINT, derivative)


@pytest.mark.more
@pytest.mark.parametrize("text", [FIXED_POINT, LINEAR])
@pytest.mark.parametrize("derivative", DERIVATIVES)
def test_derivatives_are_those_of_the_ops(text: str, derivative: str) -> None:
    check(text, derivative)


def test_the_derivative_does_not_differentiate_the_iteration() -> None:
    text = load(FIXED_POINT).vjp().text
    main = text.partition("func.func private")[0]
    assert "getrf" in main and main.count("call @solve") == 1
    assert "tidu.root = @f" in text and load(text).jvp(["a"]).text


def test_an_equation_with_conjugates() -> None:
    """Derivatives are right for the equation f = c conj(y) - x = 0, although f is not holomorphic in y.

    The solution is y = conj(x / c).
    """
    text = """
func.func @main(%x: tensor<2xcomplex<f64>>, %c: tensor<2xcomplex<f64>>) -> tensor<2xcomplex<f64>> {
  %y = call @solve(%x, %c) : (tensor<2xcomplex<f64>>, tensor<2xcomplex<f64>>) -> tensor<2xcomplex<f64>>
  return %y : tensor<2xcomplex<f64>>
}
func.func private @solve(%x: tensor<2xcomplex<f64>>, %c: tensor<2xcomplex<f64>>) -> tensor<2xcomplex<f64>>
    attributes {tidu.root = @f} {
  %q = stablehlo.divide %x, %c : tensor<2xcomplex<f64>>
  %y = chlo.conj %q : tensor<2xcomplex<f64>> -> tensor<2xcomplex<f64>>
  return %y : tensor<2xcomplex<f64>>
}
func.func private @f(%x: tensor<2xcomplex<f64>>, %c: tensor<2xcomplex<f64>>, %y: tensor<2xcomplex<f64>>)
    -> tensor<2xcomplex<f64>> {
  %k = chlo.conj %y : tensor<2xcomplex<f64>> -> tensor<2xcomplex<f64>>
  %p = stablehlo.multiply %c, %k : tensor<2xcomplex<f64>>
  %r = stablehlo.subtract %p, %x : tensor<2xcomplex<f64>>
  return %r : tensor<2xcomplex<f64>>
}
"""
    rng = np.random.default_rng(0)
    x, c, dx, dc = rng.standard_normal((4, 2)) + 1j * rng.standard_normal((4, 2))
    y, dy = xla.by_xla(load(text).jvp().text, [x, c, dx, dc])
    np.testing.assert_allclose(y, np.conj(x / c), rtol=1e-14)
    np.testing.assert_allclose(dy, np.conj(dx / c - x * dc / c**2), rtol=1e-12)
    ct = rng.standard_normal(2) + 1j * rng.standard_normal(2)
    program = load(text).vjp()
    _, cx, cc = xla.by_xla(program.text, [x, c, ct])
    along = np.vdot(cx, dx) + np.vdot(cc, dc)
    np.testing.assert_allclose(along.real, np.vdot(ct, dy).real, rtol=1e-12)


@pytest.mark.more
def test_on_iree_in_f64_against_differences() -> None:
    program = load(FIXED_POINT)
    values = program.compile()
    gradient = program.vjp().compile()
    a, b, ct = np.array(0.4), np.array([0.4, 0.9]), np.array([1.0, -0.5])
    _, da, db = gradient(a, b, ct)
    step = 1e-6

    def along(ta: float, tb: list[float]) -> float:
        up, down = (values(a + s * ta, b + s * np.array(tb))[0] for s in (step, -step))
        return float(np.dot(ct, up - down) / (2 * step))

    expected = [along(1.0, [0.0, 0.0]), along(0.0, [1.0, 0.0]), along(0.0, [0.0, 1.0])]
    np.testing.assert_allclose([da, *db], expected, rtol=1e-8)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("tidu.root = @f", "tidu.root = @none", "which is not a function here"),
        ("tidu.root = @f", "tidu.root = @main", "the tidu.root of @solve, has the type"),
        ("tidu.root = @f", "tidu.root = @f, tidu.jvp = @f", "has both tidu.jvp and tidu.root"),
    ],
)
def test_what_import_refuses(old: str, new: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        load(FIXED_POINT.replace(old, new))


def test_a_residual_that_no_result_determines_is_refused() -> None:
    """A residual that depends on no result is refused, because its Jacobian is singular.

    A derivative of zero would be wrong.
    """
    constant = FIXED_POINT.replace("return %d : tensor<2xf64>", "return %b : tensor<2xf64>")
    assert constant != FIXED_POINT
    with pytest.raises(Unsupported, match="a residual of @f does not depend on the results"):
        load(constant).jvp(["a"])


def test_an_empty_result_has_no_equation() -> None:
    y, e = "tensor<f64>", "tensor<0xf64>"
    text = f"""
    func.func @main(%a: {y}) -> {y} {{
      %0:2 = call @cube_root(%a) : ({y}) -> ({y}, {e})
      return %0#0 : {y}
    }}
    func.func private @cube_root(%a: {y}) -> ({y}, {e}){ROOT} {{
      %0 = stablehlo.cbrt %a : {y}
      %1 = stablehlo.constant dense<> : {e}
      return %0, %1 : {y}, {e}
    }}
    func.func private @f(%a: {y}, %y: {y}, %e: {e}) -> ({y}, {e}) {{
      %0 = stablehlo.multiply %y, %y : {y}
      %1 = stablehlo.multiply %0, %y : {y}
      %2 = stablehlo.subtract %1, %a : {y}
      return %2, %e : {y}, {e}
    }}"""
    implicit, explicit = (load(each).vjp().text for each in (text, text.replace(ROOT, "")))
    arguments = [np.array(0.4), np.array(1.0)]
    compare(xla.by_xla(implicit, arguments), xla.by_xla(explicit, arguments), 1e-12)


def test_half_precision_is_refused() -> None:
    with pytest.raises(ParseError, match="of static shape and of one type: f32, f64 or complex"):
        load(FIXED_POINT.replace("f64", "f16"))
