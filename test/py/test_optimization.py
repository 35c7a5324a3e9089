"""Compressed derivatives, Gauss-Newton matrices, Lagrangians and second directional derivatives, for optimizers.

The wanted values are JAX's dense derivatives.
"""

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from harness.check_rule import run
from harness.exports import exported
from harness.static_libraries import run_library
from harness.xla import by_xla
from numpy.typing import NDArray

import tiduc
from tiduc.dialect.errors import RequestError
from tiduc.dialect.ops.compressed import Compressed
from tiduc.loading import load
from tiduc.program import Program

Array = NDArray[Any]
RNG = np.random.default_rng(0)
EXAMPLES = Path(__file__).parents[2] / "examples"

CHAIN = """func.func @main(%x: tensor<5xf64> {tidu.name = "x"}, %w: tensor<2xf64> {tidu.name = "w"}) -> (
    tensor<4xf64> {tidu.name = "r"}, tensor<2xf64> {tidu.name = "s"}) {
  %a = stablehlo.slice %x [0:4] : (tensor<5xf64>) -> tensor<4xf64>
  %b = stablehlo.slice %x [1:5] : (tensor<5xf64>) -> tensor<4xf64>
  %0 = stablehlo.multiply %a, %b : tensor<4xf64>
  %w0 = stablehlo.slice %w [0:1] : (tensor<2xf64>) -> tensor<1xf64>
  %c = stablehlo.broadcast_in_dim %w0, dims = [0] : (tensor<1xf64>) -> tensor<4xf64>
  %r = stablehlo.multiply %c, %0 : tensor<4xf64>
  %s = stablehlo.multiply %w, %w : tensor<2xf64>
  return %r, %s : tensor<4xf64>, tensor<2xf64>
}"""


def of_chain(x: Any, w: Any) -> tuple[Any, Any]:
    return w[0] * x[:-1] * x[1:], w**2


def dense(values: Array, pattern: Compressed) -> Array:
    """The matrix with these nonzeros. Asserts that their places are sorted and distinct."""
    major, minor = pattern.shape if pattern.format == "csr" else pattern.shape[::-1]
    matrix = np.zeros((major, minor))
    for i in range(major):
        places = pattern.indices[pattern.indptr[i] : pattern.indptr[i + 1]]
        assert (np.diff(places) > 0).all()
        matrix[i, places] = values[pattern.indptr[i] : pattern.indptr[i + 1]]
    return matrix if pattern.format == "csr" else matrix.T


def results(
    program: Program, arguments: Sequence[Array], call: Callable[..., Any] | None = None
) -> dict[str, Array]:
    """The results by name. Compressed results are given as matrices."""
    values = by_xla(program.text, arguments) if call is None else call(*arguments)
    names, patterns = [port.name for port in program.outputs], program.patterns
    both = zip(names, values, strict=True)
    return {name: dense(y, patterns[name]) if name in patterns else np.asarray(y) for name, y in both}


def agree(found: Mapping[str, Array], wanted: Mapping[str, Any]) -> None:
    assert found.keys() == wanted.keys()
    for name, y in wanted.items():
        np.testing.assert_allclose(found[name].ravel(), np.ravel(y), rtol=1e-12, atol=1e-13, err_msg=name)


# ---- the chain: all of them on the default engine --------------------------------------------------------------


