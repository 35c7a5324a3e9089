"""Files of `torch.export.save` give the same program with tiduc's reader and, with `trust`, with PyTorch's reader."""

import io
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiduc

torch = pytest.importorskip("torch")
from cases import archives, torch_exports  # noqa: E402  it needs PyTorch

CASES = torch_exports.cases()
SAMPLE = (
    *("a dynamic batch", "tied weights", "buffers", "names and containers", "numbers as inputs", "training"),
    *(
        "no gradient",
        "autocast",
        "branches",
        "vmap",
        "jvp",
        "several results",
        "half weights",
        "asserted sizes",
    ),
)
RESOURCE = re.compile(r"(torch_tensor_[\w.]*?(?:int|float|bool|complex)\d*)(?:_\d+)+\b")
"""The name of a constant. torch-mlir appends a number if the process has used the name before."""


def outcome(path: Path, trust: bool) -> tuple[str, dict[str, bytes], set[str]]:
    """The text of the imported program, the bytes of its weights, and the names of the weights without a gradient.

    If the import fails, the text is the error message, and the others are empty.
    """
    try:
        model = tiduc.import_model(path, lift_constants=True, trust=trust)
    except tiduc.TiducError as error:
        return error.message, {}, set()
    weights = {name: array.tobytes() for name, array in model.weights.items()}
    return RESOURCE.sub(r"\1", model.text), weights, set(model.held)


def check(program: Any, folder: Path) -> str:
    """Imports the program with tiduc's reader and with PyTorch's, asserts that the outcomes are equal, and returns the
    text.
    """
    path = folder / "model.pt2"
    torch.export.save(program, path)
    text, *rest = outcome(path, trust=False)
    assert [text, *rest] == list(outcome(path, trust=True))
    return text


def test_the_sample() -> None:
    assert set(SAMPLE) < set(CASES) and len(CASES) > 40


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in SAMPLE else pytest.mark.slow) for name in CASES]
)
def test_a_program_of_either_reader(name: str, tmp_path: Path) -> None:
    text = check(torch_exports.exported(name), tmp_path)
    assert text.startswith("module {") or name in torch_exports.REFUSED


def test_a_program_that_is_decomposed(tmp_path: Path) -> None:
    """A program that was saved after `run_decompositions` is imported, with equal outcomes of both readers."""
    assert check(torch_exports.exported("tied weights", decomposed=True), tmp_path).startswith("module {")


def test_the_values_of_a_file(tmp_path: Path) -> None:
    _, (x,), _, _ = CASES["tied weights"]
    path = tmp_path / "model.pt2"
    torch.export.save(torch_exports.exported("tied weights"), path)
    model = tiduc.import_model(path, lift_constants=True)
    assert list(model.weights) == ["first.weight", "first.bias", "row"]
    (y,) = model.compile()(*model.arguments(x.numpy()))
    torch.manual_seed(0)
    np.testing.assert_allclose(
        y, torch_exports.cases()["tied weights"][0](x).detach().numpy(), rtol=1e-5, atol=1e-6
    )


def as_of_2_8(program: Any, path: Path) -> None:
    """Writes a program's archive in the format of PyTorch 2.8, which had one pickle for all weights and one for all
    constants.
    """
    torch.export.save(program, path)
    with zipfile.ZipFile(path) as archive:
        parts = {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}
    kept = {
        name: data for name, data in parts.items() if not name.startswith(("data/weights", "data/constants"))
    }
    for folder, arrays in (("weights", program.state_dict), ("constants", program.constants)):
        file = io.BytesIO()
        torch.save(dict(arrays), file, pickle_protocol=2)
        kept[f"data/{folder}/model.pt"] = file.getvalue()
    archives.write(path, kept)


@pytest.mark.parametrize("name", ["buffers", "half weights", "tied weights", "constants"])
def test_a_file_of_pytorch_2_8(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    torch.export.save(torch_exports.exported(name), path)
    expected = outcome(path, trust=False)
    as_of_2_8(torch_exports.exported(name), path)
    assert outcome(path, trust=False) == expected


@pytest.mark.slow
def test_large_weights_need_no_memory_of_the_worker(tmp_path: Path) -> None:
    """A worker process with at most 2 GiB of memory imports a model with weights of 512 MiB, because it gets zeros
    instead of the weights.
    """
    path = tmp_path / "model.pt2"
    torch.export.save(
        torch.export.export(torch.nn.Linear(2**14, 2**13, bias=False), (torch.ones(1, 2**14),)), path
    )
    limits = tiduc.runtime.process.Limits(seconds=300, mebibytes=2048)
    model = tiduc.from_torch(path, lift_constants=True, limits=limits)
    assert model.weights["weight"].nbytes == 2**29
