"""Functions of JAX and files of `jax.export` are imported as programs."""

from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from harness.xla import by_xla
from jax import lax

import tiduc
from tiduc.cli import run

TABLE = np.arange(6, dtype=np.float32).reshape(2, 3)


def layer(params: dict[str, Any], x: Any, *unused: Any) -> Any:
    return jnp.tanh(x @ params["w"] + params["b"]) @ jnp.asarray(TABLE).T


RNG = np.random.default_rng(0)
PARAMS = {
    "w": RNG.standard_normal((4, 3)).astype(np.float32),
    "b": RNG.standard_normal(3).astype(np.float32),
}
X = RNG.standard_normal((5, 4)).astype(np.float32)
INPUTS = "params['b']: 3xf32, params['w']: 4x3xf32, x: 5x4xf32"


def test_inputs_have_the_names_of_the_leaves() -> None:
    program = tiduc.from_jax(layer, PARAMS, X, jax.ShapeDtypeStruct((), np.int32))
    assert str(program.signature) == f"({INPUTS}, unused[0]: i32) -> (result0: 5x2xf32)"
    vjp, seed = program.vjp(), RNG.standard_normal((5, 2)).astype(np.float32)
    y, db, dw, dx = vjp.compile(engine="xla")(PARAMS["b"], PARAMS["w"], X, np.int32(0), seed)
    expected, pullback = jax.vjp(layer, PARAMS, X)
    gradient, dx_expected = pullback(seed)
    for got, wanted in [(y, expected), (db, gradient["b"]), (dw, gradient["w"]), (dx, dx_expected)]:
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


def test_leaves_that_jax_cannot_trace_are_constants() -> None:
    def loss(model: dict[str, Any], x: Any, *, how: str, scale: Any) -> Any:
        y = model["activation"](x @ model["w"]) * scale
        return jnp.sum(y) if how == "sum" else jnp.mean(y)

    model = {"w": PARAMS["w"], "activation": jnp.tanh, "absent": None}
    program = tiduc.from_jax(loss, model, X, how="sum", scale=2.0)
    assert str(program.signature) == "(model['w']: 4x3xf32, x: 5x4xf32, scale: f32) -> (result0: f32)"
    (gradient,) = program.grad("model['w']").compile(engine="reference")(PARAMS["w"], X, np.float32(2))
    expected = jax.grad(lambda w: loss({**model, "w": w}, X, how="sum", scale=2.0))(PARAMS["w"])
    np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.more
def test_modules_of_equinox() -> None:
    eqx = pytest.importorskip("equinox")
    model = eqx.nn.MLP(4, 1, 3, 1, activation=jax.nn.tanh, key=jax.random.PRNGKey(0))

    @eqx.filter_jit
    def loss(model: Any, x: Any) -> Any:
        return jnp.sum(jax.vmap(model)(x) ** 2)

    program = tiduc.from_jax(loss, model, X)
    names = [f"model.layers[{i}].{leaf}" for i in (0, 1) for leaf in ("weight", "bias")]
    assert [port.name for port in program.inputs] == [*names, "x"]
    weights = jax.tree.leaves(eqx.filter(model, eqx.is_array))
    gradients = program.grad(names).compile(engine="reference")(*map(np.asarray, weights), X)
    expected = jax.tree.leaves(eqx.filter_grad(loss)(model, X))
    for got, wanted in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
    # The leaves of this function's arguments are all arrays.
    twice = tiduc.from_jax(eqx.filter_jit(lambda x: 2 * x), X)
    assert str(twice.signature) == "(x: 5x4xf32) -> (result0: 5x4xf32)"


def test_captured_arrays_can_be_inputs() -> None:
    program = tiduc.from_jax(layer, PARAMS, X, lift_constants=True)
    assert str(program.signature) == f"(constant0: 2x3xf32, {INPUTS}) -> (result0: 5x2xf32)"
    np.testing.assert_array_equal(program.weights["constant0"], TABLE)
    doubled = program.with_weights({"constant0": 2 * TABLE})
    compiled, rest = program.compile(), (PARAMS["b"], PARAMS["w"], X)
    np.testing.assert_allclose(
        compiled(*doubled.arguments(*rest))[0], 2 * compiled(*program.arguments(*rest))[0], rtol=1e-6
    )


