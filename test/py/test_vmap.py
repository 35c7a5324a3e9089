"""`Program.batch` compared with `jax.vmap`: axes, names, nesting, loops, examples and gradients.

`tiduc batch` is tested, too.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from harness.compare import compare
from harness.example_files import EXAMPLES, script
from harness.exports import exported

from tiduc.cli import run as cli
from tiduc.cli.batching import axes
from tiduc.dialect.errors import RequestError
from tiduc.loading import load
from tiduc.models.model import model_of
from tiduc.program import Program, from_module

RNG = np.random.default_rng(0)


def by_jax(
    function: Callable[..., Any], in_axes: Sequence[int | None], out_axes: Any, arrays: Sequence[Any]
) -> list[Any]:
    with jax.enable_x64(True):
        return jax.tree.leaves(jax.vmap(function, tuple(in_axes), out_axes)(*arrays))


def affine(x: Any, w: Any, n: Any) -> Any:
    return jnp.tanh(x @ w), w.T, jnp.where(n > 1, 2 * n, n)


X, W, N = RNG.standard_normal(3), RNG.standard_normal((3, 2)), np.int32(2)


def stacked(x: Any, axis: int | None, size: int) -> Any:
    """An array of `size` different arrays like x, stacked along the new dimension `axis`.

    Returns x if `axis` is None.
    """
    if axis is None:
        return np.asarray(x)
    many = np.stack([np.asarray(x) + i for i in range(size)], axis)
    return many.astype(np.asarray(x).dtype)


CASES: list[tuple[list[int | None], list[int | None]]] = [
    ([0, 0, 0], [0, 0, 0]),
    ([1, None, None], [1, None, None]),
    ([1, None, None], [1, 2, 0]),
    ([-1, 2, None], [-1, 1, 0]),
    ([None, 1, 0], [0, -2, -1]),
    ([None, None, 0], [0, 0, 0]),
]


@pytest.mark.parametrize(("in_axes", "out_axes"), CASES)
def test_axes(in_axes: list[int | None], out_axes: list[int | None]) -> None:
    program = load(exported(affine, X, W, N))
    arrays = [stacked(x, axis, 4) for x, axis in zip((X, W, N), in_axes, strict=True)]
    batched = program.batch(in_axes, 4, out_axes)
    assert [port.name for port in batched.inputs] == [port.name for port in program.inputs]
    assert [port.name for port in batched.outputs] == [port.name for port in program.outputs]
    compare(batched.compile(engine="xla")(*arrays), by_jax(affine, in_axes, tuple(out_axes), arrays), 1e-14)


def test_axes_by_name() -> None:
    program = load(exported(affine, X, W, N))
    x, w, n = (port.name for port in program.inputs)
    by_name = program.batch({w: 1}, 5, {program.outputs[1].name: 2})
    assert by_name.text == program.batch([None, 1, None], 5, [0, 2, 0]).text


def test_nested() -> None:
    """A batch of a batch of a gradient equals nested `jax.vmap`. The inner batch dimension is the second dimension."""

    def loss(x: Any, w: Any) -> Any:
        return jnp.sum(jnp.sin(x @ w))

    inner = load(exported(loss, X, W)).grad([0]).batch([0, None], 4)
    outer = inner.batch([1, 0], 5, 2)
    xs, ws = RNG.standard_normal((4, 5, 3)), RNG.standard_normal((5, 3, 2))
    with jax.enable_x64(True):
        expected = jax.vmap(jax.vmap(jax.grad(loss), (0, None)), (1, 0), 2)(xs, ws)
    compare(outer.compile(engine="xla")(xs, ws), [expected], 1e-13)


@pytest.mark.parametrize("counted", [True, False])
def test_loops(counted: bool) -> None:
    """Batched loops equal those of `jax.vmap`: a loop with a static trip count, and one whose trip count differs
    between examples.
    """

    def function(x: Any, w: Any) -> Any:
        if counted:
            return jax.lax.scan(lambda c, row: (jnp.sin(c * row), c), x, w)
        return jax.lax.while_loop(lambda c: c < 4.0, lambda c: c * 1.5 + w[0], x)

    x, w = np.array(0.7), np.abs(RNG.standard_normal(3))
    program = load(exported(function, x, w))
    for in_axes in ([0, None], [0, 1], [None, 0]):
        arrays = [stacked(a, axis, 4) for a, axis in zip((x, w), in_axes, strict=True)]
        actual = program.batch(in_axes, 4).compile(engine="xla")(*arrays)
        compare(actual, by_jax(function, in_axes, 0, arrays), 1e-13)


@pytest.mark.parametrize("name", ["mlp", "convnet", "transformer"])
def test_gradients_of_the_examples(name: str) -> None:
    """Gradients of a batch of three examples with shared parameters equal those of `jax.vmap(jax.grad(...))`."""
    model = script("models").MODELS[name]
    with np.load(EXAMPLES / f"{name}_f64.npz") as stored:
        count = sum(key.startswith("input.") for key in stored.files)
        arrays = [stored[f"input.{i}"] for i in range(count)]
    program = load(EXAMPLES / f"{name}_f64.mlir")
    parameters, last = arrays[:-2], arrays[-2:]
    many = [np.stack([np.roll(x, i, 0) for i in range(3)]) for x in last]
    in_axes = [None] * len(parameters) + [0, 0]
    actual = program.grad([0, 1], value=True).batch(in_axes, 3).compile(engine="xla")(*parameters, *many)
    params, *_ = model.inputs(np.random.default_rng(0))
    tree = jax.tree.structure(params)

    def of_leaves(first: Any, second: Any, *others: Any) -> Any:
        *rest, x, y = others
        return model.loss(jax.tree.unflatten(tree, [first, second, *rest]), x, y)

    both = jax.jit(jax.vmap(jax.value_and_grad(of_leaves, (0, 1)), tuple(in_axes)))
    with jax.enable_x64(True):
        compare(actual, jax.tree.leaves(both(*parameters, *many)), 1e-10)


# ---- requests that do not fit


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((None, 3), "no batched input"),
        ((0, 0), "at least 1"),
        (([0, 0], 3), "2 axes for 3"),
        (({"nothing": 0}, 3), "in_axes: no 'nothing'"),
        ((2, 3), "has rank 2, and the axis is 2"),
        ((0, 3, [None, 0, 0]), "depends on a batched input"),
    ],
)
def test_refused(arguments: Any, message: str) -> None:
    program = load(exported(affine, X, W, N))
    with pytest.raises(RequestError, match=message):
        program.batch(*arguments)


def test_dynamic_shapes_are_refused() -> None:
    program = load("func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> { return %x : tensor<?xf32> }")
    with pytest.raises(RequestError, match="only tensors of static shape"):
        program.batch(0, 2)


# ---- models and the command line


def test_weights_of_a_model_are_shared() -> None:
    text = exported(affine, X, W, N)
    from tiduc.dialect.mlir.context import parse

    program = load(text)
    model = model_of(parse(text), {program.inputs[1].name: W})
    batched = model.batch(0, 3)
    assert batched.inputs[1].type == program.inputs[1].type and set(batched.weights) == set(model.weights)
    assert not program_weights(model.batch({program.inputs[1].name: 0}, 3))


def program_weights(model: Program) -> Any:
    return getattr(model, "weights", {})


def test_command(tmp_path: Any, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "f.mlir"
    file.write_text(exported(affine, X, W, N))
    program = load(file)
    assert cli(["batch", str(file), "--batch-size=4", "--in-axes=1,none,none", "--out-axes=1,none,none"]) == 0
    assert load(capfd.readouterr().out).text == program.batch([1, None, None], 4, [1, None, None]).text
    assert cli(["batch", str(file), "--batch-size=4", "--in-axes=x=1"]) == 1
    assert "no 'x'" in capfd.readouterr().err


def test_axes_as_text() -> None:
    assert axes("1", "o") == 1 and axes("none", "o") is None and axes("0, none,-1", "o") == [0, None, -1]
    assert axes("params['w,1']=0,a=b=none", "o") == {"params['w,1']": 0, "a=b": None}
    for wrong in ("x", "x=1,y", "1,x", ""):
        with pytest.raises(RequestError, match="expects"):
            axes(wrong, "--in-axes")


def test_programs_from_modules_can_be_batched() -> None:
    """A program that returns an input and a constant, and that was created from a module, can be batched."""
    text = """
    func.func @main(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<f32>) {
      %0 = stablehlo.constant dense<3.0> : tensor<f32>
      return %x, %0 : tensor<2xf32>, tensor<f32>
    }"""
    from tiduc.dialect.mlir.context import parse

    batched = from_module(parse(text)).batch(1, 2, [0, None])
    x = np.arange(4, dtype=np.float32).reshape(2, 2)
    y, c = batched(x)
    np.testing.assert_array_equal(y, x.T)
    assert c == 3
