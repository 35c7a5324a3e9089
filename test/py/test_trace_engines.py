"""`tiduc trace` on the default engine, compared with XLA and JAX, for imported models, and in pictures."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from harness.example_files import EXAMPLES
from jax import lax
from test_trace import BRANCHES, NESTED, nested, of

import tiduc
from tiduc import Program, trace
from tiduc.cli import run
from tiduc.runtime.arrays import parse_inputs

pytestmark = pytest.mark.more


def test_on_the_default_engine() -> None:
    """On IREE, the trace has the right values and cotangents of branches and of nested loops."""
    x = np.array([0.4, 1.3])
    got = of(NESTED.replace("OP", "cosine"), x, np.int32(4), derivative="vjp", run=Program.compile)
    values, cotangents = nested(x, 4)
    for name, value in values.items():
        np.testing.assert_allclose(got.arrays[name], value, atol=1e-14)
        np.testing.assert_allclose(got.arrays[f"{name}.cotangent"], cotangents[name], rtol=1e-12, atol=1e-14)
    x = np.array([0.5, -1.0, 2.0])
    got = of(BRANCHES, x, np.array(True), derivative="vjp", run=Program.compile)
    np.testing.assert_allclose(got.arrays["3.exponential.cotangent"], x)


@pytest.mark.usefixtures("double_precision")
def test_cotangents_are_those_of_jax() -> None:
    """The cotangents of ops in a scan with branches are JAX's gradients with respect to noise that is added to each
    sine and each product.
    """

    def function(x: Any, noise: Any) -> Any:
        def body(carry: Any, each: Any) -> tuple[Any, Any]:
            i, (first, second) = each
            y = jnp.sin(carry) + first
            y = lax.cond(i % 2 == 0, lambda y: y * x + second, lambda y: y - x, y)
            return y, (y * y).sum()

        last, sums = lax.scan(body, x, (jnp.arange(5), noise))
        return last.sum() + sums.sum()

    def plain(x: Any) -> Any:
        return function(x, jnp.zeros((5, 2, 3)))

    x = np.array([0.3, -0.5, 1.2])
    text = jax.jit(plain).lower(x).as_text(debug_info=True)
    expected = jax.grad(function, 1)(x, jnp.zeros((5, 2, 3)))
    got = trace(tiduc.load(text), [x], "vjp", only=["add", "sine"])
    ran = {row.name: row.value for row in got.rows if row.site is not None}
    stacked = {n: y for n, y in ran.items() if y.ran.shape == (5,) and y.shape == (3,)}
    sine = next(name for name in stacked if "sine" in name)
    noisy = [
        name for name in stacked if "add" in name
    ]  # noise is added to the sine and to the product in a branch
    np.testing.assert_allclose(got.arrays[f"{noisy[0]}.cotangent"], expected[:, 0], rtol=1e-12)
    np.testing.assert_allclose(got.arrays[f"{sine}.cotangent"], expected[:, 0], rtol=1e-12)
    np.testing.assert_allclose(got.arrays[f"{noisy[1]}.cotangent"], expected[:, 1], rtol=1e-12)
    np.testing.assert_array_equal(stacked[noisy[1]].ran, [True, False, True, False, True])


def test_values_are_those_of_xla() -> None:
    """For a convolutional network, all arrays of the trace on IREE equal those on XLA."""
    program = tiduc.load(EXAMPLES / "convnet_f64.mlir")
    arguments = parse_inputs(["random"] * len(program.inputs), program.signature.inputs, 1)
    ours, theirs = (
        trace(program, arguments, "vjp", run=lambda each, by=engine: each.compile(engine=by))
        for engine in ("iree", "xla")
    )
    assert ours.arrays.keys() == theirs.arrays.keys() and len(ours.arrays) > 60
    for name, array in ours.arrays.items():
        np.testing.assert_allclose(array, theirs.arrays[name], rtol=1e-10, atol=1e-13, err_msg=name)


def test_picture(tmp_path: Path) -> None:
    """In a picture, each box shows the norm over all iterations, also in the bodies of loops.

    Boxes with NaNs are red.
    """
    file, drawing = tmp_path / "f.mlir", tmp_path / "f.svg"
    file.write_text(NESTED.replace("OP", "log"))
    line = ["trace", str(file), "--engine", "reference", "--derivative", "vjp", "--picture", str(drawing)]
    assert run([*line, "--input", "2.0,2.0", "--input", "1"]) == 0
    assert "norm 0.98, ct 2.83" in drawing.read_text() and "not computed" in drawing.read_text()
    assert "#c00000" not in drawing.read_text()
    assert run([*line, "--input", "0.9,2.0", "--input", "4"]) == 0
    assert "norm nan to nan" in drawing.read_text() and "#c00000" in drawing.read_text()


def test_a_model_supplies_its_weights() -> None:
    weights = np.array([[1.0, -2.0], [3.0, 4.0]], np.float32)
    model = tiduc.from_jax(lambda x: jnp.log(x @ weights).sum(), np.ones(2, np.float32), lift_constants=True)
    assert len(model.inputs) == 2 and len(model.defaults) == 1
    got = trace(model, [np.array([1.0, 0.0], np.float32)], "vjp", run=lambda each: each.compile(engine="xla"))
    (origin,) = got.origins
    assert (origin.op, Path(origin.place.rsplit(":", 2)[0]).name) == ("stablehlo.log", Path(__file__).name)
