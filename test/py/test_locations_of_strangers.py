"""Locations in a program may name any file, but diagnostics and compilers read only files that the user has named."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tiduc
from tiduc.backends.backend import Options
from tiduc.backends.iree.build import LEGALIZED, text_after

PROGRAM = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.custom_call @unknown(%x) : (tensor<4xf32>) -> tensor<4xf32> loc("FILE":1:1)
  return %0 : tensor<4xf32>
}"""


def said(folder: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "tiduc", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=folder, check=False)
    assert done.returncode == 1
    return done.stderr


@pytest.mark.skipif(os.name != "posix", reason="pipes with names, devices")
@pytest.mark.parametrize("file", ["secret", "pipe", "/dev/zero"])
def test_a_file_that_only_the_program_names(file: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("a password\n")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "f.mlir").write_text(PROGRAM.replace("FILE", file))
    message = said(tmp_path, "jvp", "f.mlir")
    assert message.startswith(f"{file}:1:1: error: ") and "password" not in message and "^" not in message


def test_a_file_that_the_user_names(tmp_path: Path) -> None:
    """A diagnostic shows the wrong line of a file that the user has named, even if a command reads several files."""
    (tmp_path / "f.mlir").write_text("func.func @main(")
    (tmp_path / "g.mlir").write_text("module {\n}\n")
    for arguments in (["jvp", "f.mlir"], ["link", "g.mlir", "f.mlir"]):
        assert "\nfunc.func @main(\n" in said(tmp_path, *arguments)


@pytest.mark.skipif(os.name != "posix", reason="pipes with names")
@pytest.mark.parametrize("resource", [False, True])
def test_compilers_open_no_pipe(resource: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """tiduc removes a location that names a pipe before IREE compiles the program.

    A warning at this location would make IREE's compiler open the pipe and wait for a writer.
    """
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe \u00e9")
    constant, data = "dense<[1.0, 2.0]>", ""
    if resource:
        constant = "dense_resource<c>"
        data = '{-# dialect_resources: { builtin: { c: "0x040000000000803F00000040" } } #-}'
    program = tiduc.load(f"""func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {{
  %c = stablehlo.constant {constant} : tensor<2xf32>
  %0 = stablehlo.sine %x : tensor<2xf32> loc("pipe \u00e9":1:1)
  %1 = stablehlo.add %0, %c : tensor<2xf32>
  return %1 : tensor<2xf32>
}}
{data}""")
    source = text_after(program.lower(), Options("cpu"), LEGALIZED)
    assert source.startswith(b"ML") == resource and b"pipe" not in source
    os.unlink("pipe \u00e9")
    assert b"pipe" in text_after(program.lower(), Options("cpu"), LEGALIZED)
    np.testing.assert_allclose(program.compile("cpu")(np.zeros(2, np.float32))[0], [1, 2])
