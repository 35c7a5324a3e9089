"""Untrusted models: code in a file is not run, and other files are not read."""

import io
import json
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiduc
from tiduc.cli import run
from tiduc.dialect.errors import CompileError, TiducError
from tiduc.models.torch.dialect import import_in_worker
from tiduc.models.torch.untrusted import without_pickles
from tiduc.runtime.process import Limits

Contents = dict[str, bytes]
_MODEL, _WEIGHTS = "models/model.json", "data/weights/model_weights_config.json"
_SIZE = "Symbol('s77', positive=True, integer=True)"


class Evil:
    """An object that creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


def saved(x: Any) -> bytes:
    """The file that PyTorch writes for an object."""
    import torch

    file = io.BytesIO()
    torch.save(x, file)
    return file.getvalue()


def changed(contents: Contents, name: str, **entries: Any) -> Contents:
    return {name: json.dumps({**json.loads(contents[name]), **entries}).encode()}


def sample_input(contents: Contents, mark: Path) -> Contents:
    return {"data/sample_inputs/model.pt": saved(((Evil(mark),), {}))}


def pickled_weight(contents: Contents, mark: Path) -> Contents:
    config = json.loads(contents[_WEIGHTS])["config"]
    config["weight"]["use_pickle"] = True
    return {**changed(contents, _WEIGHTS, config=config), "data/weights/weight_0": saved(Evil(mark))}


def old_weights(contents: Contents, mark: Path) -> Contents:
    return {"data/weights/model.pt": saved({"weight": Evil(mark)})}


def opaque_object(contents: Contents, mark: Path) -> Contents:
    entry = {"path_name": "opaque_obj_0", "is_param": False, "use_pickle": True, "tensor_meta": None}
    name = "data/constants/model_constants_config.json"
    held = {"data/constants/opaque_obj_0": pickle.dumps(Evil(mark))}
    return {**changed(contents, name, config={"c": entry}), **held}


def expression(contents: Contents, mark: Path) -> Contents:
    return _with_size(contents, f"__import__('os').mkdir('{mark}')")


def text_in_expression(contents: Contents, mark: Path) -> Contents:
    return _with_size(contents, f"sin('__import__(chr(111)+chr(115)).mkdir(\"{mark}\")')")


def _with_size(contents: Contents, size: str) -> Contents:
    model = contents[_MODEL].decode()
    start = model.index('"expr_str": ') + len('"expr_str": ')
    return {_MODEL: (model[:start] + json.dumps(size) + model[model.index(", ", start + 30) :]).encode()}


def type_of_an_argument(contents: Contents, mark: Path) -> Contents:
    (mark.parent / "stranger.py").write_text(f"import os\nos.mkdir({str(mark)!r})\n")
    context = json.dumps({"__enum__": True, "fqn": "stranger:Kind", "name": "ONE"})
    node = {"type": "builtins.tuple", "context": context, "children_spec": []}
    model = contents[_MODEL].decode()
    start = model.index('"in_spec": ') + len('"in_spec": ')
    spec = json.dumps(json.dumps([1, node]))
    _, end = json.JSONDecoder().raw_decode(model, start)
    return {_MODEL: (model[:start] + spec + model[end:]).encode()}


def machine_code(contents: Contents, mark: Path) -> Contents:
    return {"data/aotinductor/model/model.so": b"\x7fELF"}


ATTACKS: list[tuple[Callable[[Contents, Path], Contents], str]] = [
    (sample_input, "would run a pickle that calls posix.mkdir"),
    (pickled_weight, "would run a pickle that calls posix.mkdir"),
    (old_weights, "would run a pickle that calls posix.mkdir"),
    (opaque_object, "would make objects"),
    (expression, "would evaluate"),
    (text_in_expression, "would evaluate"),
    (type_of_an_argument, "would import stranger"),
    (machine_code, "would link machine code"),
]


@pytest.fixture(scope="module")
def contents(tmp_path_factory: pytest.TempPathFactory) -> Contents:
    """The members of `torch.export.save`'s file for a model with a dynamic batch size."""
    torch = pytest.importorskip("torch")
    path = tmp_path_factory.mktemp("export") / "model.pt2"
    sizes = {"input": {0: torch.export.Dim("batch", min=2, max=99)}}
    exported = torch.export.export(torch.nn.Linear(3, 2), (torch.ones(2, 3),), dynamic_shapes=sizes)
    torch.export.save(exported, path)
    with zipfile.ZipFile(path) as archive:
        return {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}