def test_a_serialized_export(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    exported = jax.export.export(jax.jit(layer))(PARAMS, X)
    file = tmp_path / "layer.jaxexport"
    file.write_bytes(exported.serialize())
    program = tiduc.import_model(file)
    assert [port.name for port in program.inputs] == ["params['b']", "params['w']", "x"]
    (y,) = program.compile(engine="xla")(PARAMS["b"], PARAMS["w"], X)
    np.testing.assert_allclose(y, layer(PARAMS, X), rtol=1e-5, atol=1e-6)
    assert run(["import", str(file)]) == 0
    assert capsys.readouterr().out == str(program).rstrip("\n") + "\n"


def test_functions_jax_cannot_export_are_refused(tmp_path: Path) -> None:
    with pytest.raises(tiduc.TiducError, match="JAX cannot export the function"):
        tiduc.from_jax(lambda x: x if x > 0 else -x, 1.0)
    file = tmp_path / "bad.jaxexport"
    for contents in (b"", b"hello " * 20):
        file.write_bytes(contents)
        with pytest.raises(tiduc.ParseError, match="not a serialized export of JAX"):
            tiduc.import_model(file)
    with pytest.raises(tiduc.TiducError, match="cannot read"):
        tiduc.import_model(tmp_path / "none.jaxexport")


def test_linear_algebra(tmp_path: Path) -> None:
    """A file that calls `linalg.solve` is imported.

    JAX's custom calls for it have Shardy attributes, which MLIR cannot read from the bytecode of an export.
    """

    def solved(a: Any, y: Any) -> Any:
        return jnp.linalg.solve(a @ a.T + jnp.eye(3, dtype=a.dtype), y)

    a, y, ct = (RNG.standard_normal((3, n)).astype(np.float32) for n in (3, 2, 2))
    file = tmp_path / "solved.jaxexport"
    file.write_bytes(jax.export.export(jax.jit(solved))(a, y).serialize())
    program = tiduc.from_jax(solved, a, y)
    assert [port.name for port in tiduc.import_model(file).vjp().outputs] == [
        *("result0", "a.cotangent", "y.cotangent")
    ]
    x, da, dy = by_xla(program.vjp().text, [a, y, ct])
    expected, pullback = jax.vjp(jax.jit(solved), a, y)
    for got, wanted in zip((x, da, dy), (expected, *pullback(ct)), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("orders", [("jvp",), ("vjp",), ("grad", "jvp")])
def test_functions_of_chlo_keep_their_derivatives(orders: tuple[str, ...]) -> None:
    """`from_jax` keeps functions such as `lax.lgamma` as CHLO ops, so that their derivatives are right.

    `jax.export` would expand these ops, and derivatives of the expansions are wrong or NaN at 0 and at integers.
    """
    with jax.enable_x64(True):
        x = np.array([-0.7, 0.0, 0.3, 1.0, 2.0, 3.5])
        small, positive = [lax.erf_inv, lax.atanh], [lax.lgamma, lax.digamma, partial(lax.polygamma, 1.0)]
        every = [lax.asinh, lax.bessel_i1e, lax.erf, lax.erfc, lax.sinh]

        def loss(x: Any) -> Any:
            values = [f(x / 4) for f in small] + [f(x[2:]) for f in positive] + [f(x) for f in every]
            return sum(jnp.sum(jnp.sin(y)) for y in values)

        assert tiduc.from_jax(loss, x).text.count("chlo.") == len(small + positive + every)
        program = tiduc.from_jax(loss, x)
        for order in orders:
            program = getattr(program, order)()
        gradient = jax.grad(loss)
        if orders == ("vjp",):
            got, want = program.compile(engine="reference")(x, np.ones(()))[-1], gradient(x)
        else:
            got = program.compile(engine="reference")(x, np.ones_like(x))[-1]
            want = jax.jvp(gradient if len(orders) > 1 else loss, (x,), (np.ones_like(x),))[1]
        np.testing.assert_allclose(got, want, rtol=1e-9)


def test_functions_of_an_export_have_no_nan_at_integers() -> None:
    """The gradient of lgamma and digamma in an export is right at integers.

    The export contains expansions of these functions, whose selects do not choose the operands with infinite slope.
    """
    with jax.enable_x64(True):
        x = np.array([0.5, 1.0, 2.0, 7.0, -0.5])
        export = jax.export.export(jax.jit(lambda x: jnp.sum(lax.lgamma(x) + lax.digamma(jnp.abs(x)))))(x)
        (dx,) = (
            tiduc.models.from_jax.from_jax_export(export.serialize()).grad().compile(engine="reference")(x)
        )
        slopes = lax.digamma(x) + jnp.sign(x) * lax.polygamma(1.0, jnp.abs(x))
        np.testing.assert_allclose(dx, slopes, rtol=1e-9)


def test_square_of_integers() -> None:
    i = np.arange(3, dtype=np.int32)
    (dx,) = (
        tiduc.from_jax(lambda x: jnp.sum(lax.square(i) * x), np.ones(3, np.float32))
        .grad()
        .compile(engine="reference")(np.ones(3, np.float32))
    )
    np.testing.assert_array_equal(dx, [0, 1, 4])


def test_stops_of_gradients_are_kept() -> None:
    def loss(x: Any) -> Any:
        return jnp.sum(jnp.sin(x) * lax.stop_gradient(x**2))

    x = np.arange(3, dtype=np.float32)
    (dx,) = tiduc.from_jax(loss, x).grad().compile(engine="reference")(x)
    np.testing.assert_allclose(dx, jax.grad(loss)(x), rtol=1e-5)
