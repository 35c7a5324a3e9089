"""Compares values of LoRA adapters with the formula, and training, files and merged weights with the library peft."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiduc
import tiduc.runtime
from tiduc.cli import run as cli
from tiduc.dialect.errors import InputError, RequestError
from tiduc.dialect.mlir.context import parse
from tiduc.models.model import Model, model_of
from tiduc.runtime.weights import read_weights, write_weights
from tiduc.training import fit
from tiduc.training.lora import ALPHA, merged, with_lora, write_adapters
from tiduc.training.step import train_step

RNG = np.random.default_rng(0)

LINEAR = """func.func @main(%w: tensor<6x8xTYPE> {tidu.name = "first.weight"},
    %c: tensor<3x3xTYPE> {tidu.name = "square.weight"}, %x: tensor<ROWSx8xTYPE> {tidu.name = "x"})
    -> (tensor<ROWSx6xTYPE>, tensor<3x3xTYPE>) {
  %0 = stablehlo.transpose %w, dims = [1, 0] : (tensor<6x8xTYPE>) -> tensor<8x6xTYPE>
  %1 = stablehlo.dot_general %x, %0, contracting_dims = [1] x [0]
    : (tensor<ROWSx8xTYPE>, tensor<8x6xTYPE>) -> tensor<ROWSx6xTYPE>
  %2 = stablehlo.dot_general %c, %c, contracting_dims = [1] x [0]
    : (tensor<3x3xTYPE>, tensor<3x3xTYPE>) -> tensor<3x3xTYPE>
  return %1, %2 : tensor<ROWSx6xTYPE>, tensor<3x3xTYPE>
}"""


def linear(type_: str = "f32", rows: str = "5") -> Model:
    text = LINEAR.replace("TYPE", type_).replace("ROWS", rows)
    weights = {"first.weight": RNG.standard_normal((6, 8)), "square.weight": np.eye(3)}
    dtype = tiduc.load(text).signature.inputs[0].type.dtype
    return model_of(parse(text), {name: x.astype(dtype) for name, x in weights.items()})


@pytest.mark.sampled(2)
@pytest.mark.parametrize("type_, rows", [("f32", "5"), ("f64", "5"), ("bf16", "5"), ("f32", "?")])
def test_values(type_: str, rows: str) -> None:
    """An adapted layer computes y = W x + (alpha / r) B A x, and so does the layer with merged weights.

    Before training, B is 0.
    """
    model = linear(type_, rows)
    adapted = with_lora(model, ["first"], rank=2, alpha=3.0, seed=1)
    x = RNG.standard_normal((5, 8)).astype(model.weights["first.weight"].dtype)
    tolerance = {"bf16": 2e-2, "f32": 1e-5, "f64": 1e-12}[type_]
    plain, compiled = model.compile(), adapted.compile()
    y = compiled(*adapted.arguments(x))[0]
    np.testing.assert_array_equal(y, plain(*model.arguments(x))[0])
    names = [f"base_model.model.first.lora_{x}.weight" for x in "AB"]
    a, b = (RNG.standard_normal(adapted.weights[n].shape).astype(adapted.weights[n].dtype) for n in names)
    trained = adapted.with_weights({**adapted.weights, names[0]: a, names[1]: b})
    wanted = x.astype(np.float64) @ (model.weights["first.weight"].astype(np.float64) + 1.5 * b @ a).T
    y = compiled(*trained.arguments(x))[0].astype(np.float64)
    np.testing.assert_allclose(y, wanted, rtol=tolerance, atol=10 * tolerance)
    weights = merged(trained.weights)
    assert set(weights) == set(model.weights)
    y = plain(*weights.values(), x)[0].astype(np.float64)
    np.testing.assert_allclose(y, wanted, rtol=tolerance, atol=10 * tolerance)


def test_only_adapters_are_trained() -> None:
    adapted = with_lora(linear(), ["first"])
    step = train_step(adapted, tiduc.load(LOSS), "adam")
    names = [f"base_model.model.first.lora_{x}.weight" for x in "AB"]
    assert [port.name for port in step.outputs[1:4]] == [*names, "step"]
    assert set(merged(step.weights)) == {"first.weight", "square.weight"}
    assert step.held[ALPHA] == "the scale of the adapters"
    assert step.held["first.weight"] == "the base of adapters"
    a = adapted.weights[names[0]]
    assert a.shape == (8, 8) and 0.3 < np.abs(a).max() <= 8**-0.5 and abs(a.mean()) < 0.1


LOSS = """func.func @main(%y: tensor<5x6xf32>, %z: tensor<3x3xf32>) -> tensor<f32> {
  %0 = stablehlo.dot_general %y, %y, contracting_dims = [0, 1] x [0, 1]
    : (tensor<5x6xf32>, tensor<5x6xf32>) -> tensor<f32>
  return %0 : tensor<f32>
}"""


def test_refused(tmp_path: Path, capsys: Any) -> None:
    for wanted, message in (
        ({"layers": ["second"]}, "no layer matches 'second'; the layers are first, square"),
        ({"layers": ["square"]}, "stablehlo.dot_general reads square.weight, which is not the weight of a"),
        ({"layers": ["first"], "rank": 0}, "the rank of an adapter is at least 1, not 0"),
    ):
        with pytest.raises(RequestError, match=message):
            with_lora(linear(), **wanted)
    with pytest.raises(InputError, match="the state has no adapters"):
        merged({"w": np.eye(2)})
    np.savez(tmp_path / "state.npz", w=np.eye(2))
    assert cli(["lora", str(tmp_path / "state.npz"), "--merge", str(tmp_path / "w.npz")]) == 1
    assert "state.npz: error: the state has no adapters" in capsys.readouterr().err
    assert cli(["lora", str(tmp_path / "state.npz")]) == 1
    assert "say what to write" in capsys.readouterr().err


def test_layers_in_another_order_for_inference() -> None:
    """A training step accepts a model for inference that lists the weights in another order.

    The adapters of a layer have equal initial values in both models, and different layers have different ones.
    """

    def two(first: str, second: str) -> Model:
        product = "(tensor<5x4xf32>, tensor<4x4xf32>) -> tensor<5x4xf32>"
        weights = ", ".join(f'%{x}: tensor<4x4xf32> {{tidu.name = "{x}.weight"}}' for x in (first, second))
        text = f"""func.func @main({weights}, %x: tensor<5x4xf32> {{tidu.name = "x"}}) -> tensor<5x4xf32> {{
          %a = stablehlo.transpose %a0, dims = [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>
          %b = stablehlo.transpose %b0, dims = [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>
          %0 = stablehlo.dot_general %x, %a, contracting_dims = [1] x [0] : {product}
          %1 = stablehlo.dot_general %0, %b, contracting_dims = [1] x [0] : {product}
          return %1 : tensor<5x4xf32>
        }}"""
        arrays = {f"{x}.weight": np.eye(4, dtype=np.float32) for x in (first, second)}
        return with_lora(model_of(parse(text), arrays), ["*"], rank=2)

    trained, evaluated = two("a0", "b0"), two("b0", "a0")
    step = train_step(trained, "mse", infer=evaluated)
    assert "infer" in step.further
    a, b = (step.weights[f"base_model.model.{x}.lora_A.weight"] for x in ("a0", "b0"))
    assert not np.array_equal(a, b)


class Attention:
    """`Attention(torch)` creates a network with linear layers and dropout.

    The class of the network is local, because torch may not be installed.
    """

    def __new__(cls, torch: Any) -> Any:
        class Net(torch.nn.Module):  # type: ignore[misc,name-defined]
            def __init__(self) -> None:
                super().__init__()
                self.q, self.k, self.v = (torch.nn.Linear(16, 16, bias=i > 0) for i in range(3))
                self.out, self.norm = torch.nn.Linear(16, 4), torch.nn.LayerNorm(16)
                self.drop = torch.nn.Dropout(0.25)

            def forward(self, x: Any) -> Any:
                weights = torch.softmax(self.q(x) @ self.k(x).transpose(1, 2) / 4, -1)
                return self.out(self.drop(self.norm(x + weights @ self.v(x))))

        torch.manual_seed(0)
        return Net()


def inferred(torch: Any, tmp_path: Path) -> tuple[Any, Any]:
    """Trains adapters for ten steps by the command line, and saves the state in a file.

    Returns an input, and its output by the model for inference.
    """
    net = Attention(torch)
    for mode, count in (("train", 4), ("eval", 2)):
        exported = torch.export.export(getattr(net, mode)(), (torch.ones(count, 6, 16),))
        torch.export.save(exported, tmp_path / f"{mode}.pt2")
    folder = str(tmp_path)
    words = [
        "--lora",
        "q",
        "--lora",
        "v",
        "--lora",
        "out",
        "--rank",
        "2",
        "--alpha",
        "4",
        "--optimizer",
        "adamw",
    ]
    files = [
        "--infer",
        f"{folder}/eval.pt2",
        "--state",
        f"{folder}/state.safetensors",
        "-o",
        f"{folder}/step.vmfb",
    ]
    assert cli(["train-step", f"{folder}/train.pt2", *words, *files]) == 0
    rng = np.random.default_rng(0)
    data = {
        "x": rng.standard_normal((40, 6, 16), np.float32),
        "target": rng.standard_normal((40, 6, 4), np.float32),
    }
    trained = fit(tmp_path / "step.vmfb", data, state=read_weights(tmp_path / "state.safetensors"), rate=0.02)
    write_weights(tmp_path / "trained.safetensors", trained.state)
    x = data["x"][:2]
    with tiduc.runtime.load(tmp_path / "step.vmfb") as module:
        given = {**trained.state, "x": x, "target": data["target"][:2]}
        y, loss = (
            module[f](*(given[port.name] for port in module[f].signature.inputs))[0]
            for f in ("infer", "loss")
        )
    np.testing.assert_allclose(loss, np.mean((y - given["target"]) ** 2), rtol=1e-5)
    return x, y


@pytest.mark.more
def test_adapters_for_inference_and_export(tmp_path: Path) -> None:
    """The output of a trained model for inference equals peft's, and merged weights equal peft's merged weights."""
    torch, peft = pytest.importorskip("torch"), pytest.importorskip("peft")
    (x, y), folder = inferred(torch, tmp_path), str(tmp_path)
    assert (
        cli(["lora", f"{folder}/trained.safetensors", "--adapters", folder, "--merge", f"{folder}/m.npz"])
        == 0
    )
    adapted = peft.PeftModel.from_pretrained(Attention(torch), tmp_path).eval()
    before = Attention(torch).eval()(torch.tensor(x)).detach()
    assert np.abs(before - y).max() > 0.01
    np.testing.assert_allclose(y, adapted(torch.tensor(x)).detach(), rtol=0, atol=1e-5)
    assert (
        cli(["export", f"{folder}/eval.pt2", f"{folder}/trained.safetensors", "-o", f"{folder}/new.pt2"]) == 0
    )
    merged_program = torch.export.load(tmp_path / "new.pt2")
    np.testing.assert_allclose(y, merged_program.module()(torch.tensor(x)).detach(), rtol=0, atol=1e-5)
    whole = adapted.merge_and_unload().state_dict()
    exported = {name: array.detach().numpy() for name, array in merged_program.state_dict.items()}
    for arrays in (read_weights(tmp_path / "m.npz"), exported):
        assert set(arrays) == set(whole)
        for name, array in arrays.items():
            np.testing.assert_allclose(array, whole[name], rtol=0, atol=1e-6, err_msg=name)


@pytest.mark.more
def test_training_is_that_of_peft(tmp_path: Path) -> None:
    """200 training steps from peft's initial adapters give peft's losses and adapters.

    peft can read the trained adapters, and merges them to equal weights.
    """
    torch, peft = pytest.importorskip("torch"), pytest.importorskip("peft")

    class Attention(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q, self.k, self.v = (torch.nn.Linear(16, 16, bias=i > 0) for i in range(3))
            self.out, self.norm = torch.nn.Linear(16, 4), torch.nn.LayerNorm(16)

        def forward(self, x: Any) -> Any:
            weights = torch.softmax(self.q(x) @ self.k(x).transpose(1, 2) / 4, -1)
            return self.out(self.norm(x + weights @ self.v(x)))

    torch.manual_seed(0)
    base = Attention()
    x, target = torch.randn(4, 6, 16), torch.randn(4, 6, 4)
    model = tiduc.from_torch(base, (x,), lift_constants=True)
    step = train_step(with_lora(model, ["q", "v", "out"], rank=2, alpha=4.0), "mse", "adamw")
    config = peft.LoraConfig(r=2, lora_alpha=4, target_modules=["q", "v", "out"], lora_dropout=0.0)
    theirs = peft.get_peft_model(base, config)
    given = peft.get_peft_model_state_dict(theirs)
    assert set(given) < set(step.weights)
    state = {**step.weights, **{name: tensor.numpy().copy() for name, tensor in given.items()}}
    optimizer = torch.optim.AdamW(theirs.parameters(), lr=3e-3)
    compiled, names = step.compile(), [port.name for port in step.outputs[1:]]
    for _ in range(200):
        loss, *new = compiled(*[state[name] for name in step.weights], x, target, np.float32(3e-3))
        state |= dict(zip(names, new, strict=True))
        optimizer.zero_grad()
        wanted = torch.nn.functional.mse_loss(theirs(x), target)
        wanted.backward()
        optimizer.step()
        assert abs(wanted.item() - loss) < 1e-6
    write_adapters(state, tmp_path)
    again = Attention()
    again.load_state_dict({name: torch.tensor(array) for name, array in model.weights.items()})
    again = peft.PeftModel.from_pretrained(again, tmp_path)
    np.testing.assert_allclose(again(x).detach(), theirs(x).detach(), rtol=0, atol=2e-5)
    whole = again.merge_and_unload().state_dict()
    for name, array in merged(state).items():
        np.testing.assert_allclose(array, whole[name].numpy(), rtol=0, atol=1e-6, err_msg=name)
