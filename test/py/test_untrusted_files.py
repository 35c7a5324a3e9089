"""Untrusted files of all kinds except `.pt2`: they cannot run code, read other files, or exceed limits of resources."""

import io
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

import tiduc
from tiduc.dialect.errors import CompileError, TiducError
from tiduc.models.torch.dialect import import_in_worker
from tiduc.runtime.process import Limits

ROOT = Path(__file__).parents[2]
WATCHED = f"""
import sys
sys.path[:0] = [{str(ROOT)!r}, *({str(ROOT)!r} + "/test/" + name for name in ("py", "fuzz"))]
from pathlib import Path
import tiduc
from tiduc.runtime import worker
from tiduc.runtime.weights import read_weights
import watch

worker._serving = True  # this process does what a worker would do
good, bad = map(Path, sys.argv[1:])
read = read_weights if good.suffix in (".npz", ".safetensors", ".irpa") else tiduc.import_model
read(good)
for path in (good, bad):
    with watch.watched(path.parent):
        try:
            read(path)
            print("read")
        except tiduc.TiducError as error:
            print(error.message)
"""
"""A script that reads a good file, so that libraries are loaded, and then the good and the bad file.

It fails if the process does more than read them.
"""


class Evil:
    """An object that creates a folder when it is unpickled."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("ran",)


def arrays(suffix: str) -> bytes:
    """The bytes of a file of this kind that contains one array."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"x{suffix}"
        tiduc.write_weights(path, {"w": np.arange(3, dtype=np.float32)})
        return path.read_bytes()


def npz() -> tuple[bytes, bytes]:
    bad = io.BytesIO()
    np.savez(bad, w=np.array([Evil()], object))
    return arrays(".npz"), bad.getvalue()


def safetensors() -> tuple[bytes, bytes]:
    """A good file, and a file whose header claims to have 2^62 bytes."""
    pytest.importorskip("safetensors")
    good = arrays(".safetensors")
    return good, (2**62).to_bytes(8, "little") + good[8:]


def irpa() -> tuple[bytes, bytes]:
    """A good archive, and an archive that ends before the array."""
    good = arrays(".irpa")
    return good, good[:80]


def onnx() -> tuple[bytes, bytes]:
    pytest.importorskip("onnx")
    with TemporaryDirectory() as folder:
        (Path(folder) / "w.bin").write_bytes(bytes(8))
        model = external(Path(folder), "/etc/passwd", "FLOAT").read_bytes()
    return plain_onnx(), model


def plain_onnx() -> bytes:
    from onnx import TensorProto, helper

    ends = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, [2])] for name in "xy"]
    graph = helper.make_graph([helper.make_node("Tanh", ["x"], ["y"])], "model", *ends)
    return bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]).SerializeToString())


def jaxexport() -> tuple[bytes, bytes]:
    """An export with containers as arguments, and a pickle in place of an export."""
    jax = pytest.importorskip("jax")
    exported = jax.export.export(jax.jit(lambda x: {"y": [x["x"] * 2]}))({"x": np.ones(2, np.float32)})
    return bytes(exported.serialize()), pickle.dumps(Evil())


def mlir() -> tuple[bytes, bytes]:
    """A good program, and a program that calls a function of a library by name."""
    text = "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> { %y = OP %x : BODY\n return %y : tensor<2xf32> }"
    good = text.replace("OP", "stablehlo.tanh").replace("BODY", "tensor<2xf32>")
    bad = text.replace("OP %x", "stablehlo.custom_call @system(%x)").replace(
        "BODY", "(tensor<2xf32>) -> tensor<2xf32>"
    )
    return good.encode(), bad.encode()


REFUSED: dict[Callable[[], tuple[bytes, bytes]], str] = {
    npz: "not a .npy or .npz file of numbers",
    safetensors: "not a file of arrays",
    irpa: "not a file of arrays",
    onnx: "cannot read the arrays of",
    jaxexport: "not a serialized export of JAX",
    mlir: "read",  # the file is read, which does not run the call
}
"""Functions that return the bytes of a good and of a bad file, each with the error message for the bad file."""


