"""The names of the inputs that a training step trains."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tiduc.cli import run as cli
from tiduc.dialect.errors import RequestError
from tiduc.dialect.mlir.context import parse
from tiduc.models.model import model_of
from tiduc.training.step import train_step

LINEAR = """func.func @main(%w: tensor<3x2xf64> {tidu.name = "w"}, %x: tensor<4x3xf64> {tidu.name = "x"})
    -> (tensor<4x2xf64> {tidu.name = "y"}) {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<4x3xf64>, tensor<3x2xf64>) -> tensor<4x2xf64>
  return %0 : tensor<4x2xf64>
}"""


def test_a_pattern_of_all_names_trains_weights_and_not_the_batch(tmp_path: Path, capsys: Any) -> None:
    """If a model has weights, its other inputs are not trained, even if a pattern matches their names."""
    of_weights = model_of(parse(LINEAR), {"w": np.ones((3, 2))})
    step = train_step(of_weights, "mse", train=["*"])
    assert step.text == train_step(of_weights, "mse", train=["w"]).text
    assert [port.name for port in step.outputs] == ["loss", "w"]
    with pytest.raises(
        RequestError, match="'x' is an input of the model, not a weight: it cannot be trained"
    ):
        train_step(of_weights, "mse", train=["*", "x"])
    two, out = tmp_path / "two.mlir", str(tmp_path / "step.mlir")
    two.write_text(LINEAR)  # without weights, every float input is a parameter
    assert cli(["train-step", str(two), "--train", "*", "-o", out]) == 0
    assert capsys.readouterr().err.splitlines()[0] == "trains: w, x"
