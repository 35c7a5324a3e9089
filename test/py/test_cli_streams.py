"""Tests the command line with closed and full streams, undecodable file names, endless devices, and colours."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tiduc.cli import run

PROGRAM = """func.func @main(%x: tensor<f64>) -> tensor<f64> {
  %0 = stablehlo.sine %x : tensor<f64>
  return %0 : tensor<f64>
}
"""
NAME = os.fsdecode(b"f\xff.mlir")
linux = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="needs names of arbitrary bytes and /dev/full"
)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("NO_COLOR", "FORCE_COLOR", "TIDUC_QUIET"):
        monkeypatch.delenv(name, raising=False)
    Path("f.mlir").write_text(PROGRAM)


def shell(line: str) -> "subprocess.CompletedProcess[bytes]":
    variables = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.run(["bash", "-c", line], capture_output=True, timeout=60, env=variables)


@linux
def test_a_name_that_is_not_utf8(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    Path(NAME).write_text(PROGRAM)
    out = os.fsdecode(b"out\xff.mlir")
    assert run(["grad", NAME, "-o", out]) == 0 and "stablehlo.cosine" in Path(out).read_text()
    capfdbinary.readouterr()
    assert run(["check", NAME, "--engine", "reference", "--json"]) == 0
    printed = capfdbinary.readouterr().out
    assert json.loads(printed.decode())["file"] == NAME
    Path(NAME).write_text("func.func @main(")
    assert run(["grad", NAME]) == 1
    assert capfdbinary.readouterr().err.startswith(b"f\xff.mlir:1:16: error: ")


@linux
@pytest.mark.parametrize(
    "arguments",
    [["opt", "f.mlir", "--pass-pipeline"], ["jvp", "f.mlir", "--entry"], ["jvp", "f.mlir", "--rules"]],
)
def test_an_option_that_is_not_utf8(arguments: list[str], capfd: Any) -> None:
    assert run([*arguments, "\udcff"]) in (1, 2)
    assert "rror: " in capfd.readouterr().err


@pytest.mark.parametrize("command", ["grad", "compile", "import"])
def test_the_name_of_a_folder(command: str, capfd: Any) -> None:
    assert run([command, "f.mlir", "-o", "new/"]) == 1
    assert capfd.readouterr().err == "new/: error: cannot write: the name is that of a folder\n"
    assert not os.path.exists("new")


@linux
@pytest.mark.parametrize("device", ["/dev/zero", "/dev/urandom"])
def test_a_device_without_end(device: str, capfd: Any) -> None:
    for command in ("grad", "run"):
        assert run([command, device]) == 1
        assert f"{device}: error: " in (said := capfd.readouterr().err) and "larger than 64 MiB" in said


@pytest.mark.parametrize(
    "options",
    [
        ["run", "--compile-timeout", "nan"],
        ["jvp", "--batch", "99999999999999999999"],
        ["--color=sometimes", "grad"],
        ["--memory-limit=much", "grad"],
    ],
)
def test_values_out_of_range(options: list[str], capfd: Any) -> None:
    assert run([*options, "f.mlir"]) == 2
    assert "Error: " in capfd.readouterr().err


@linux
@pytest.mark.parametrize("line", ["tiduc --help", "tiduc grad --help", "tiduc passes"])
def test_a_full_disk(line: str) -> None:
    done = shell(f"{line} > /dev/full")
    assert done.returncode == 1 and done.stderr.count(b"\n") == 1
    assert done.stderr.endswith(b"No space left on device\n")


@linux
def test_a_full_disk_for_errors() -> None:
    done = shell("tiduc grad nothing.mlir 2> /dev/full")
    assert done.returncode == 1 and done.stdout == done.stderr == b""


@linux
def test_closed_streams_are_not_taken_by_files() -> None:
    done = shell("tiduc grad f.mlir -o out.mlir <&- >&- 2>&-")
    assert done.returncode == 0 and Path("out.mlir").read_text().endswith("}\n}\n")
    assert shell("tiduc grad nothing.mlir 2>&-").returncode == 1


def test_colours(monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    def coloured(*options: str) -> tuple[bool, bool]:
        run([*options, "passes"])
        run([*options, "grad", "nothing.mlir"])
        out, err = capfd.readouterr()
        return "\x1b[" in out, "\x1b[" in err

    class Terminal:
        """A stream whose isatty() is true."""

        def __init__(self, stream: Any) -> None:
            self.stream = stream

        def __getattr__(self, name: str) -> Any:
            return getattr(self.stream, name)

        def isatty(self) -> bool:
            return True

    assert coloured() == (False, False)
    assert coloured("--color=always") == (True, True)
    monkeypatch.setattr(sys, "stdout", Terminal(sys.stdout))
    monkeypatch.setattr(sys, "stderr", Terminal(sys.stderr))
    monkeypatch.setenv("TERM", "xterm")
    assert coloured() == (True, True)
    assert coloured("--color=never") == (False, False)
    monkeypatch.setenv("TERM", "dumb")
    assert coloured() == (False, False)
    assert coloured("--color=always") == (True, True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert coloured() == (False, False)
    assert coloured("--color=auto") == (False, False)
    assert coloured("--color=always") == (True, True)


def test_colours_of_tables_and_files(capfd: Any) -> None:
    assert run(["--color=always", "explain", "f.mlir"]) == 0
    assert "\x1b[" in capfd.readouterr().out
    assert run(["--color=always", "passes", "-o", "passes.txt"]) == 0
    assert "\x1b[" not in Path("passes.txt").read_text()


@linux
@pytest.mark.parametrize("unbuffered", ["", pytest.param("1", marks=pytest.mark.more)])
def test_output_that_does_not_fit(unbuffered: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the system writes only a part of the output, the command writes the rest later, or fails if it cannot."""
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    lines = [f"  %v{i + 1} = stablehlo.sine %v{i} : tensor<f64>" for i in range(4000)]
    body = "\n".join([*lines, "  return %v4000 : tensor<f64>"])
    Path("g.mlir").write_text(f"func.func @main(%v0: tensor<f64>) -> tensor<f64> {{\n{body}\n}}")
    expected = shell("tiduc opt g.mlir -o h.mlir; cat h.mlir").stdout
    assert len(expected) > 2**17
    slow = "import sys, time; time.sleep(0.5); sys.stdout.buffer.write(sys.stdin.buffer.read())"
    assert shell(f"tiduc opt g.mlir | {sys.executable} -c '{slow}'").stdout == expected
    assert shell("tiduc opt g.mlir | head -c 1; echo ${PIPESTATUS[0]}").stdout == b"m141\n"
    done = shell("ulimit -f 64; tiduc opt g.mlir > cut.mlir")  # after 64 KiB, writing fails
    assert done.returncode == 1 and done.stderr == b"<stdout>: error: cannot write: File too large\n"
    done = shell("ulimit -f 1; tiduc opt --help > cut.txt")
    assert done.returncode == 1 and b"File too large" in done.stderr