def write(path: Path, contents: Contents) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in contents.items():
            archive.writestr(f"{path.stem}/{name}", data)
    return path


@pytest.mark.parametrize(("attack", "message"), ATTACKS, ids=[attack.__name__ for attack, _ in ATTACKS])
def test_an_export_from_a_stranger(
    attack: Any, message: str, contents: Contents, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    mark = tmp_path / "ran"
    path = write(tmp_path / "model.pt2", contents | attack(contents, mark))
    with pytest.raises(TiducError, match=rf"model\.pt2: error: reading the file {message}.*--trust"):
        tiduc.from_torch(path)
    assert not mark.exists()


def test_an_export_that_is_trusted(contents: Contents, tmp_path: Path) -> None:
    import torch

    mark, output = tmp_path / "ran", tmp_path / "model.mlir"
    attacked = contents | pickled_weight(contents, mark)
    weight = saved(torch.nn.Parameter(torch.ones(2, 3)))
    path = write(tmp_path / "model.pt2", attacked | {"data/weights/weight_0": weight})
    assert run(["import", str(path), "-o", str(output)]) == 1 and not output.exists()
    assert run(["import", str(path), "--trust", "-o", str(output)]) == 0 and output.exists()
    with pytest.raises(TiducError):  # since the unpickled value is not a parameter
        tiduc.import_model(write(path, attacked), trust=True)
    assert mark.exists()


def test_an_export_without_other_programs(contents: Contents, tmp_path: Path) -> None:
    path = write(tmp_path / "model.pt2", contents)
    program = tiduc.import_model(path, lift_constants=True)
    assert [port.name for port in program.inputs] == ["weight", "bias", "input"]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda name, data: None if name == "archive_format" else data,
            "failed locating file archive_format",
        ),
        (lambda name, data: data.replace(b"aten.linear", b"aten.lineal"), "aten.lineal"),
    ],
    ids=["a part missing", "an unknown op"],
)
def test_a_damaged_export(
    damage: Any, message: str, contents: Contents, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The error has PyTorch's reason, whose traceback PyTorch does not print."""
    kept = {name: damage(name, data) for name, data in contents.items()}
    path = write(tmp_path / "model.pt2", {name: data for name, data in kept.items() if data is not None})
    with pytest.raises(TiducError, match=rf"model\.pt2: error: not a program written by .*{message}"):
        tiduc.import_model(path)
    assert capfd.readouterr().err == ""


def test_pickles_outside_of_imports_are_still_read(contents: Contents, tmp_path: Path) -> None:
    tiduc.from_torch(write(tmp_path / "model.pt2", contents))  # after which Python is watched
    assert pickle.loads(pickle.dumps(Path("x"))) == Path("x")


def test_exports_of_jax_hold_no_pickles(tmp_path: Path) -> None:
    jax = pytest.importorskip("jax")
    exported = jax.export.export(jax.jit(lambda x: {"y": [x["x"] * 2]}))({"x": np.ones(2, np.float32)})
    path = tmp_path / "model.jaxexport"
    path.write_bytes(exported.serialize())
    with without_pickles(str(path)):
        assert tiduc.import_model(path).outputs[0].name == "result['y'][0]"
        with pytest.raises(PermissionError):
            pickle.loads(pickle.dumps(Path("x")))


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
