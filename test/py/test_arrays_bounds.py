"""Arrays that are too large and files that never end raise errors before they use up memory or time."""

import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tiduc.backends.iree.compile import compile_module
from tiduc.dialect.errors import InputError, TiducError
from tiduc.runtime import array_files, arrays
from tiduc.runtime.array_files import read_npz
from tiduc.runtime.arrays import parse_inputs
from tiduc.runtime.run import Executable
from tiduc.runtime.signature import SignatureValue, TensorType
from tiduc.runtime.weights import read_weights, write_weights


def header(shape: str, body: bytes = b"", dtype: str = "<f8") -> bytes:
    """The bytes of a .npy file: a header that states this shape, which may be wrong, followed by `body`."""
    said = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(said).to_bytes(2, "little") + said + body


def archive(path: Path, members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> str:
    with zipfile.ZipFile(path, "w", method) as file:
        for name, contents in members.items():
            file.writestr(f"{name}.npy", contents)
    return str(path)


@pytest.mark.parametrize(
    "text",
    [
        "9999999999999xf32=0",
        "9999999999999xf32=zeros",
        "9999999999999xf32=random",
        "9999999999999xf32=1,2",
        "99999999999x99999999999x99999999999xi8=0",
        "random",
    ],
)
def test_types_of_too_many_elements(text: str) -> None:
    with pytest.raises(
        InputError, match="too large: [0-9]+ bytes, but the other arrays leave only [0-9]+ bytes$"
    ):
        parse_inputs([text], [SignatureValue("x", TensorType((10**13,), "f64"))])


def test_invalid_shapes() -> None:
    for text in (f"{'9' * 5000}xf32=0", f"{'1x' * 100}f32=0", f"{'[' * 100_000}"):
        with pytest.raises(InputError):
            parse_inputs([text], [SignatureValue("x", TensorType((1,), "f32"))])


def test_arrays_are_counted_together(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(arrays, "ROOM", 1000)
    np.save(tmp_path / "x.npy", np.zeros(40))
    path = archive(tmp_path / "x.npz", {"x": header("(40,)", bytes(320)), "y": header("(80,)", bytes(640))})
    assert len(parse_inputs(["100xf32=0", "100xf32=0"])) == 2
    for texts in (
        ["100xf32=0"] * 3,
        ["100xf32=0", "100xf32=0", f"@{tmp_path / 'x.npy'}"],
        [f"@{path}", "9xf64=0"],
    ):
        with pytest.raises(InputError, match="too large"):
            parse_inputs(texts)
    with pytest.raises(InputError, match=r"x\.npz: error: .*too large"):
        parse_inputs(["100xf32=0", f"@{path}"])
    monkeypatch.setattr(array_files, "ROOM", 900)
    for read in (read_npz, read_weights):
        with pytest.raises(InputError, match=r"x\.npz: error: .*too large"):
            read(path)


@pytest.mark.parametrize("shape", ["(1000000000000,)", "(4294967296, 4294967296)", "(-1,)", "(1000000,)"])
def test_shapes_that_the_file_does_not_hold(tmp_path: Path, shape: str) -> None:
    contents = header(shape, bytes(80))
    (tmp_path / "x.npy").write_bytes(contents)
    x = SignatureValue("x", TensorType((3,), "f64"))
    for text in (tmp_path / "x.npy", archive(tmp_path / "x.npz", {"x": contents})):
        with pytest.raises(InputError, match=r"x\.np"):
            parse_inputs([f"@{text}"], [x])


def test_archives_that_unpack_to_more_than_there_is_room_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrays, "ROOM", 2**20)
    bomb = header("(10000000,)", bytes(10_000_000), "|i1")
    path = archive(tmp_path / "bomb.npz", {"x": bomb})
    assert os.path.getsize(path) < 20_000
    with pytest.raises(InputError, match=r"bomb\.npz: error: .*too large: 100000[0-9]+ bytes"):
        parse_inputs([f"@{path}"])
    other = archive(tmp_path / "lzma.npz", {"x": bomb}, zipfile.ZIP_LZMA)
    monkeypatch.setattr(arrays, "ROOM", 2**30)
    with pytest.raises(InputError, match="is compressed in a way that NumPy does not write"):
        read_npz(other)


def test_an_archive_that_is_wrong_about_its_sizes(tmp_path: Path) -> None:
    """An archive is refused if a compressed array is larger than the size that the archive states."""
    contents = bytearray(
        Path(archive(tmp_path / "x.npz", {"x": header("(100000,)", bytes(800_000))})).read_bytes()
    )
    with zipfile.ZipFile(io.BytesIO(contents)) as file:
        size = file.infolist()[0].file_size.to_bytes(4, "little")
    (tmp_path / "x.npz").write_bytes(contents.replace(size, (1000).to_bytes(4, "little")))
    with pytest.raises(InputError, match=r"x\.npz"):
        read_npz(str(tmp_path / "x.npz"))


ASK = """
import sys
from tiduc.dialect.errors import InputError, TiducError
from tiduc.runtime.arrays import parse_inputs
from tiduc.runtime.weights import read_weights, write_weights
for read in (lambda path: parse_inputs(["@" + path]), read_weights):
    try:
        read(sys.argv[1])
    except InputError as error:
        print(error)
"""


@pytest.mark.skipif(os.name != "posix", reason="makes a named pipe")
@pytest.mark.parametrize("name", ["x.npz", "x.irpa", "x.safetensors"])
@pytest.mark.parametrize("kind", ["pipe", "endless", "folder"])
def test_files_without_an_end(tmp_path: Path, name: str, kind: str) -> None:
    path = tmp_path / name
    {"pipe": os.mkfifo, "endless": lambda at: at.symlink_to("/dev/zero"), "folder": os.mkdir}[kind](path)
    done = subprocess.run([sys.executable, "-c", ASK, str(path)], capture_output=True, text=True, timeout=60)
    reason = "Is a directory|not a regular file"
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 2 and all(line.startswith(f"{path}: error: cannot read: ") for line in lines)
    assert all(line.endswith(tuple(reason.split("|"))) for line in lines)


@pytest.mark.parametrize("at", [40, 48, 56, 62, 64, 72, 80, 199])
def test_an_archive_with_ranges_out_of_bounds(tmp_path: Path, at: int) -> None:
    """Archives whose stated ranges exceed the file are refused. IREE's reader would crash or read other memory."""
    path = tmp_path / "x.irpa"
    write_weights(path, {"a": np.zeros(5, np.float32), "b": np.ones((2, 3))})
    contents = bytearray(path.read_bytes())
    contents[at : at + 8] = b"\xff" * 8
    path.write_bytes(contents)
    with pytest.raises(
        InputError, match=r"x\.irpa: error: not a file of arrays: .*(ends after|several headers|is truncated)"
    ):
        read_weights(path)
    with pytest.raises(TiducError, match=r"x\.irpa: error: not an archive of parameters: "):
        Executable(compile_module("func.func @main() { return }"), parameters=path)
