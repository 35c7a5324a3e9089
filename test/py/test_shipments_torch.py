"""Training and inference of a PyTorch model in one module. The trained weights can be loaded into PyTorch."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiduc
import tiduc.runtime
from tiduc.cli import run as cli
from tiduc.runtime.weights import read_weights, write_weights
from tiduc.training import fit

torch = pytest.importorskip("torch")


def network() -> Any:
    """A network with batch norm and dropout, which differ between training mode and evaluation mode."""
    torch.manual_seed(0)
    conv, norm = torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4)
    head = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Dropout(0.5), torch.nn.Linear(64, 3))
    return torch.nn.Sequential(conv, norm, torch.nn.ReLU(), head)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the exports of a network in both modes, the compiled module, and the state after five training
    steps.
    """
    place = tmp_path_factory.mktemp("net")
    net = network()
    for mode, count in (("train", 8), ("eval", 2)):
        exported = torch.export.export(getattr(net, mode)(), (torch.ones(count, 1, 6, 6),))
        torch.export.save(exported, place / f"{mode}.pt2")
    words = ["--loss", "softmax-cross-entropy", "--optimizer", "adam", "--infer", str(place / "eval.pt2")]
    files = ["--state", str(place / "state.safetensors"), "-o", str(place / "step.vmfb")]
    assert cli(["train-step", str(place / "train.pt2"), *words, *files]) == 0
    rng = np.random.default_rng(0)
    data = {"input": rng.standard_normal((40, 1, 6, 6), np.float32), "target": rng.integers(0, 3, 40)}
    np.savez(place / "data.npz", **data)
    state = read_weights(place / "state.safetensors")
    trained = fit(place / "step.vmfb", data, state=state, rate=0.01)
    write_weights(place / "trained.safetensors", trained.state)
    assert len(trained.losses) == 5 and len(set(trained.losses)) == 5
    return place


def inferred(folder: Path, x: Any) -> Any:
    """The scores that the module's function `infer` computes with the trained state."""
    state = read_weights(folder / "trained.safetensors")
    with tiduc.runtime.load(folder / "step.vmfb") as module:
        infer = module["infer"]
        return infer(*({**state, "input": x}[value.name] for value in infer.signature.inputs))[0]


X = np.random.default_rng(1).standard_normal((2, 1, 6, 6)).astype(np.float32)


def test_a_state_dict(folder: Path) -> None:
    """PyTorch loads the exported weights, including counters, strictly.

    In evaluation mode it computes the scores of `infer`.
    """
    from safetensors.torch import load_file

    words = [
        str(folder / "eval.pt2"),
        str(folder / "trained.safetensors"),
        "-o",
        str(folder / "weights.safetensors"),
    ]
    assert cli(["export", *words]) == 0
    net = network()
    net.load_state_dict(load_file(folder / "weights.safetensors"))
    wanted = net.eval()(torch.tensor(X)).detach().numpy()
    np.testing.assert_allclose(inferred(folder, X), wanted, rtol=0, atol=1e-5)
    assert not np.allclose(network().eval()(torch.tensor(X)).detach().numpy(), wanted, atol=1e-3)


@pytest.mark.parametrize("mode", ["eval", "train"])
def test_a_file_of_pytorch(folder: Path, mode: str) -> None:
    """The exported .pt2 file has the trained weights and runs in PyTorch.

    In training mode, its running mean starts from the trained one.
    """
    words = [
        str(folder / f"{mode}.pt2"),
        str(folder / "trained.safetensors"),
        "-o",
        str(folder / f"new_{mode}.pt2"),
    ]
    assert cli(["export", *words]) == 0
    program = torch.export.load(folder / f"new_{mode}.pt2")
    state = read_weights(folder / "trained.safetensors")
    for name, array in program.state_dict.items():
        if name in state:
            np.testing.assert_array_equal(array.detach().numpy(), state[name])
    if mode == "eval":
        scores = program.module()(torch.tensor(X)).detach().numpy()
        np.testing.assert_allclose(inferred(folder, X), scores, rtol=0, atol=1e-5)
    again = tiduc.from_torch(folder / f"new_{mode}.pt2", lift_constants=True)
    assert all(np.array_equal(x, state[name]) for name, x in again.weights.items())


def test_validation_is_in_evaluation_mode(folder: Path) -> None:
    """The validation loss is that of evaluation mode: it has no dropout, and uses the running statistics."""
    with np.load(folder / "data.npz") as arrays:
        data = dict(arrays)
    state = read_weights(folder / "state.safetensors")
    run = fit(folder / "step.vmfb", data, state=state, rate=0.0, validation=data)
    net = network().train()
    with torch.no_grad():  # with learning rate 0, a step changes only the running statistics
        order = np.random.default_rng([0, 0]).permutation(40)
        for i in range(5):
            net(torch.tensor(data["input"][order[8 * i : 8 * i + 8]]))
        scores, labels = net.eval()(torch.tensor(data["input"])), torch.tensor(data["target"])
        wanted = torch.nn.functional.cross_entropy(scores, labels)
    assert run.validations == pytest.approx([float(wanted)], abs=1e-5)


def test_training_mode_is_refused_for_inference(folder: Path, capsys: Any) -> None:
    words = [
        "--loss",
        "softmax-cross-entropy",
        "--infer",
        str(folder / "train.pt2"),
        "-o",
        str(folder / "no.vmfb"),
    ]
    assert cli(["train-step", str(folder / "train.pt2"), *words]) == 1
    assert "the model for inference is in training mode: it updates 1.running_mean" in capsys.readouterr().err
