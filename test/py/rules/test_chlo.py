"""The elementwise functions of CHLO, one row for each op, and the ops that are StableHLO ops with broadcasting."""

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from harness.check_rule import check_rule, run
from harness.tensors import one_op
from harness.xla import by_xla
from jax import lax

from tiduc.dialect.errors import Unsupported
from tiduc.dialect.mlir.context import parse
from tiduc.loading import load

REAL, COMPLEX, SCALAR = "tensor<3xf64>", "tensor<3xcomplex<f64>>", "tensor<f64>"


def program(op: str, *types: str, result: str | None = None, attributes: str = "") -> str:
    return one_op(f"chlo.{op}", *types, result=result, attributes=attributes)


UNARY: dict[str, tuple[list[float], Any]] = {
    "acos": ([-0.6, 0.1, 0.7], lax.acos),
    "acosh": ([1.3, 2.0, 4.1], lax.acosh),
    "asin": ([-0.6, 0.1, 0.7], lax.asin),
    "asinh": ([-1.3, 0.1, 2.7], lax.asinh),
    "atan": ([-1.3, 0.1, 2.7], lax.atan),
    "atanh": ([-0.6, 0.1, 0.7], lax.atanh),
    "bessel_i1e": ([-1.3, 0.4, 7.1], lax.bessel_i1e),
    "conj": ([-1.3, 0.1, 2.7], None),
    "cosh": ([-1.3, 0.1, 2.7], lax.cosh),
    "digamma": ([0.6, 1.1, 2.7], lax.digamma),
    "erf": ([-1.3, 0.1, 1.7], lax.erf),
    "erf_inv": ([-0.6, 0.1, 0.7], lax.erf_inv),
    "erfc": ([-1.3, 0.1, 1.7], lax.erfc),
    "lgamma": ([0.6, 1.1, 2.7], lax.lgamma),
    "sinh": ([-1.3, 0.1, 2.7], lax.sinh),
    "square": ([-1.3, 0.0, 2.7], lax.square),
    "tan": ([-1.3, 0.1, 2.7], lax.tan),
}
"""For each op, three points away from singularities, and the corresponding function of JAX."""

PLANE = np.array([-1.1 + 0.6j, 0.3 - 0.8j, -0.9 - 0.2j, 0.9 + 0.2j])
"""Complex points in the four quadrants, away from branch cuts."""

HOLOMORPHIC = ["acos", "acosh", "asin", "asinh", "atan", "atanh", "cosh", "sinh", "square", "tan"]


@pytest.mark.parametrize("op", UNARY)
def test_unary(op: str) -> None:
    point, function = UNARY[op]
    check_rule(program(op, REAL), np.array(point), rtol=1e-6, jax_function=function)


@pytest.mark.parametrize("op", [*HOLOMORPHIC, "conj"])
def test_unary_complex(op: str) -> None:
    check_rule(program(op, COMPLEX.replace("3x", "4x")), PLANE)


CUTS = {"acos": 2.0, "acosh": -2.0, "asin": -2.0, "atanh": 3.0}


@pytest.mark.parametrize("op", CUTS)
@pytest.mark.parametrize("side", [1, -1])
def test_along_a_branch_cut(op: str, side: int) -> None:
    """On a branch cut, the sign of a zero part selects the side of the cut, both for the value and for the
    derivative.
    """
    text = program(op, COMPLEX.replace("3x", "1x"))
    near, on = (np.array([complex(CUTS[op], side * e)]) for e in (1e-9, 0.0))
    value, slope = run(load(text).jvp(), [on, np.array([1 + 0j])])
    beside, expected = run(load(text).jvp(), [near, np.array([1 + 0j])])
    if np.allclose(value, beside):
        np.testing.assert_allclose(slope, expected, rtol=1e-6)


# ---- two operands ------------------------------------------------------------------------------------------


def test_polygamma() -> None:
    text = program("polygamma", SCALAR, SCALAR)
    for n in (0.0, 1.0, 3.0):
        p = load(text)
        _, slope = run(p.jvp(1), [np.array(n), np.array(1.7), np.array(1.0)])
        (expected,) = run(p, [np.array(n + 1), np.array(1.7)])
        np.testing.assert_allclose(slope, expected, rtol=1e-12)


def test_zeta() -> None:
    text = """
    func.func @main(%q: tensor<3xf64>) -> tensor<3xf64> {
      %s = chlo.constant dense<[2.0, 3.5, 5.0]> : tensor<3xf64>
      %y = "chlo.zeta"(%s, %q) : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xf64>
      return %y : tensor<3xf64>
    }"""
    check_rule(text, np.array([0.6, 1.1, 2.7]), rtol=1e-6)


@pytest.mark.parametrize("op", ["polygamma", "broadcast_polygamma"])
def test_no_derivative_toward_the_order_of_polygamma(op: str) -> None:
    with pytest.raises(Unsupported, match="it has no derivative in its order, which is an integer"):
        load(program(op, REAL, REAL)).jvp(0)


