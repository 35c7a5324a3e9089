"""If a system limit (such as memory) is reached, the error message names the limit and blames no compiler."""

import json
import struct
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.sine %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""
RUN = f"{sys.executable} -m tiduc run f.mlir --no-cache --input 4xf32=1"
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="sets limits with a Linux shell")


def said(folder: Path, line: str) -> str:
    """Runs a shell command, asserts that it fails with status 1, and returns its standard error."""
    (folder / "f.mlir").write_text(PROGRAM)
    done = subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, timeout=120, cwd=folder, check=False
    )
    assert done.returncode == 1 and done.stdout == "", done
    return done.stderr


@linux
@pytest.mark.parametrize("count", [5, 6, 7, 8, 12])
def test_few_open_files(count: int, tmp_path: Path) -> None:
    message = said(tmp_path, f"ulimit -n {count}; exec {RUN}")
    assert (
        message.endswith("error: Too many open files\n")
        or message == "error: cannot start: Too many open files\n"
    )


@linux
@pytest.mark.parametrize("folder", ["nothing", "/proc"])
def test_no_folder_for_temporary_files(folder: str, tmp_path: Path) -> None:
    message = said(tmp_path, f"TMPDIR={folder} exec {RUN}")
    assert f"no temporary files can be written to {folder} (" in message and "set TMPDIR" in message


@linux
def test_a_limit_on_files_of_the_compiler(tmp_path: Path) -> None:
    message = said(tmp_path, f"ulimit -f 1; exec {RUN}")
    assert message.endswith("a file of IREE's compiler exceeds the limit of the shell (ulimit -f)\n")


@pytest.mark.parametrize("element", ["F8_E4M3", "F8_E5M2"])
def test_element_types_that_numpy_lacks(element: str, tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    head = json.dumps({"x": {"dtype": element, "shape": [4], "data_offsets": [0, 4]}}).encode()
    (tmp_path / "w.safetensors").write_bytes(struct.pack("<Q", len(head)) + head + bytes(4))
    message = said(tmp_path, RUN.replace("--input 4xf32=1", "--weights w.safetensors"))
    assert (
        message == f"w.safetensors: error: the array 'x' has the element type {element}, which NumPy lacks\n"
    )
