"""Compares training runs with a loop in NumPy, and tests batches, schedules, validation and interrupted runs."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiduc
from tiduc.cli import run as cli
from tiduc.dialect.errors import InputError, RequestError, TiducError
from tiduc.runtime.signature import SignatureValue, TensorType
from tiduc.runtime.weights import notes_in, read_weights, write_weights
from tiduc.training import fit
from tiduc.training.batches import Batches
from tiduc.training.checkpoints import RUN
from tiduc.training.schedules import for_run
from tiduc.training.shipment import TrainStep
from tiduc.training.step import train_step

NET = """
func.func @main(%w: tensor<3x2xf32> {tidu.name = "w"}, %x: tensor<?x3xf32> {tidu.name = "x"})
    -> (tensor<?x2xf32> {tidu.name = "y"}) {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<?x3xf32>, tensor<3x2xf32>) -> tensor<?x2xf32>
  return %0 : tensor<?x2xf32>
}
"""
RNG = np.random.default_rng(0)
W, X, T = (RNG.standard_normal(n).astype(np.float32) for n in ((3, 2), (50, 3), (50, 2)))
DATA, HELD_OUT = {"x": X[:42], "target": T[:42]}, {"x": X[42:], "target": T[42:]}


@pytest.fixture(scope="module")
def step() -> TrainStep:
    model = tiduc.load(NET)
    return train_step(model, optimizer="momentum", train=["w"], infer=model)


@pytest.fixture(scope="module")
def state(step: TrainStep) -> dict[str, Any]:
    return {**step.weights, "w": W}


@pytest.fixture(scope="module")
def module(step: TrainStep, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fixture: a folder with a compiled training step, the training state, and the data."""
    place = tmp_path_factory.mktemp("run")
    step.compile().save(place / "step.vmfb")
    write_weights(place / "state.safetensors", {**step.weights, "w": W}, {"tiduc.model": "mine"})
    write_weights(place / "data.npz", DATA)
    write_weights(place / "held_out.safetensors", HELD_OUT)
    return place


def by_hand(epochs: int, batch: int, seed: int, rates: Any) -> tuple[list[float], list[float], Any]:
    """Trains in NumPy in f64, and returns the training losses, the validation losses, and the final weights."""
    w, v, losses, validations = W.astype(np.float64), np.zeros((3, 2)), [], []
    for epoch in range(epochs):
        order = np.random.default_rng([seed, epoch]).permutation(42)
        for i in range(0, 42, batch):
            x, t = X[order[i : i + batch]], T[order[i : i + batch]]
            losses.append(float(np.mean((x @ w - t) ** 2)))
            v = 0.9 * v + 2 * x.T @ (x @ w - t) / t.size
            w = w - float(rates(len(losses) - 1)) * v
        validations.append(float(np.mean((X[42:] @ w - T[42:]) ** 2)))
    return losses, validations, w


def test_a_run_is_that_of_a_loop(step: TrainStep, state: dict[str, Any]) -> None:
    """`fit` gives the losses and weights of a loop in NumPy.

    The last batch of each epoch is shorter. The schedule counts the steps of the whole run.
    """
    run = fit(
        step,
        DATA,
        state=state,
        epochs=3,
        batch=10,
        seed=5,
        rate=0.1,
        schedule="cosine",
        warm_up=4,
        end_rate=0.01,
        validation=HELD_OUT,
    )
    losses, validations, w = by_hand(3, 10, 5, for_run("cosine", 0.1, 15, 4, 0.01))
    np.testing.assert_allclose(run.losses, losses, rtol=1e-5)
    np.testing.assert_allclose(run.validations, validations, rtol=1e-5)
    np.testing.assert_allclose(run.state["w"], w, rtol=1e-4, atol=1e-5)
    assert set(run.state) == {"w", "w.velocity"}


def command(module: Path, *words: str) -> list[str]:
    files = "--state state.safetensors --data data.npz --validate held_out.safetensors".split()
    return ["train", str(module / "step.vmfb"), *[str(module / x) if "." in x else x for x in files], *words]


