"""Tests `tidu.solver` and `tidu.linear_solve`, by which derivatives solve linear systems by Krylov methods.

The derivatives are compared with dense solves and with differentiated loops. Some programs are imported from
`jax.lax.custom_linear_solve` and `jax.lax.custom_root`.
"""

import importlib.util
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import test_root
from harness.check_rule import run
from harness.compare import compare
from harness.xla import by_xla
from numpy.typing import NDArray

import tiduc
from tiduc.dialect.errors import ParseError
from tiduc.loading import load
from tiduc.program import Program

Array = NDArray[Any]
ROOT, SOLVED = test_root.ROOT, ' attributes {tidu.root = @f, tidu.solver = {method = "METHOD"}}'
EXAMPLES = Path(__file__).parents[2] / "examples"


def linear(size: int, options: str, element: str = "f64") -> str:
    """A program whose function `@solve` declares that it solves A x = b.

    The function returns b instead, but its derivatives are computed from the declared system.
    """
    v, m = f"tensor<{size}x{element}>", f"tensor<{size}x{size}x{element}>"
    return f"""
func.func @main(%a: {m} {{tidu.name = "a"}}, %b: {v} {{tidu.name = "b"}}) -> {v} {{
  %0 = call @solve(%b, %a) : ({v}, {m}) -> {v}
  return %0 : {v}
}}
func.func private @solve(%b: {v}, %a: {m}) -> {v} attributes {{tidu.linear_solve = @system{options}}} {{
  return %b : {v}
}}
func.func private @system(%x: {v}, %a: {m}) -> {v} {{
  %0 = stablehlo.dot_general %a, %x, contracting_dims = [1] x [0] : ({m}, {v}) -> {v}
  return %0 : {v}
}}
"""


def method(name: str) -> str:
    return f', tidu.solver = {{method = "{name}"}}'


# ---- roots ---------------------------------------------------------------------------------------------------


def check(text: str, derivative: str, name: str) -> None:
    """Compares derivatives by the Krylov method `name` with derivatives of the loop that solves the equation."""
    derive = test_root.DERIVATIVES[derivative]
    solved = text.replace(ROOT, SOLVED.replace("METHOD", name))
    implicit, explicit = derive(load(solved)), derive(load(text.replace(ROOT, "")))
    draw = np.random.default_rng(3).standard_normal
    arguments = [np.array(0.4), np.array([0.4, 0.9]).reshape(implicit.inputs[1].type.shape)]
    arguments += [draw(port.type.shape) for port in implicit.inputs[2:]]
    assert "getrf" not in implicit.text
    compare(by_xla(implicit.text, arguments), by_xla(explicit.text, arguments), 1e-12)


def test_a_root_in_reverse_mode() -> None:
    check(test_root.FIXED_POINT, "vjp", "gmres")


@pytest.mark.more
@pytest.mark.parametrize("text", [test_root.FIXED_POINT, test_root.LINEAR])
@pytest.mark.parametrize("name", ["gmres", "bicgstab"])
@pytest.mark.parametrize("derivative", test_root.DERIVATIVES)
def test_roots(derivative: str, name: str, text: str) -> None:
    check(text, derivative, name)


@pytest.mark.more
def test_on_iree() -> None:
    """The JVP of a VJP that was printed and parsed gives the derivatives of the loop, on IREE."""
    solved = test_root.FIXED_POINT.replace(ROOT, SOLVED.replace("METHOD", "gmres"))
    arguments = [np.array(0.4), np.array([0.4, 0.9])]
    ct, dx = np.array([1.0, -0.5]), [np.array(0.3), np.array([0.2, -1.0])]
    derived = load(load(solved).vjp(["a", "b"]).text).jvp(["a", "b"])
    loops = load(test_root.FIXED_POINT.replace(ROOT, "")).vjp(["a", "b"]).jvp(["a", "b"])
    compare(derived.compile()(*arguments, ct, *dx), by_xla(loops.text, [*arguments, ct, *dx]), 1e-10)


@pytest.mark.more
def test_a_batch_of_roots() -> None:
    solved = test_root.FIXED_POINT.replace(ROOT, SOLVED.replace("METHOD", "gmres"))
    texts = [
        load(text).vjp(["b"]).batch({"b": 0, "result0.cotangent": 0}, 3).text
        for text in (solved, test_root.FIXED_POINT.replace(ROOT, ""))
    ]
    draw = np.random.default_rng(4).random
    arguments = [np.array(0.4), draw((3, 2)), draw((3, 2))]
    compare(*(by_xla(text, arguments) for text in texts), 1e-12)


# ---- methods -------------------------------------------------------------------------------------------------

RNG = np.random.default_rng(0)


