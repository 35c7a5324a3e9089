"""Seeds of random numbers in training steps, on the command line, and in models of PyTorch and ONNX."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from cases.random_numbers import DROPOUTS, UNIT, Array, rng, seed

import tiduc
from tiduc.cli import run as cli
from tiduc.dialect.errors import RequestError
from tiduc.passes.importing.rng import SEED
from tiduc.runtime.random_seed import random_seed
from tiduc.training.step import train_step

# ---- training ----------------------------------------------------------------------------------------------

LOSS = f"""func.func @main(%w: tensor<4xf32>) -> tensor<f32> {{
  {UNIT}
  {rng("u", "zero", "one", "4xf32")}
  %y = stablehlo.multiply %w, %u : tensor<4xf32>
  %loss = stablehlo.reduce(%y init: %zero) applies stablehlo.add across dimensions = [0]
    : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
  return %loss : tensor<f32>
}}"""


def steps(step: Any, count: int, number: int) -> list[Sequence[Array]]:
    """The results of `count` training steps with the learning rate 1. The weights start as 0, 1, 2, 3."""
    state: Sequence[Array] = [np.arange(4, dtype=np.float32), random_seed(number)]
    results = []
    for _ in range(count):
        results.append([np.array(x) for x in step(*map(np.copy, state), np.float32(1))])
        state = results[-1][1:]
    return results


def test_training_steps() -> None:
    """Each training step draws new numbers, which are equal in its forward and reverse pass.

    Equal seeds give equal numbers.
    """
    program = train_step(tiduc.load(LOSS), "none", train=["*"], seed=3)
    assert [port.name for port in program.inputs] == ["w", SEED, "rate"]
    assert [port.name for port in program.outputs] == ["result0", "w", SEED]
    np.testing.assert_array_equal(program.weights[SEED], random_seed(3))
    step = program.compile()
    first, w = steps(step, 5, 3), np.arange(4, dtype=np.float32)
    slopes = []
    for k, (loss, new, after) in enumerate(first, start=1):
        slopes.append(w - new)
        np.testing.assert_allclose(loss, np.sum(w * slopes[-1]), rtol=1e-4)
        np.testing.assert_array_equal(after, [3, k])
        w = new
    assert len(np.unique(slopes)) == 20
    for known, again in zip(first, steps(step, 5, 3), strict=True):
        for x, y in zip(known, again, strict=True):
            np.testing.assert_array_equal(x, y)
    assert first[0][0] != steps(step, 1, 4)[0][0]


def test_the_seeds_of_a_model_and_its_loss_differ() -> None:
    """If both a model and its loss draw random numbers, they have different seeds.

    Both seeds are part of the step's state.
    """
    loss = LOSS.replace("%w: tensor<4xf32>", "%w: tensor<4xf32>, %t: tensor<4xf32>")
    model = DROPOUTS.replace("(tensor<4xf32>, tensor<4xf32>) {", "tensor<4xf32> {", 1)
    model = model.replace("return %y, %z : tensor<4xf32>, tensor<4xf32>", "return %y : tensor<4xf32>")
    program = train_step(tiduc.load(model), tiduc.load(loss), train=["x"])
    assert [port.name for port in program.inputs] == ["x", SEED, f"{SEED}.2", "t", "rate"]
    assert not np.array_equal(program.weights[SEED], program.weights[f"{SEED}.2"])


def test_a_seed_out_of_range() -> None:
    with pytest.raises(RequestError, match="seed must be from 0 to"):
        train_step(tiduc.load(LOSS), "none", train=["w"], seed=-1)


# ---- the command line --------------------------------------------------------------------------------------


def test_commands(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """`tiduc run` chooses a random seed and prints it.

    Giving this seed with `--seed`, or as an input array, reproduces the results.
    """
    file, module = str(tmp_path / "f.mlir"), str(tmp_path / "f.vmfb")
    (tmp_path / "f.mlir").write_text(DROPOUTS)
    assert cli(["compile", file, "-o", module]) == 0
    assert "remark: draws random numbers from the input seed" in capsys.readouterr().err
    outputs = set()
    for _ in range(3):
        assert cli(["run", module, "--input", "1,1,1,1"]) == 0
        told = capsys.readouterr()
        outputs.add(told.out)
    assert len(outputs) == 3
    match = re.search(r"remark: draws random numbers; --seed (\d+) repeats them", told.err)
    assert match is not None
    for arguments in (["--seed", match[1]], ["--input", f"{match[1]},0"]):
        assert cli(["run", module, "--input", "1,1,1,1", *arguments]) == 0
        assert capsys.readouterr() == (told.out, "")
    assert cli(["run", file, "--input", "random", "--seed", "3"]) == 0
    assert capsys.readouterr().err == ""
    assert cli(["run", module]) == 1
    assert "takes 2 arguments" in capsys.readouterr().err


# ---- models ------------------------------------------------------------------------------------------------


def test_dropout_of_pytorch() -> None:
    """Dropout layers of equal shape have different masks.

    Elements that are not dropped are scaled, and p = 1 gives 0.
    """
    torch = pytest.importorskip("torch")

    class Model(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            drop = torch.nn.functional.dropout
            return (
                drop(x, 0.25),
                drop(x, 0.25),
                drop(x, 1.0),
                torch.randn_like(x),
                torch.randn_like(x.bfloat16()),
            )

    program = tiduc.from_torch(Model(), (torch.ones(50, 40),))
    assert [port.name for port in program.inputs] == ["x", SEED]
    x = np.ones((50, 40), np.float32)
    y, z, zeros, normal, narrow, cx = program.vjp()(x, seed(), x, x * 0, x, x * 0, (x * 0).astype("bfloat16"))
    np.testing.assert_array_equal(y, cx)
    np.testing.assert_array_equal(zeros, 0)
    for kept in (y != 0, z != 0):
        assert abs(kept.mean() - 0.75) < 4 * np.sqrt(0.75 * 0.25 / x.size)
    assert abs(((y != 0) & (z != 0)).mean() - 0.75**2) < 0.05
    np.testing.assert_allclose(y[y != 0], 1 / 0.75, rtol=1e-6)
    for sample in (normal, narrow.astype(np.float32)):
        assert abs(sample.mean()) < 4 / np.sqrt(x.size) and abs(sample.var() - 1) < 4 * np.sqrt(2 / x.size)
    again, *_ = program(x, seed(step=1))
    assert 0.2 < ((again != 0) != (y != 0)).mean() < 0.6


def test_dropout_of_a_dynamic_batch() -> None:
    torch = pytest.importorskip("torch")
    batch = torch.export.Dim("batch", min=2, max=64)
    module = torch.nn.Dropout(0.25).train()
    program = tiduc.from_torch(module, (torch.ones(3, 40),), dynamic_shapes={"input": {0: batch}})
    for rows in (5, 60):
        y = program(np.ones((rows, 40), np.float32), seed())
        assert y.shape == (rows, 40) and set(np.unique(y)) == {0, np.float32(1 / 0.75)}
        assert abs((y != 0).mean() - 0.75) < 4 * np.sqrt(0.75 * 0.25 / y.size)


def onnx_model(
    onnx: Any, op: str, outputs: Sequence[tuple[str, Any]], inputs: Sequence[str] = (), **given: Any
) -> Any:
    """An ONNX model with one node. `inputs` are the inputs of the node; the first of them is the input of the model."""
    helper, kinds = onnx.helper, onnx.TensorProto
    sizes = [50, 40]
    constants = [
        helper.make_tensor("ratio", kinds.FLOAT, [], [0.25]),
        helper.make_tensor("training", kinds.BOOL, [], [True]),
    ]
    graph = helper.make_graph(
        [helper.make_node(op, list(inputs), [name for name, _ in outputs], **given)],
        "main",
        [helper.make_tensor_value_info(name, kinds.FLOAT, sizes) for name in inputs[:1]],
        [helper.make_tensor_value_info(name, kind, sizes) for name, kind in outputs],
        [each for each in constants if each.name in inputs],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


@pytest.mark.more
def test_random_operators_of_onnx() -> None:
    onnx = pytest.importorskip("onnx")
    of_float, of_bool = onnx.TensorProto.FLOAT, onnx.TensorProto.BOOL
    x, count = np.full((50, 40), 0.3, np.float32), 2000

    def run(*model: Any, **given: Any) -> Any:
        program = tiduc.from_onnx(onnx_model(onnx, *model, **given))
        return program(*([x] if len(program.inputs) > 1 else []), seed())

    y, mask = run("Dropout", [("y", of_float), ("mask", of_bool)], ["x", "ratio", "training"])
    np.testing.assert_array_equal(y, np.where(mask, x * np.float32(1 / 0.75), 0))
    assert abs(mask.mean() - 0.75) < 4 * np.sqrt(0.75 * 0.25 / count)
    y = run("RandomUniform", [("y", of_float)], shape=[50, 40], low=-1.0, high=3.0)
    assert abs(y.mean() - 1) < 16 / np.sqrt(12 * count) and y.min() >= -1 and y.max() < 3
    y = run("RandomNormal", [("y", of_float)], shape=[50, 40], mean=1.0, scale=3.0)
    assert abs(y.mean() - 1) < 12 / np.sqrt(count) and abs(y.std() / 3 - 1) < 0.1
    y = run("Bernoulli", [("y", of_float)], ["x"])
    assert set(np.unique(y)) == {0, 1} and abs(y.mean() - 0.3) < 4 * np.sqrt(0.21 / count)