def chain_results() -> tuple[Program, list[Array], dict[str, Any]]:
    """A program with the derivatives of the chain, its arguments, and the wanted values by NumPy's formulas."""
    p = load(CHAIN)
    hessian = p.lagrangian().hessian("x", compressed="csc")
    both = p.together(
        p.jacobian(compressed="csr"),
        hessian,
        p.gauss_newton(gradient=True, weights=True, compressed="csr"),
        p.gauss_newton("x", weights=True, product=True),
        p.second_directional("x"),
    )
    x, w = RNG.standard_normal(5), RNG.standard_normal(2)
    multipliers = RNG.standard_normal(4), RNG.standard_normal(2)
    weights, v, u = [RNG.random(4), RNG.random(2)], RNG.standard_normal(5), RNG.standard_normal(5)
    rx, sx, rw = np.zeros((4, 5)), np.zeros((2, 5)), np.zeros((4, 2))
    rx[range(4), range(4)], rx[range(4), range(1, 5)] = w[0] * x[1:], w[0] * x[:-1]
    rw[:, 0], sw = x[1:] * x[:-1], np.diag(2 * w)
    of_x, of_w = np.vstack([rx, sx]), np.vstack([rw, sw])
    diagonal, r = np.diag(np.concatenate(weights)), np.concatenate(of_chain(x, w))
    second = np.diag(w[0] * multipliers[0], 1)
    wanted = {
        "r.jacobian.x": rx,
        "r.jacobian.w": rw,
        "s.jacobian.x": sx,
        "s.jacobian.w": sw,
        "lagrangian.hessian.x.x": second + second.T,
        "gradient.x": of_x.T @ diagonal @ r,
        "gradient.w": of_w.T @ diagonal @ r,
        "gauss_newton.x.x": of_x.T @ diagonal @ of_x,
        "gauss_newton.x.w": of_x.T @ diagonal @ of_w,
        "gauss_newton.w.x": of_w.T @ diagonal @ of_x,
        "gauss_newton.w.w": of_w.T @ diagonal @ of_w,
        "gauss_newton.x": rx.T @ np.diag(weights[0]) @ rx @ v,
        "r.second_directional": w[0] * (v[1:] * u[:-1] + v[:-1] * u[1:]),
        "s.second_directional": np.zeros(2),
    }
    names = ["x", "w", "r.multiplier", "s.multiplier", "r.weight", "s.weight", "r.weight.2", "s.weight.2"]
    names += ["x.tangent", "x.tangent.2", "x.second_tangent"]
    assert [port.name for port in both.inputs] == names
    return both, [x, w, *multipliers, *weights, *weights, v, v, u], {"r": r[:4], "s": r[4:], **wanted}


def test_the_chain() -> None:
    program, arguments, wanted = chain_results()
    agree(results(program, arguments, lambda *given: run(program, given)), wanted)


@pytest.mark.more
def test_on_iree() -> None:
    program, arguments, wanted = chain_results()
    agree(results(program, arguments, program.compile()), wanted)


def test_patterns_are_part_of_the_text() -> None:
    """A program that is read again has the patterns. Its text has no array as large as the matrix."""
    program = load(CHAIN).jacobian("x", compressed="csr")
    again = load(program.text).patterns["r.jacobian.x"]
    assert "4x5x" not in program.text and "20x" not in program.text
    assert again.shape == (4, 5) and again.format == "csr"
    assert again.indptr.tolist() == [0, 2, 4, 6, 8]
    assert again.indices.tolist() == [0, 1, 1, 2, 2, 3, 3, 4]
    turned = load(CHAIN).jacobian("x", compressed="csc").patterns["r.jacobian.x"]
    assert turned.indices.tolist() == [0, 0, 1, 1, 2, 2, 3, 3] and len(turned.indptr) == 6


@pytest.mark.parametrize(
    "text",
    [
        "3 : i32",
        '{format = "csr"}',
        '{format = "coo", shape = array<i64: 1, 2>, indptr = dense<[0, 1]> : tensor<2xi32>, '
        "indices = dense<0> : tensor<1xi32>}",
        '{format = "csr", shape = array<i64: 1, 2>, indptr = dense<[0, 1]> : tensor<2xi32>, '
        "indices = dense<2> : tensor<1xi32>}",
        '{format = "csr", shape = array<i64: 1, 2>, indptr = dense<[0, 9]> : tensor<2xi32>, '
        "indices = dense<0> : tensor<1xi32>}",
        '{format = "csr", shape = array<i64: 1, 2>, indptr = dense<[0.0, 1.0]> : tensor<2xf32>, '
        "indices = dense<0> : tensor<1xi32>}",
    ],
)
def test_a_malformed_pattern_is_refused(text: str) -> None:
    source = CHAIN.replace('{tidu.name = "r"}', f'{{tidu.name = "r", tidu.compressed = {text}}}')
    with pytest.raises(RequestError, match=r"result 'r' has a malformed tidu\.compressed"):
        print(load(source).patterns)


def test_refusals() -> None:
    p = load(CHAIN)
    with pytest.raises(RequestError, match="compressed must be one of csr, csc, not 'coo'"):
        p.jacobian(compressed="coo")
    with pytest.raises(RequestError, match="either compressed or diagonal"):
        p.jacobian("w", sparsity="diagonal", compressed="csr")
    with pytest.raises(RequestError, match="auto or a pattern of the Jacobian, not 'diagonal'"):
        p.gauss_newton(sparsity="diagonal")
    with pytest.raises(RequestError, match="product returns no matrix"):
        p.gauss_newton(product=True, compressed="csr")
    with pytest.raises(RequestError, match="lagrangian needs outputs of one real float type"):
        load("func.func @main(%x: tensor<i32>) -> tensor<i32> { return %x : tensor<i32> }").lagrangian()