def matrices(n: int) -> dict[str, Array]:
    q = RNG.standard_normal((n, n))
    equal = q.copy()
    equal[0] = equal[1]
    return {
        "dominant": q / 6 + 30 * np.eye(n),
        "definite": q @ q.T + np.eye(n),
        "random": q,
        "skew": q - q.T,
        "a permutation": np.roll(np.eye(n), 1, 0),
        "tiny": (q / 9 + 2 * np.eye(n)) * 1e-30,
        "huge": (q / 9 + 2 * np.eye(n)) * 1e30,
        "the identity": np.eye(n),
        "singular": equal,
    }


OF_METHOD = {
    "gmres": set(matrices(4)) - {"singular"},
    "bicgstab": {"dominant", "definite", "tiny", "huge", "the identity"},
    "cg": {"definite", "the identity"},
}
"""The matrices for which each method must find the solution. For others, it may return NaN, but not a wrong result."""


@pytest.mark.more
@pytest.mark.parametrize("name", OF_METHOD)
def test_methods(name: str) -> None:
    n = 100
    program = load(linear(n, method(name))).vjp(["b"])
    for which, a in matrices(n).items():
        ct = RNG.standard_normal(n)
        for scale in (1.0, 1e-200):
            (_, x) = by_xla(program.text, [a, np.zeros(n), scale * ct])
            error = np.linalg.norm(a.T @ (x / scale) - ct) / np.linalg.norm(ct)
            assert error < 1e-12 or (np.isnan(x).all() and which not in OF_METHOD[name]), which


@pytest.mark.more
@pytest.mark.parametrize("element", ["f32", "complex<f32>", "complex<f64>"])
def test_element_types(element: str) -> None:
    n, is_complex = 12, element.startswith("complex")
    dtype = np.dtype({"f32": "f4", "complex<f32>": "c8", "complex<f64>": "c16"}[element])
    a, ct = RNG.standard_normal((n, n)) + 6 * np.eye(n), RNG.standard_normal(n)
    a = (a + 1j * RNG.standard_normal((n, n)) if is_complex else a).astype(dtype)
    ct = (ct + 1j * RNG.standard_normal(n) if is_complex else ct).astype(dtype)
    program = load(linear(n, "", element)).vjp(["b"])
    (_, x) = by_xla(program.text, [a, np.zeros(n, dtype), ct])
    wanted = np.linalg.solve(a.conj().T.astype(np.complex128), ct.astype(np.complex128))
    np.testing.assert_allclose(
        x, wanted, rtol=0, atol=1e-4 if dtype.itemsize // (1 + is_complex) == 4 else 1e-13
    )


@pytest.mark.more
def test_options() -> None:
    """With two iterations and a tolerance of 1e-3, a simple system is solved, and the result of a hard one is NaN."""
    options = ', tidu.solver = {method = "gmres", tolerance = 1.0e-3 : f64, iterations = 2 : i64}'
    program = load(linear(5, options)).vjp(["b"])
    assert "tensor<2x5xf64>" in program.text  # the two basis vectors of gmres
    good, bad = np.diag([1.0, 1, 2, 2, 2]), np.diag([1.0, 9, -30, 50, 3])
    for a, is_good in ((good, True), (bad, False)):
        (_, x) = run(program, [a, np.zeros(5), np.ones(5)])
        assert np.allclose(a.T @ x, 1, atol=1e-2) if is_good else np.isnan(x).all()


