"""Learning-rate schedules equal their formulas and PyTorch's schedules.

The training state is saved in a safetensors file.
"""

from pathlib import Path

import numpy as np
import pytest
from test_training import LINEAR, W, model

from tiduc.dialect.errors import RequestError
from tiduc.runtime.weights import read_weights, write_weights
from tiduc.training.schedules import Schedule, constant, cosine, step_decay, warm_up
from tiduc.training.step import train_step


def rates(schedule: Schedule, count: int) -> list[float]:
    values = [schedule(n) for n in range(count)]
    assert all(value.dtype == np.float32 for value in values)
    return [float(value) for value in values]


def test_formulas() -> None:
    np.testing.assert_allclose(rates(constant(0.3), 3), [0.3] * 3, rtol=1e-6)
    half = 0.1 + 0.2 * (1 + np.cos(np.pi / 4)) / 2
    np.testing.assert_allclose(rates(cosine(0.3, 4, 0.1), 6)[1:5], [half, 0.2, 0.4 - half, 0.1], rtol=1e-6)
    np.testing.assert_allclose(rates(cosine(0.3, 4, 0.1), 9)[5:], [0.1] * 4, rtol=1e-6)
    np.testing.assert_allclose(rates(step_decay(1, 2, 0.5), 5), [1, 1, 0.5, 0.5, 0.25])
    warm = rates(warm_up(step_decay(1, 1, 0.5), 4), 7)
    np.testing.assert_allclose(warm, [0.25, 0.5, 0.75, 1, 1, 0.5, 0.25])


def test_pytorch() -> None:
    torch = pytest.importorskip("torch")
    for ours, name, arguments in (
        (cosine(0.3, 8, 0.01), "CosineAnnealingLR", (8, 0.01)),
        (step_decay(0.3, 3, 0.2), "StepLR", (3, 0.2)),
    ):
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], 0.3)
        theirs = getattr(torch.optim.lr_scheduler, name)(optimizer, *arguments)
        expected = []
        for _ in range(8):
            expected.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            theirs.step()
        np.testing.assert_allclose(rates(ours, 8), expected, rtol=1e-6)


def test_refused() -> None:
    with pytest.raises(RequestError, match="steps must be at least 1, not 0"):
        cosine(0.1, 0)
    with pytest.raises(RequestError, match="rate must be at least 0, not nan"):
        constant(float("nan"))


def test_state_in_a_safetensors_file(tmp_path: Path) -> None:
    """The library safetensors reads the state that `write_weights` writes, and tiduc reads the files that the library
    writes.
    """
    numpy_files = pytest.importorskip("safetensors.numpy")
    step, file = train_step(model(LINEAR, w=W), "mse", "adamw"), tmp_path / "state.safetensors"
    write_weights(file, step.weights)
    theirs = numpy_files.load_file(file)
    assert set(theirs) == {"w", "step", "w.first_moment", "w.second_moment"}
    np.testing.assert_array_equal(theirs["w"], W)
    numpy_files.save_file({name: np.asarray(x + 1) for name, x in theirs.items()}, file)
    again = step.with_weights(read_weights(file))
    np.testing.assert_array_equal(again.weights["w"], W + 1)
    assert again.weights["step"] == 1