@pytest.mark.parametrize("kind", REFUSED, ids=lambda kind: kind.__name__)
def test_a_file_runs_nothing(kind: Callable[[], tuple[bytes, bytes]], tmp_path: Path) -> None:
    good, bad = kind()
    paths = [tmp_path / name / f"model.{kind.__name__}" for name in ("good", "bad")]
    for path, data in zip(paths, (good, bad), strict=True):
        path.parent.mkdir()
        path.write_bytes(data)
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, *map(str, paths)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == "read" and REFUSED[kind] in second
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad", "good"]


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("open('/etc/passwd')", "open"),
        ("open('x', 'w').close()", "open"),
        ("import os; os.mkdir('x')", "os.mkdir"),
        ("import os; os.system('true')", "os.system"),
        ("import subprocess; subprocess.run(['true'])", "subprocess.Popen"),
        ("import pickle; pickle.loads(pickle.dumps(Path))", "pickle.find_class"),
        ("import ctypes; ctypes.CDLL('libc.so.6')", "ctypes.dlopen"),
        ("import socket; socket.socket().close()", "socket"),
        ("import time; [None for t in iter(time.process_time, 0) if t > end and 1 / 0]", "processor time"),
    ],
)
def test_the_watch_sees(what: str, told: str, tmp_path: Path) -> None:
    paths = [str(ROOT), *(str(ROOT / "test" / name) for name in ("py", "fuzz"))]
    program = f"""
import sys
sys.path[:0] = {paths!r}
from pathlib import Path
import time, watch
watch.PROCESSOR_SECONDS, end = 0.2, time.process_time() + 0.5
import pickle, socket, ctypes, subprocess
try:
    with watch.watched(Path({str(tmp_path)!r})):
        exec({what!r})
except watch.Outside as error:
    print(error)
except ZeroDivisionError:
    pass
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert told in done.stdout, done.stderr


def test_a_compiled_module_is_no_program(tmp_path: Path) -> None:
    """Functions that read a program refuse a compiled module, and do not load its machine code."""
    path = tmp_path / "model.vmfb"
    path.write_bytes(b"PK")
    with pytest.raises(TiducError, match="unknown kind of file"):
        tiduc.import_model(path)
    with pytest.raises(TiducError):
        tiduc.load(path)


# ---- limits ------------------------------------------------------------------------------------------------


def test_an_import_that_takes_all_memory() -> None:
    torch = pytest.importorskip("torch")

    with pytest.raises(CompileError, match="import of the model by torch-mlir needs more than the 256 MiB"):
        import_in_worker(bytearray, Limits(60, 256), 2**29)
    module, x = torch.nn.Tanh(), torch.ones(2)
    assert tiduc.from_torch(module, (x,)).outputs[0].name == "result0"


# ---- ONNX --------------------------------------------------------------------------------------------------


def external(folder: Path, location: str, element: str) -> Path:
    """The path of an ONNX model that adds an array to its input. The array is in an external file."""
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


@pytest.mark.parametrize("element", ["FLOAT", "INT64"])  # become inputs, or remain external arrays
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


def malformed(kind: str) -> bytes:
    """The bytes of a malformed ONNX model, which adds an array to its input and has the fault `kind`."""
    onnx = pytest.importorskip("onnx")
    helper, types = onnx.helper, onnx.TensorProto
    w = onnx.numpy_helper.from_array(np.ones(4, np.float32), "w")
    ends = {name: helper.make_tensor_value_info(name, types.FLOAT, [4]) for name in "xy"}
    nodes, version = [helper.make_node("Add", ["x", "w"], ["y"])], 21
    inputs, outputs = [ends["x"]], [ends["y"]]
    if kind == "version":
        version = 9999
    elif kind == "no version":
        version = 0
    elif kind == "type of an array":
        w.data_type = 99
    elif kind == "type of a constant":
        w.data_type = 99
        nodes.insert(0, helper.make_node("Constant", [], ["w"], value=w))
    elif kind == "type of an input":
        ends["x"].type.tensor_type.elem_type = 99
    elif kind == "type of a cast":
        nodes = [helper.make_node("Cast", ["x"], ["y"], to=99)]
    elif kind == "size":
        w.dims[0] = -4
    elif kind in ("short int4", "short int4 in numbers"):
        w = types(name="v", data_type=types.INT4, dims=[8])
        if kind == "short int4":
            w.raw_data = b"\1"
        else:
            w.int32_data.append(1)
        nodes = [helper.make_node("Cast", ["v"], ["w"], to=types.FLOAT), *nodes]
    elif kind == "large size":
        w = types(name="v", data_type=types.INT64, dims=[2**40])
        nodes = [helper.make_node("Cast", ["v"], ["w"], to=types.FLOAT), *nodes]
    elif kind == "two inputs":
        inputs *= 2
    elif kind == "two outputs":
        outputs *= 2
    elif kind == "two nodes":
        nodes.append(helper.make_node("Mul", ["x", "w"], ["y"]))
    initializers = [] if kind in ("type of a cast", "type of a constant") else [w]
    graph = helper.make_graph(nodes, "model", inputs, outputs, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)])
    return bytes(model.SerializeToString())


FAULTS = {
    "version": "the model has version 9999 of ONNX's operators, and the installed onnx knows 1 to",
    "no version": "the model has version 0 of ONNX's operators, and the installed onnx knows 1 to",
    "type of an array": "'w' has an unknown element type: 99",
    "type of a constant": "'w' has an unknown element type: 99",
    "type of an input": "'x' has an unknown element type: 99",
    "type of a cast": "'y' has an unknown element type: 99",
    "size": r"the array 'w' has a negative size: \[-4\]",
    "short int4": "cannot read the arrays of 'v': .*too small",
    "short int4 in numbers": "cannot read the arrays of 'v': .*too small",
    "large size": "cannot read the arrays of 'v': cannot reshape",
    "two inputs": "two inputs of the model have the name 'x'",
    "two outputs": "two outputs of the model have the name 'y'",
    "two nodes": "two nodes give the value 'y'",
}


@pytest.mark.parametrize("kind", FAULTS)
def test_models_that_are_not_well_formed(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(malformed(kind))
    with pytest.raises(TiducError, match=FAULTS[kind]):
        tiduc.from_onnx(path)


def test_an_array_in_a_file_that_is_too_short(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    path = external(tmp_path, "w.bin", "INT64")
    (tmp_path / "w.bin").write_bytes(bytes(16))
    model = onnx.load(path, load_external_data=False)
    model.graph.initializer[0].dims[0] = 2**40
    onnx.save(model, path)
    with pytest.raises(TiducError, match="cannot read the arrays of 'w'"):
        tiduc.from_onnx(path)


# ---- bytecode ----------------------------------------------------------------------------------------------

LARGE_NUMBERS = """
import os
from tiduc.dialect.mlir.context import parse
from tiduc.dialect.mlir.emit import bytecode
body = "{ %0 = stablehlo.sine %x : tensor<4xf32> return %0 : tensor<4xf32> }"
whole = bytecode(parse(f"func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {body}"))
for at in range(90, 130):
    if not os.fork():  # MLIR may end the process
        os.close(2)
        try:
            parse(whole[:at] + bytes([0] + [255] * 8) + whole[at + 9 :], "f.mlirbc")
        except BaseException as error:
            os.write(1, f"{type(error).__name__}: {error}\\n".encode())
        os._exit(0)
    os.wait()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_bytecode_that_asks_for_more_memory_than_there_is() -> None:
    """Bytecode that requests too much memory is refused.

    The test replaces numbers in bytecode by a large 64-bit number; at some positions, MLIR reserves memory for that
    many items.
    """
    done = subprocess.run(
        [sys.executable, "-c", LARGE_NUMBERS], capture_output=True, text=True, timeout=120, check=False
    )
    said = set(done.stdout.splitlines())
    message = "f.mlirbc: error: this bytecode takes more memory than there is; it may be damaged"
    assert f"ParseError: {message}" in said
    assert "MemoryError" not in done.stdout