def test_a_symmetric_system_names_itself() -> None:
    text = linear(3, ", tidu.transpose_solve = @solve")
    derived = load(text).vjp(["b"]).text
    assert derived.count("call @solve(") == 2 and "while" not in derived


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (method("none"), "expects a dictionary with a method, one of cg, bicgstab, gmres"),
        (method("lu"), "expects a dictionary with a method"),
        (', tidu.solver = "gmres"', "expects a dictionary with a method"),
        (', tidu.solver = {method = "cg", restart = 3 : i64}', "expects a dictionary with a method"),
        (', tidu.solver = {method = "cg", tolerance = 0.0 : f64}', "above 0"),
        (", tidu.transpose_solve = @none", "expects a function of this module, and tidu.linear_solve"),
        (", tidu.transpose_solve = @main", "has another type"),
        (", tidu.root = @system", "has both tidu.root and tidu.linear_solve"),
    ],
)
def test_what_import_refuses(options: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        load(linear(3, options))


def test_a_system_of_another_type_is_refused() -> None:
    with pytest.raises(ParseError, match="the tidu.linear_solve of @solve, has the type"):
        load(linear(3, "").replace("tidu.linear_solve = @system", "tidu.linear_solve = @main"))
    text = linear(3, "").replace("f64> attributes", "f64> {", 1)
    assert "{ {" in text
    swapped = re.sub(r"@solve\(%b: (\S+), %a: (\S+)\)", r"@solve(%a: \2, %b: \1)", linear(3, ""))
    with pytest.raises(ParseError, match="whose first arguments have the types of its results"):
        load(
            swapped.replace(
                "call @solve(%b, %a) : (tensor<3xf64>, tensor<3x3xf64>)",
                "call @solve(%a, %b) : (tensor<3x3xf64>, tensor<3xf64>)",
            )
        )


# ---- from JAX ------------------------------------------------------------------------------------------------


def _by_cg(a: Any, b: Any) -> Any:
    return jax.scipy.sparse.linalg.cg(lambda x: a @ (a.T @ x) + 9 * x, b, tol=1e-14)[0]


def _by_bicgstab(a: Any, b: Any) -> Any:
    return jax.scipy.sparse.linalg.bicgstab(lambda x: a @ x + 9 * x, b, tol=1e-14)[0]


def _by_gmres(a: Any, b: Any) -> Any:
    return jax.scipy.sparse.linalg.gmres(lambda x: a @ x + 9 * x, b, tol=1e-14)[0]


def _by_matrix(a: Any, b: Any) -> Any:
    """Solves (a + 9 I) x = b by a direct method, whose ops are differentiated."""
    return jnp.linalg.solve(a + 9 * jnp.eye(6), b)


def _root(tangent_solve: Callable[..., Any]) -> Callable[..., Any]:
    def call(a: Any, b: Any) -> Any:
        def solve(f: Any, y: Any) -> Any:
            return jax.lax.fori_loop(0, 100, lambda _, y: f(y) + y, y)

        return jax.lax.custom_root(lambda y: jnp.tanh(a @ y) / 9 + b * b - y, b, solve, tangent_solve)

    return call


SOLVERS: dict[str, Callable[..., Any]] = {
    "cg": _by_cg,
    "bicgstab": _by_bicgstab,
    "gmres": _by_gmres,
    "a matrix": _by_matrix,
    "a root by a matrix": _root(lambda g, y: jnp.linalg.solve(jax.jacobian(g)(y), y)),
    "a root by gmres": _root(lambda g, y: jax.scipy.sparse.linalg.gmres(g, y, tol=1e-13)[0]),
}


def _reference(name: str, a: Any, b: Any) -> Any:
    """The result of the solver `name`, computed by a direct method with a matrix.

    JAX cannot transpose the derivative of a root if gmres computes its tangents.
    """
    if "root" in name:
        return SOLVERS["a root by a matrix"](a, b)
    matrix = a @ a.T if name == "cg" else a
    return jnp.linalg.solve(matrix + 9 * jnp.eye(6), b)


@pytest.mark.more
@pytest.mark.parametrize("name", SOLVERS)
def test_from_jax(name: str) -> None:
    draw = np.random.default_rng(1).standard_normal
    a, b, da, db, ct = draw((6, 6)), draw(6), draw((6, 6)), draw(6), draw(6)

    def pulled(a: Any, b: Any) -> Any:
        return jax.vjp(lambda a, b: _reference(name, a, b), a, b)[1](ct)

    with jax.enable_x64(True):
        program: Program = tiduc.from_jax(SOLVERS[name], a, b)
        tangent = jax.jvp(lambda a, b: _reference(name, a, b), (a, b), (da, db))[1]
        cotangents, second = jax.jvp(pulled, (a, b), (da, db))
    wrt = [port.name for port in program.inputs]
    compare(by_xla(program.jvp().text, [a, b, da, db])[1:], [np.asarray(tangent)], 1e-11)
    compare(by_xla(program.vjp().text, [a, b, ct])[1:], [np.asarray(x) for x in cotangents], 1e-11)
    both = program.vjp().jvp(wrt)
    compare(by_xla(both.text, [a, b, ct, da, db])[-2:], [np.asarray(x) for x in second], 1e-10)
    has_loop = name not in ("a matrix", "a root by a matrix")
    assert ("tidu.linear_solve" in program.vjp().text) == has_loop


LAYERS = [
    "fixed point",
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("Newton", "implicit step")),
]
LAYERS += [pytest.param(name, marks=pytest.mark.slow) for name in ("quadratic program", "Sinkhorn")]


@pytest.mark.more
@pytest.mark.parametrize("name", LAYERS)
def test_the_example(name: str) -> None:
    """In the example, the gradients of a layer by implicit differentiation equal the gradients of its unrolled loop."""
    spec = importlib.util.spec_from_file_location("implicit_layers", EXAMPLES / "implicit_layers.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    draw = np.random.default_rng(0).standard_normal
    with jax.enable_x64(True):
        layer = module.LAYERS[name](8, lambda *sizes: draw(sizes))
        implicit, unrolled = module.gradients(layer)
    seed = np.cos(np.arange(8.0))
    one, other = (by_xla(each.text, [*layer.parameters, seed]) for each in (implicit, unrolled))
    compare(one, other, 1e-9)
    assert all(np.max(np.abs(x)) > 1e-6 for x in one[1:])