def test_zeta_of_both() -> None:
    s, q = np.array([1.7, 2.5, 4.0]), np.array([0.7, 2.3, 4.4])
    for op in ("zeta", "broadcast_zeta"):
        check_rule(program(op, REAL, REAL), s, q, rtol=1e-6, order=2 if op == "zeta" else 1)


ZETA = [  # s, q, and the derivative toward s, computed with 40 digits
    (1.001, 1.0, -999999.9271940662),
    (1.5, 0.01, 4601.2305426586),
    (10.0, 7.7, -4.183992692185137e-9),
    (60.0, 3.0, -2.5916072539154487e-29),
    (5.0, 1e4, -2.365545647555729e-16),
]


@pytest.mark.parametrize(("s", "q", "expected"), ZETA)
def test_zeta_toward_its_exponent(s: float, q: float, expected: float) -> None:
    slope = run(load(program("zeta", SCALAR, SCALAR)).jvp(0), [np.array(s), np.array(q), np.array(1.0)])[1]
    np.testing.assert_allclose(slope, expected, rtol=2e-14)


BESSEL = [  # x and the derivative at x, computed with 40 digits
    (0.0, 0.5),
    (1e-5, 0.49999000009374944),
    (-1.5, 0.0023679633526155525),
    (19.999, -0.0021013723749698154),
    (20.0, -0.002101221407627077),
    (-1e4, -1.9944869852852436e-7),
    (np.inf, 0.0),
]


@pytest.mark.parametrize(("x", "expected"), BESSEL)
def test_bessel_i1e(x: float, expected: float) -> None:
    slope = run(load(program("bessel_i1e", SCALAR)).jvp(), [np.array(x), np.array(1.0)])[1]
    np.testing.assert_allclose(slope, expected, rtol=2e-14)


def test_bessel_i1e_at_its_kink() -> None:
    """The second derivative of bessel_i1e at 0, where it jumps from 1 to -1, is the mean 0, as in JAX."""
    assert run(load(program("bessel_i1e", SCALAR)).grad().grad(), [np.array(0.0)])[0] == 0


def test_bessel_i1e_of_complex_values() -> None:
    with pytest.raises(Unsupported, match="it has a derivative for real operands only"):
        load(program("bessel_i1e", "tensor<complex<f64>>")).jvp()


@pytest.mark.parametrize("op", ["next_after", "broadcast_next_after"])
def test_next_after(op: str) -> None:
    """The derivative of next_after is 1 toward the first operand and 0 toward the second one."""
    check_rule(program(op, REAL, REAL), np.array([0.3, -2.0, 7.0]), np.array([1.0, -5.0, 7.5]))


# ---- at the ends of the domain -----------------------------------------------------------------------------

ENDS = {  # op: x, derivative at x
    "acosh": (1.0, np.inf),
    "asin": (1.0, np.inf),
    "erf": (1e200, 0.0),
    "erf_inv": (1.0, np.inf),
    "square": (0.0, 0.0),
}


@pytest.mark.parametrize("op", ENDS)
def test_ends(op: str) -> None:
    x, expected = ENDS[op]
    assert run(load(program(op, SCALAR)).jvp(), [np.array(x), np.array(1.0)])[1] == expected


def test_asin_near_one() -> None:
    """The derivative of asin near 1 is accurate. Computing 1 - x^2 in the usual way would lose half of the digits."""
    x = 1 - 2.0**-40
    slope = run(load(program("asin", SCALAR)).jvp(), [np.array(x), np.array(1.0)])[1]
    np.testing.assert_allclose(slope, 1 / np.sqrt(2.0**-40 * (2 - 2.0**-40)), rtol=1e-14)


# ---- broadcasting forms ------------------------------------------------------------------------------------

BROADCAST = ["add", "atan2", "divide", "maximum", "minimum", "multiply", "power", "subtract"]
SHAPES = [
    ((3,), (3,), ""),
    ((2, 3), (3,), ""),
    ((), (2, 3), ""),
    ((2, 1), (1, 3), ""),
    ((3,), (2, 3), "array<i64: 1>"),
]


@pytest.mark.sampled(9)
@pytest.mark.parametrize(("left", "right", "dimensions"), SHAPES)
@pytest.mark.parametrize("op", BROADCAST)
def test_broadcast(op: str, left: tuple[int, ...], right: tuple[int, ...], dimensions: str) -> None:
    rng = np.random.default_rng(3)
    result = (2, 3) if len({left, right}) > 1 else left
    types = [f"tensor<{''.join(f'{n}x' for n in shape)}f64>" for shape in (left, right, result)]
    attributes = f"broadcast_dimensions = {dimensions}" if dimensions else ""
    text = program(f"broadcast_{op}", *types[:2], result=types[2], attributes=attributes)
    check_rule(text, rng.uniform(0.5, 2, left), rng.uniform(0.5, 2, right))


