"""Files that are no programs, such as weights, are refused. The message names the kind of file and what to do."""

import pickle
import zipfile
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

import tiduc
from tiduc.dialect.mlir.formats import format_of


def archive(*names: str) -> bytes:
    """A zip archive whose first member is 3 MiB of weights. It is followed by empty members with these names."""
    written = BytesIO()
    with zipfile.ZipFile(written, "w") as file:
        file.writestr("weights", bytes(3 * 2**20))
        for name in names:
            file.writestr(name, "")
    return written.getvalue()


FILES = {
    "model.safetensors": (
        save({"w": np.zeros(3, np.float32)}),
        "weights without a program",
        "torch.export.save",
    ),
    "state.pt": (archive("state/data.pkl"), "a pickle", "weights_only=True"),
    "script.pt": (
        archive("m/data.pkl", "m/code/__torch__.py", "m/constants.pkl"),
        "TorchScript",
        "torch.export.save",
    ),
    "tree.joblib": (pickle.dumps({"a": 1}), "a pickle", "torch.export.save"),
    "model.keras": (archive("config.json", "model.weights.h5"), "Keras", "model.export"),
    "model.h5": (b"\x89HDF\r\n\x1a\n", "Keras", "model.export"),
    "model.tflite": (b"\x1c\0\0\0TFL3", "TensorFlow Lite", "tf2onnx"),
    "model.gguf": (b"GGUF\x03\0\0\0", "GGUF", "gguf_file="),
    "module.txt": (b"HloModule jit_f, entry_computation_layout={}\n", "HLO", "jax.export.export"),
    "f.txt": (b"{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }", "a jaxpr", "jax.export.export"),
}


@pytest.mark.parametrize("name", FILES)
def test_the_format_of_a_file_is_named(name: str, tmp_path: Path) -> None:
    contents, what, line = FILES[name]
    path = tmp_path / name
    path.write_bytes(contents)
    for read in (tiduc.load, tiduc.import_model):
        with pytest.raises(tiduc.TiducError) as caught:
            read(path)
        error, *notes = str(caught.value).splitlines()
        assert error.startswith(f"{path}: error: ") and what in error
        assert len(notes) == 2 and all(note.startswith("note: ") for note in notes)
        assert any(line in note for note in notes)


def test_a_folder_of_tensorflow_is_named(tmp_path: Path) -> None:
    for read in (tiduc.load, tiduc.import_model):
        with pytest.raises(tiduc.TiducError, match="unknown kind of file|Is a directory"):
            read(tmp_path)
    (tmp_path / "saved_model.pb").touch()
    for read in (tiduc.load, tiduc.import_model):
        with pytest.raises(tiduc.TiducError, match="a SavedModel of TensorFlow"):
            read(tmp_path)


def test_programs_have_no_such_format(tmp_path: Path) -> None:
    program = "func.func @main(%x: tensor<f64>) -> tensor<f64> { return %x : tensor<f64> }"
    assert format_of(program.encode()) is None and format_of(b"") is None
    named_as_weights = tmp_path / "program.bin"
    named_as_weights.write_text(program)
    assert tiduc.load(named_as_weights).inputs[0].name == "x"
