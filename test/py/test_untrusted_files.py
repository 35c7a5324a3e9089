"""Untrusted files of each kind other than `.pt2`: what cannot run, which files are not read, and which limits hold."""

import os
from pathlib import Path

import numpy as np
import pytest

import tiduc
from tiduc.dialect.errors import CompileError, TiducError
from tiduc.models.torch.dialect import import_in_worker
from tiduc.runtime.process import Limits

# ---- limits ------------------------------------------------------------------------------------------------


def test_an_import_that_takes_all_memory() -> None:
    torch = pytest.importorskip("torch")

    with pytest.raises(CompileError, match="import of the model by torch-mlir needs more than the 256 MiB"):
        import_in_worker(bytearray, Limits(60, 256), 2**29)
    module, x = torch.nn.Tanh(), torch.ones(2)
    assert tiduc.from_torch(module, (x,)).outputs[0].name == "result0"


# ---- ONNX --------------------------------------------------------------------------------------------------


def external(folder: Path, location: str, element: str) -> Path:
    """A model that adds an array from a file."""
    onnx = pytest.importorskip("onnx")
    kind = onnx.TensorProto.DataType.Value(element)
    tensor = onnx.TensorProto(name="w", data_type=kind, dims=[2], data_location=onnx.TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=location)
    ends = [[onnx.helper.make_tensor_value_info(name, kind, [2])] for name in "xy"]
    node = onnx.helper.make_node("Add", ["x", "w"], ["y"])
    graph = onnx.helper.make_graph([node], "model", *ends, [tensor])
    path = folder / "model.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)]), path)
    return path


@pytest.mark.parametrize("element", ["FLOAT", "INT64"])  # which become inputs, or stay where they are
@pytest.mark.parametrize("kind", ["above", "absolute", "link", "folder", "device", "pipe"])
def test_arrays_outside_of_the_model_s_folder(kind: str, element: str, tmp_path: Path) -> None:
    secret, folder = tmp_path / "secret.bin", tmp_path / "model"
    secret.write_bytes(bytes(16))
    folder.mkdir()
    (folder / "link.bin").symlink_to(secret)
    (folder / "folder").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe")
    locations = {
        "above": "../secret.bin",
        "absolute": str(secret),
        "link": "link.bin",
        "folder": "folder/secret.bin",
        "device": "/dev/zero",
        "pipe": "pipe",
    }
    with pytest.raises(TiducError, match="cannot read the arrays of"):
        tiduc.from_onnx(external(folder, locations[kind], element), lift_constants=True)


@pytest.mark.parametrize("element", ["FLOAT", "INT64"])
def test_arrays_within_the_model_s_folder(element: str, tmp_path: Path) -> None:
    (tmp_path / "arrays").mkdir()
    array = np.array([1, 2], np.float32 if element == "FLOAT" else np.int64)
    (tmp_path / "arrays" / "w.bin").write_bytes(array.tobytes())
    model = tiduc.from_onnx(external(tmp_path, "arrays/w.bin", element))
    assert model.text == (isolated := tiduc.import_model(tmp_path / "model.onnx", isolated=True)).text
    np.testing.assert_array_equal(isolated.compile()(array)[0], 2 * array)