@pytest.mark.parametrize("op", ["multiply", "divide", "power"])
def test_broadcast_complex(op: str) -> None:
    text = program(f"broadcast_{op}", COMPLEX.replace("3x", ""), COMPLEX, result=COMPLEX)
    check_rule(text, np.array(0.7 + 0.4j), PLANE[1:])


def test_broadcast_complex_of_parts() -> None:
    check_rule(
        program("broadcast_complex", SCALAR, REAL, result=COMPLEX), np.array(0.7), np.array([0.1, -0.4, 2.0])
    )


def test_broadcast_remainder() -> None:
    check_rule(program("broadcast_remainder", REAL, SCALAR), np.array([7.1, -5.5, 0.4]), np.array(2.0))


def tangent(text: str, *point: Any) -> Any:
    """The tangent of the program's result.

    The result itself is not computed, because MLIR cannot expand the op here.
    """
    p = load(text).jvp()
    return run(replace(p, outputs=p.outputs[1:]), list(map(np.asarray, point)))[0]


@pytest.mark.parametrize("predicate", [np.array(True), np.array([True, False, True])])
def test_broadcast_select(predicate: Any) -> None:
    types = ["tensor<3xi1>" if predicate.ndim else "tensor<i1>", REAL, SCALAR]
    text = program("broadcast_select", *types, result=REAL)
    dx, dy = np.array([0.1, -0.4, 2.0]), np.array(1.3)
    np.testing.assert_array_equal(tangent(text, predicate, dx, dy, dx, dy), np.where(predicate, dx, dy))
    assert "stablehlo.reduce" in str(load(text).vjp())


def test_broadcast_along_a_leading_dimension() -> None:
    text = program(
        "broadcast_multiply",
        "tensor<2xf64>",
        "tensor<2x3xf64>",
        result="tensor<2x3xf64>",
        attributes="broadcast_dimensions = array<i64: 0>",
    )
    (x, dx), (y, dy) = np.random.default_rng(0).random((2, 2)), np.random.default_rng(1).random((2, 2, 3))
    expected = x[:, None] * dy + dx[:, None] * y
    np.testing.assert_allclose(tangent(text, x, y, dx, dy), expected, rtol=1e-14)


# ---- inactive, refused, low precision ----------------------------------------------------------------------


def test_constant_like_does_not_vary() -> None:
    check_rule(program("constant_like", REAL, attributes="value = 2.5 : f64"), np.array([0.1, -0.4, 2.0]))


@pytest.mark.sampled(17)
@pytest.mark.parametrize("element", ["bf16", "f16", "f8E4M3FN"])
@pytest.mark.parametrize("op", UNARY)
def test_low_precision_transforms(op: str, element: str) -> None:
    p = load(program(op, f"tensor<3x{element}>"))
    for q in (p.jvp(), p.vjp(), p.jvp().vjp()):
        assert parse(str(q)).operation.verify()


@pytest.mark.parametrize(("element", "name"), [("bf16", "bfloat16"), ("f16", "float16")])
def test_low_precision_computes(element: str, name: str) -> None:
    """In low-precision types, the tangents of all ops equal those in f64 up to the resolution of the type.

    XLA runs all ops as one program.
    """
    low, ops = np.dtype(getattr(ml_dtypes, name, name)), sorted({*UNARY} - {"conj"})

    def tangents(element: str, dtype: Any) -> list[Any]:
        t = f"tensor<3x{element}>"
        lines = [f'%y{i} = "chlo.{op}"(%x{i}) : ({t}) -> {t}' for i, op in enumerate(ops)]
        lines.append(f'%yz = "chlo.zeta"(%s, %q) : ({t}, {t}) -> {t}')
        text = f"""
        func.func @main({", ".join(f"%x{i}: {t}" for i in range(len(ops)))}, %s: {t}, %q: {t})
            -> ({", ".join([t] * len(lines))}) {{
          {chr(10).join(lines)}
          return {", ".join(line.split()[0] for line in lines)} : {", ".join([t] * len(lines))}
        }}"""
        points = [*(UNARY[op][0] for op in ops), [1.5, 2.5, 4.0], [0.7, 2.3, 4.4]]
        x = [np.array(point).astype(low).astype(dtype) for point in points]
        results = by_xla(str(load(text).jvp()), [*x, *(np.ones_like(v) for v in x)])[len(lines) :]
        return [np.asarray(y).astype(np.float64) for y in results]

    tolerance = 4 * float(ml_dtypes.finfo(low).eps)
    for op, actual, exact in zip([*ops, "zeta"], tangents(element, low), tangents("f64", "f8"), strict=True):
        np.testing.assert_allclose(actual, exact, rtol=tolerance, atol=tolerance, err_msg=op)