def test_the_value_of_a_hessian_vector_product() -> None:
    loss = load(CHAIN).lagrangian()
    assert [port.name for port in loss.hvp("x", value=True).outputs] == ["lagrangian", "x.cotangent.tangent"]


# ---- against JAX -------------------------------------------------------------------------------------------------


def _scan(x: Any) -> Any:
    return jax.lax.scan(lambda c, y: (c * jnp.sin(y), c), 1.0, x)


def _loop_by_rows(x: Any) -> Any:
    return jax.lax.fori_loop(0, 3, lambda _, c: jnp.sin(c) * x, x), x[0] * 2


MIXED = RNG.standard_normal((3, 6))

FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "bands and a dense row": (lambda x: (x[1:] * jnp.sin(x[:-1]), jnp.sum(x**2)), ((6,),)),
    "two inputs": (of_chain, ((5,), (2,))),
    "dense": (lambda x: jnp.tanh(MIXED @ x), ((6,),)),
    "rows of matrices": (lambda x, y: (x[:, :2] * y, jnp.sum(x, 1)), ((3, 4), (3, 2))),
    "a loop without a pattern": (_scan, ((4,),)),
    "a loop beside a band": (_loop_by_rows, ((4, 2),)),
    "no elements": (lambda x: jnp.zeros((0, 3)) + x[:0, None], ((4,),)),
    "constants": (lambda x: (jnp.ones(3), x[:2]), ((4,),)),
}