def test_the_command(module: Path, tmp_path: Path, capsys: Any) -> None:
    """The command saves the state with the least validation loss, and keeps the metadata of the initial state.

    The file of metrics has a record of each step and of each validation.
    """
    saved, metrics = str(tmp_path / "best.safetensors"), str(tmp_path / "m.jsonl")
    words = [
        "--batch",
        "10",
        "--epochs",
        "4",
        "--rate",
        "0.3",
        "--seed",
        "7",
        "--save",
        saved,
        "--metrics",
        metrics,
    ]
    assert cli(command(module, *words)) == 0
    losses, validations, _ = by_hand(4, 10, 7, lambda i: 0.3)
    records = [json.loads(line) for line in Path(metrics).read_text().splitlines()]
    steps, epochs = ([r for r in records if key in r] for key in ("loss", "mean"))
    np.testing.assert_allclose([r["loss"] for r in steps], losses, rtol=1e-4)
    np.testing.assert_allclose([r["validation"] for r in epochs], validations, rtol=1e-4)
    assert [r["step"] for r in steps] == list(range(1, 21)) and {r["rate"] for r in steps} == {
        float(np.float32(0.3))
    }
    best = int(np.argmin(validations)) + 1
    assert max(r["epoch"] for r in epochs if r["best"]) == best
    np.testing.assert_allclose(
        read_weights(saved)["w"], by_hand(best, 10, 7, lambda i: 0.3)[2], rtol=1e-4, atol=1e-5
    )
    assert notes_in(saved) == {"tiduc.model": "mine"}
    assert "epoch 4: loss" in capsys.readouterr().err


