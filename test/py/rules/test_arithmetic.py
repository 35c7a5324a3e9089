"""Derivatives of ops that are linear in all or in some operands, in f64 and complex128."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from harness.check_rule import check_rule, run
from jax import lax

from tiduc.dialect.errors import Unsupported
from tiduc.dialect.mlir.context import parse
from tiduc.loading import load
from tiduc.models.from_jax import from_jax

RNG = np.random.default_rng(0)
REAL, COMPLEX = "tensor<3xf64>", "tensor<3xcomplex<f64>>"


def real(*shape: int) -> Any:
    return RNG.standard_normal(shape or 3)


def complex_(*shape: int) -> Any:
    return real(*shape) + 1j * real(*shape)


def binary(op: str, element: str, operands: str = "%x, %y") -> str:
    t = f"tensor<3x{element}>"
    return f"""
    func.func @main(%x: {t}, %y: {t}) -> {t} {{
      %0 = stablehlo.{op} {operands} : {t}
      return %0 : {t}
    }}"""


def unary(op: str, x: str, y: str, attributes: str = "") -> str:
    return f"""
    func.func @main(%x: {x}) -> {y} {{
      %0 = "stablehlo.{op}"(%x) {{{attributes}}} : ({x}) -> {y}
      return %0 : {y}
    }}"""


@pytest.mark.parametrize("operands", ["%x, %y", "%y, %x", "%x, %x"])
@pytest.mark.parametrize("op", ["add", "divide", "multiply", "subtract"])
def test_real(op: str, operands: str) -> None:
    check_rule(binary(op, "f64", operands), np.array([0.5, -1.3, 2.1]), np.array([1.5, 0.7, -1.1]))


@pytest.mark.parametrize("operands", ["%x, %y", "%y, %x", "%x, %x"])
@pytest.mark.parametrize("op", ["add", "divide", "multiply", "subtract"])
def test_complex(op: str, operands: str) -> None:
    check_rule(binary(op, "complex<f64>", operands), complex_(), complex_() + 3)


@pytest.mark.parametrize(
    ("op", "function"), [("divide", lax.div), ("multiply", lax.mul), ("subtract", lax.sub)]
)
def test_complex_as_jax(op: str, function: Any) -> None:
    check_rule(binary(op, "complex<f64>"), complex_(), complex_() + 3, order=1, jax_function=function)


def test_divide_by_a_constant() -> None:
    text = binary("divide", "complex<f64>").replace(
        "%0 =", f"%c = stablehlo.constant dense<(2.0, -1.0)> : {COMPLEX}\n      %0 ="
    )
    check_rule(text.replace("%x, %y :", "%x, %c :"), complex_(), complex_())


def test_divide_at_the_ends_of_the_range() -> None:
    """The derivative -x / y^2 of x / y toward y is finite even if y^2 overflows or underflows."""
    p = load(binary("divide", "f64")).jvp(1)
    x, y = np.array([1e-200, 1e200, 0.0]), np.array([1e-180, 1e180, 1e-200])
    np.testing.assert_allclose(run(p, [x, y, np.ones(3)])[1], -(x / y) / y, rtol=1e-14)


@pytest.mark.parametrize("op", ["negate", "optimization_barrier"])
@pytest.mark.parametrize(("type_", "x"), [(REAL, real()), (COMPLEX, complex_())])
def test_same_type(op: str, type_: str, x: Any) -> None:
    check_rule(unary(op, type_, type_), x)


PARTS = [
    ("real", COMPLEX, lax.real),
    ("imag", COMPLEX, lax.imag),
    ("real", REAL, None),
    ("imag", REAL, None),
]


@pytest.mark.parametrize(("op", "type_", "function"), PARTS)
def test_parts(op: str, type_: str, function: Any) -> None:
    check_rule(unary(op, type_, REAL), complex_() if type_ == COMPLEX else real(), jax_function=function)


def test_complex_of_parts() -> None:
    text = binary("complex", "f64").replace(f") -> {REAL}", f") -> {COMPLEX}")
    text = text.replace(f"%y : {REAL}", f"%y : {COMPLEX}").replace(f"%0 : {REAL}", f"%0 : {COMPLEX}")
    check_rule(text, real(), real(), jax_function=lax.complex)


# ---- convert -----------------------------------------------------------------------------------------------


def converted(*types: str) -> str:
    """A program that converts its argument to each of these types in turn. The first type is that of the argument."""
    lines = [
        f"%{i} = stablehlo.convert {'%x' if i == 0 else f'%{i - 1}'} : ({a}) -> {b}"
        for i, (a, b) in enumerate(zip(types, types[1:], strict=False))
    ]
    body, last = "\n      ".join(lines), len(types) - 2
    return f"""
    func.func @main(%x: {types[0]}) -> {types[-1]} {{
      {body}
      return %{last} : {types[-1]}
    }}"""


def test_convert_real_to_complex() -> None:
    check_rule(converted(REAL, COMPLEX), real())


def test_convert_complex_to_real() -> None:
    check_rule(converted(COMPLEX, REAL), complex_())


@pytest.mark.parametrize(
    ("wide", "narrow", "x"),
    [(REAL, "tensor<3xf32>", real()), (COMPLEX, "tensor<3xcomplex<f32>>", complex_())],
)
def test_convert_to_less_precision_and_back(wide: str, narrow: str, x: Any) -> None:
    check_rule(converted(wide, narrow, wide), x, differences=False, adjoint_rtol=1e-7)
    p, dx = load(converted(wide, narrow, wide)), np.array([1.0, 2.0, -0.5])
    np.testing.assert_array_equal(run(p.jvp(), [x, dx])[1], dx)


@pytest.mark.parametrize("integer", ["i32", "i1", "ui8"])
def test_convert_to_integers_has_derivative_zero(integer: str) -> None:
    check_rule(converted(REAL, f"tensor<3x{integer}>", REAL), np.array([1.2, 2.3, 3.4]), differences=False)
    p = load(converted(REAL, f"tensor<3x{integer}>", REAL))
    np.testing.assert_array_equal(run(p.vjp(), [np.array([1.2, 2.3, 3.4]), np.ones(3)])[1], np.zeros(3))


# ---- select, remainder, the barrier, reduce_precision ------------------------------------------------------


@pytest.mark.parametrize("predicate", [np.array(True), np.array(False), np.array([True, False, True])])
@pytest.mark.parametrize(("type_", "make"), [(REAL, real), (COMPLEX, complex_)])
def test_select(predicate: Any, type_: str, make: Any) -> None:
    t = "tensor<3xi1>" if predicate.ndim else "tensor<i1>"
    text = f"""
    func.func @main(%p: {t}, %x: {type_}, %y: {type_}) -> {type_} {{
      %0 = stablehlo.select %p, %x, %y : {t}, {type_}
      return %0 : {type_}
    }}"""
    check_rule(text, predicate, make(), make())
    check_rule(text.replace("%p, %x, %y :", "%p, %x, %x :"), predicate, make(), make())


def test_select_hides_infinite_derivatives() -> None:
    """The derivative of select(x > 0, sqrt(x), 0) at 0 is right: it does not compute 0 * inf."""
    text = """
    func.func @main(%x: tensor<f64>) -> tensor<f64> {
      %zero = stablehlo.constant dense<0.0> : tensor<f64>
      %one = stablehlo.constant dense<1.0> : tensor<f64>
      %p = stablehlo.compare GT, %x, %zero : (tensor<f64>, tensor<f64>) -> tensor<i1>
      %safe = stablehlo.select %p, %x, %one : tensor<i1>, tensor<f64>
      %r = stablehlo.sqrt %safe : tensor<f64>
      %y = stablehlo.select %p, %r, %zero : tensor<i1>, tensor<f64>
      return %y : tensor<f64>
    }"""
    for x, expected in ((0.0, 0.0), (4.0, 0.25)):
        assert run(load(text).grad(), [np.array(x)])[0] == expected


def test_remainder_counts_whole_quotients() -> None:
    """The derivative of a remainder toward y uses the exact quotient, truncated to an integer, even if x / y is rounded
    up to an integer.
    """
    x, y = np.array([np.nextafter(6.0, 0), 1.0, -1.0, 5.0]), np.array([2.0, 0.1, 0.1, np.inf])
    text = binary("remainder", "f64").replace("3xf64", "4xf64")
    np.testing.assert_array_equal(run(load(text).jvp(1), [x, y, np.ones(4)])[1], [-2, -9, 9, 0])


def test_remainder_of_complex_values_is_refused() -> None:
    with pytest.raises(Unsupported, match="stablehlo.remainder: the remainder of complex values"):
        load(binary("remainder", "complex<f64>")).jvp()


def test_optimization_barrier_of_several() -> None:
    text = f"""
    func.func @main(%x: {REAL}, %i: tensor<i32>, %y: {COMPLEX}) -> ({REAL}, tensor<i32>, {COMPLEX}) {{
      %0 = stablehlo.sine %x : {REAL}
      %1:3 = stablehlo.optimization_barrier %0, %i, %y : {REAL}, tensor<i32>, {COMPLEX}
      %2 = stablehlo.multiply %1#2, %1#2 : {COMPLEX}
      return %1#0, %1#1, %2 : {REAL}, tensor<i32>, {COMPLEX}
    }}"""
    check_rule(text, real(), np.array(7, np.int32), complex_())
    assert str(load(text).vjp()).count("optimization_barrier") == 2


@pytest.mark.parametrize("bits", [4, 23])
def test_reduce_precision(bits: int) -> None:
    attributes = f"exponent_bits = 8 : i32, mantissa_bits = {bits} : i32"
    check_rule(
        unary("reduce_precision", REAL, REAL, attributes),
        real(),
        differences=False,
        adjoint_rtol=2.0**-bits,
        jax_function=lambda x: lax.reduce_precision(x, 8, bits),
    )


# ---- low precision -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("element", ["bf16", "f16", "f8E4M3FN", "f8E5M2"])
@pytest.mark.parametrize("op", ["add", "divide", "multiply", "remainder", "subtract"])
def test_low_precision_transforms(op: str, element: str) -> None:
    p = load(binary(op, element))
    for q in (p.jvp(), p.vjp(), p.jvp().vjp()):
        assert parse(str(q)).operation.verify()


@pytest.mark.parametrize(
    ("function", "at_zero"),
    [
        (lambda x: jnp.where(x > 0, jnp.log(x), 0.0), 0.0),
        (lambda x: jnp.where(x > 0, jnp.sqrt(x), x), 1.0),
        (lambda x: jnp.where(x == 0, 1.0, jnp.sin(x) / x), 0.0),
        (lambda x: jnp.where(x > 0, 3 * jnp.where(x > 1, 1 / (x - 1), x * jnp.log(x)), -x), -1.0),
        (lambda x: jnp.where(jnp.isinf(1 / x), x, x * jnp.inf), 1.0),
    ],
)
def test_a_branch_that_is_not_chosen_adds_zero(function: Any, at_zero: float) -> None:
    """If the branch that is not selected has an infinite slope, as at 0 here, it adds zero to the gradient.

    JAX's VJP is NaN in this case.
    """
    with jax.enable_x64(True):
        program = from_jax(lambda x: jnp.sum(function(x)), np.zeros(2))
    gradient = program.grad()
    (dx,) = gradient.compile(engine="reference")(np.zeros(2))
    np.testing.assert_array_equal(dx, [at_zero] * 2)
    *_, second = gradient.jvp().compile(engine="reference")(np.zeros(2), np.ones(2))
    np.testing.assert_array_equal(second, [0.0] * 2)