@pytest.mark.more
@pytest.mark.parametrize("format", ["csr", "csc"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_compressed_jacobians(name: str, format: str) -> None:
    function, sizes = FUNCTIONS[name]
    arguments = [RNG.standard_normal(size) for size in sizes]
    program = load(exported(function, *arguments))
    wanted = results(program.jacobian(), arguments)
    for mode in ("auto", "forward", "reverse"):
        agree(results(program.jacobian(mode=mode, compressed=format), arguments), wanted)
    with jax.enable_x64(True):
        values = jax.tree.leaves(jax.jacobian(function, tuple(range(len(sizes))))(*arguments))
    agree(wanted, dict(zip(wanted, values, strict=True)))


def _coupled(x: Any, y: Any) -> Any:
    return jnp.sum(x[1:] ** 2 * x[:-1]) * y[0] + jnp.sum(jnp.exp(y)) + x[0] ** 3


@pytest.mark.more
@pytest.mark.parametrize("format", ["csr", "csc"])
def test_compressed_hessians(format: str) -> None:
    x, y = RNG.standard_normal(7), RNG.standard_normal(2)
    program = load(exported(_coupled, x, y))
    with jax.enable_x64(True):
        blocks = jax.tree.leaves(jax.hessian(_coupled, (0, 1))(x, y))
    found = results(program.hessian(compressed=format), [x, y])
    agree(found, dict(zip(found, blocks, strict=True)))
    alone = program.hessian(0, compressed=format)
    agree(results(alone, [x, y]), {"result0.hessian.arg0.arg0": blocks[0]})
    assert len(next(iter(alone.patterns.values())).indices) == 7 + 2 * 6  # found by a star colouring
    triangle = np.tril(np.asarray(blocks[0]) != 0)
    lower = program.hessian(0, sparsity=triangle, compressed=format)
    agree(results(lower, [x, y]), {"result0.hessian.arg0.arg0": np.tril(blocks[0])})


@pytest.mark.more
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gauss_newton(name: str) -> None:
    function, sizes = FUNCTIONS[name]
    arguments = [RNG.standard_normal(size) for size in sizes]
    program = load(exported(function, *arguments))
    with jax.enable_x64(True):
        values = [np.asarray(y) for y in jax.tree.leaves(jax.jit(function)(*arguments))]
        blocks = jax.tree.leaves(jax.jacobian(function, tuple(range(len(sizes))))(*arguments))
    of_y = [blocks[i * len(sizes) : (i + 1) * len(sizes)] for i in range(len(values))]
    columns = [
        np.vstack(
            [np.reshape(of[k], (y.size, arguments[k].size)) for of, y in zip(of_y, values, strict=True)]
        )
        for k in range(len(sizes))
    ]
    weights = [RNG.random(y.shape) for y in values]
    w = np.concatenate([each.ravel() for each in weights])[:, None]
    r = np.concatenate([y.ravel() for y in values])
    names = [port.name for port in program.inputs]
    gradients = {f"gradient.{n}": j.T @ (w[:, 0] * r) for n, j in zip(names, columns, strict=True)}
    matrices = {
        f"gauss_newton.{n}.{m}": j.T @ (w * k)
        for n, j in zip(names, columns, strict=True)
        for m, k in zip(names, columns, strict=True)
    }
    for given in ({}, {"sparsity": "auto"}, {"compressed": "csr"}, {"compressed": "csc"}):
        options: dict[str, Any] = {"gradient": True, "weights": True, **given}
        found = results(program.gauss_newton(**options), [*arguments, *weights])
        agree(found, {**gradients, **matrices})
    tangents = [RNG.standard_normal(size) for size in sizes]
    pushed = w[:, 0] * sum(j @ v.ravel() for j, v in zip(columns, tangents, strict=True))
    products = {f"gauss_newton.{n}": j.T @ pushed for n, j in zip(names, columns, strict=True)}
    by_product = program.gauss_newton(weights=True, product=True)
    agree(results(by_product, [*arguments, *weights, *tangents]), products)


def _functions(x: Any, w: Any) -> Any:
    return jnp.tanh(w @ x), jnp.sum(x**3), jnp.ones(2)


@pytest.mark.more
def test_lagrangian_and_second_directional() -> None:
    arguments = [RNG.standard_normal(4), RNG.standard_normal((3, 4))]
    v, u = ([RNG.standard_normal(x.shape) for x in arguments] for _ in range(2))
    multipliers = [RNG.standard_normal(3), np.array(0.7), RNG.standard_normal(2)]
    program = load(exported(_functions, *arguments))

    def lagrangian(x: Any, w: Any) -> Any:
        return sum(jnp.vdot(m, y) for m, y in zip(multipliers, _functions(x, w), strict=True))

    def along(x: Any, w: Any) -> Any:
        return jax.jvp(_functions, (x, w), tuple(v))[1]

    with jax.enable_x64(True):
        value, gradient = jax.value_and_grad(lagrangian, (0, 1))(*arguments)
        hessian = jax.hessian(lagrangian)(*arguments)
        second = jax.jvp(along, tuple(arguments), tuple(u))[1]
    both = program.lagrangian()
    together = both.together(both.grad([0, 1]), both.hessian(0), program.second_directional([0, 1]))
    given = [*arguments, *multipliers, *v, *u]
    names = [port.name for port in together.outputs]
    agree(results(together, given), dict(zip(names, [value, *gradient, hessian, *second], strict=True)))


@pytest.mark.more
def test_large_ones_have_no_array_of_the_matrix() -> None:
    """The programs of derivatives with 3000 rows and columns have only vectors and few seeds."""
    x = RNG.standard_normal(3000)
    program = load(exported(lambda x: (x[1:] - x[:-1] ** 2, x - 1), x))
    for derived in (
        program.jacobian(compressed="csr"),
        program.gauss_newton(compressed="csc"),
        program.lagrangian().hessian(0, compressed="csr"),
    ):
        assert "3000x3000" not in derived.text and "2999x3000" not in derived.text
    both = program.together(program.jacobian(compressed="csr"), program.gauss_newton(compressed="csr"))
    values = dict(zip([port.name for port in both.outputs], both.compile()(x), strict=True))
    j = both.patterns["result0.jacobian.arg0"]
    by_hand = np.stack([-2 * x[:-1], np.ones(2999)], 1).ravel()
    np.testing.assert_allclose(values["result0.jacobian.arg0"], by_hand)
    assert j.indices.tolist() == np.stack([np.arange(2999), np.arange(1, 3000)], 1).ravel().tolist()
    g = both.patterns["gauss_newton.arg0.arg0"]
    diagonal = values["gauss_newton.arg0.arg0"][g.indices == np.repeat(np.arange(3000), np.diff(g.indptr))]
    np.testing.assert_allclose(diagonal, 1 + np.append(4 * x[:-1] ** 2, 0) + np.append(0, np.ones(2999)))


# ---- static libraries -------------------------------------------------------------------------------


@pytest.mark.more
@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")
def test_a_library_of_all(tmp_path: Path) -> None:
    program, arguments, wanted = chain_results()
    given = run_library(program, arguments, tmp_path)
    agree(results(program, arguments, lambda *_: given), wanted)
    header = (tmp_path / "net.h").read_text()
    assert (
        "enum { net_r_jacobian_x_rows = 4, net_r_jacobian_x_columns = 5, net_r_jacobian_x_nonzeros = 8 };"
        in header
    )
    assert "const int32_t net_r_jacobian_x_indptr[] = {0, 2, 4, 6, 8};" in (tmp_path / "net.c").read_text()
    assert "// s_jacobian_x: the nonzeros of a sparse matrix, row by row." in header
    assert tiduc.load(program.text).patterns.keys() == program.patterns.keys()