@pytest.mark.more
def test_a_plot(module: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    assert cli(command(module, "--epochs", "2", "--plot", str(tmp_path / "loss.png"))) == 0
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")


def killed(module: Path, folder: Path, after: int) -> Iterator[int]:
    """Kills the training command after every `after` new records of metrics, and restarts it until it ends.

    Yields the number of records at each kill. If `after` is 0, the command is never killed.
    """
    words = ["--batch", "4", "--epochs", "30", "--rate", "0.05", "--schedule", "cosine", "--every", "0"]
    files = {"--save": "best.safetensors", "--checkpoint": "run.safetensors", "--metrics": "m.jsonl"}
    given = [word for option, name in files.items() for word in (option, str(folder / name))]
    metrics, seen = folder / "m.jsonl", 0
    while True:
        line = [sys.executable, "-m", "tiduc", "--quiet", *command(module, *words, *given)]
        process = subprocess.Popen(line, start_new_session=True, stdin=subprocess.DEVNULL)
        while process.poll() is None and after:
            if metrics.exists() and (count := metrics.read_bytes().count(b"\n")) >= seen + after:
                os.killpg(process.pid, signal.SIGKILL)
                seen = count
                break
            time.sleep(0.001)
        code = process.wait()
        if code != -signal.SIGKILL:
            assert code == 0
            return
        yield seen


@pytest.mark.more
def test_killed_runs_go_on_with_equal_losses(module: Path, tmp_path: Path) -> None:
    """A run that is killed and restarted several times writes the same bytes as an uninterrupted run."""
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    for folder in (whole, broken):
        folder.mkdir()
    assert list(killed(module, whole, 0)) == []
    kills = list(killed(module, broken, 80))
    assert len(kills) >= 2
    for name in ("m.jsonl", "best.safetensors"):
        assert (broken / name).read_bytes() == (whole / name).read_bytes(), name
    assert (broken / "m.jsonl").read_bytes().count(b"\n") == 30 * 11 + 30


def test_checkpoints_of_other_runs_are_refused(
    step: TrainStep, state: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "run.safetensors"
    given: dict[str, Any] = {"state": state, "batch": 10, "rate": 0.1, "checkpoint": path}
    fit(step, DATA, **given)
    assert RUN in notes_in(path)
    more = fit(step, DATA, **{**given, "epochs": 2})  # a run with a constant rate may be prolonged
    np.testing.assert_allclose(more.losses, by_hand(2, 10, 0, lambda i: 0.1)[0][5:], rtol=1e-5)
    for other, message in (
        ({"seed": 1}, "another seed"),
        ({"batch": 9}, "another size of a batch"),
        ({"rate": 0.2}, "another schedule of rates"),
        ({"checkpoint": tmp_path / "run.npz"}, "a checkpoint is a .safetensors file"),
    ):
        with pytest.raises(RequestError, match=message):
            fit(step, DATA, **{**given, **other})
    with pytest.raises(RequestError, match="another data set"):
        fit(step, {**DATA, "x": X[:42] + 1}, **given)
    write_weights(path, state)
    with pytest.raises(InputError, match="not a checkpoint of a run"):
        fit(step, DATA, **given)


def test_refused(step: TrainStep, state: dict[str, Any], module: Path) -> None:
    with pytest.raises(TiducError, match=r"the loss of step \d+ is"):
        fit(step, DATA, state=state, epochs=500, rate=1e4)
    with pytest.raises(RequestError, match="needs the state to begin from"):
        fit(module / "step.vmfb", DATA)
    with pytest.raises(InputError, match="the state has no array 'w'"):
        fit(step, DATA)
    with pytest.raises(InputError, match="no array 'target'; it has: x"):
        fit(step, {"x": X}, state=state)
    with pytest.raises(InputError, match="the step has no input 'v' of the state"):
        fit(step, DATA, state={**state, "v": W})
    plain = tiduc.load(NET)
    with pytest.raises(RequestError, match="the module is not a training step"):
        fit(plain.compile().vmfb, DATA, state=state)
    with pytest.raises(RequestError, match="--infer"):
        fit(train_step(plain, train=["w"]), DATA, state={"w": W}, validation=HELD_OUT)


def inputs(**types: str) -> list[SignatureValue]:
    return [SignatureValue(name, TensorType.parse(text)) for name, text in types.items()]


def test_batches() -> None:
    data = {"x": np.arange(20.0).reshape(10, 2), "t": np.arange(10), "more": np.zeros(3)}
    taken = inputs(x="?x2xf32", t="?xi32")
    batches = Batches(data, taken, 4)
    epochs = [list(batches.shuffled(1, epoch)) for epoch in (0, 1)]
    for epoch in epochs:
        assert [len(each["t"]) for each in epoch] == [4, 4, 2]
        rows = np.concatenate([each["t"] for each in epoch])
        assert sorted(rows) == list(range(10)) and rows.dtype == np.int32
        np.testing.assert_array_equal(np.concatenate([each["x"] for each in epoch])[:, 0], 2 * rows)
    assert [list(a["t"]) for a in epochs[0]] != [list(a["t"]) for a in epochs[1]]
    assert [list(a["t"]) for a in batches.shuffled(1, 0, 1)] == [list(a["t"]) for a in epochs[0][1:]]
    fixed = Batches(data, inputs(x="3x2xf32", t="3xi32"))
    assert (len(fixed), fixed.left_out) == (3, 1)
    for wrong, given, size, message in (
        (data, inputs(x="?x3xf32"), 4, "'x' has the shape"),
        (data, inputs(x="?x2xi32"), 4, "the element type float64, and the step takes int32"),
        ({"t": np.array([1, 300])}, inputs(t="?xi8"), 1, "numbers that int8 cannot hold"),
        (data, inputs(x="?x2xf32", more="?xf32"), 4, "different numbers of rows"),
        (data, inputs(x="16x2xf32"), None, "fewer than a batch of 16"),
        (data, inputs(x="3x2xf32"), 4, "batches of 4 do not fit"),
        (data, inputs(x="f32"), 4, "no dimension for the rows"),
    ):
        with pytest.raises((InputError, RequestError), match=message):
            Batches(wrong, given, size)
