"""Tests behaviour of the command line that lit cannot test: signals, terminals, full disks, and start-up."""

import os
import pty
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from tiduc.cli import COMMANDS, run

PROGRAM = """
func.func @main(%x: tensor<f64> {tidu.name = "x"}) -> tensor<f64> {
  %0 = stablehlo.sine %x : tensor<f64>
  return %0 : tensor<f64>
}
"""
CONVOLUTION = b"""func.func @main(%%x: tensor<1x4x1xf64>) {
  %%0 = stablehlo.convolution(%%x, %%x) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, %s], window = {stride = [1]}
"""
TIDUC = [sys.executable, "-m", "tiduc"]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "f.mlir"
    path.write_text(PROGRAM)
    return str(path)


def tiduc(*arguments, **options):
    return subprocess.run([*TIDUC, *arguments], capture_output=True, text=True, **options)


def test_output_is_what_the_api_gives(file, capfdbinary):
    from tiduc.loading import load

    assert run(["vjp", file]) == 0
    assert capfdbinary.readouterr().out.decode() == load(PROGRAM).vjp().text


@pytest.mark.parametrize("kind", ["text", "bytecode", "artifact"])
def test_emitted_files_can_be_read(file, tmp_path, capfdbinary, kind):
    out = str(tmp_path / "out")
    assert run(["grad", file, "--emit", kind, "-o", out]) == 0
    assert run(["opt", out]) == 0
    assert b"stablehlo.cosine" in capfdbinary.readouterr().out


@pytest.mark.parametrize("command", [name for section in COMMANDS.values() for name in section])
def test_help(command, capfd):
    assert run([command, "--help"]) == 0
    assert f"Usage: tiduc {command}" in capfd.readouterr().out


def test_version(capsys):
    assert run(["--version"]) == 0
    assert re.fullmatch(
        r"tiduc, version \d\S+ \(torch-mlir \d+, iree-base-compiler 3\S+, iree-base-runtime 3\S+\)\n",
        capsys.readouterr().out,
    )


def test_help_imports_neither_mlir_nor_iree():
    code = (
        "import sys; from tiduc.cli import run; run(['--help']); "
        "sys.exit(any(name.startswith(('torch_mlir', 'iree', 'numpy', 'rich')) for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL).returncode == 0


def test_a_derivative_needs_no_iree(file):
    code = (
        "import sys; from tiduc.cli import run; run(sys.argv[1:]); "
        "unused = 'iree', 'rich', 'numpy.random', 'tiduc.backends.iree'; "
        "sys.exit(any(name.startswith(unused) for name in sys.modules))"
    )
    command = [sys.executable, "-c", code, "grad", file]
    assert subprocess.run(command, stdout=subprocess.DEVNULL).returncode == 0


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (b"", "error: the module is empty"),
        (b"\x93NUMPY", "error: an array of NumPy, not a program; arrays follow --input"),
        (b"\xff\x01", "bad.mlir:1:1: error: unexpected character"),
        (b"\xff\xfef\0", "error: the file begins with UTF-16"),
        (b"\xef\xbb\xbffunc.func @main() { return }", "error: the file begins with a byte order mark"),
        (
            b"\x08\x09\x12\x00onnx",
            "error: neither MLIR text, bytecode nor a compiled module; 'tiduc import' reads models",
        ),
        (b"PK\x03\x04" + 26 * b"\0" + b"module.fb", "error: a compiled module"),
        (b"ML\xefR\x0dMLIR", "error:"),
        (b"ML\xefR\x01StableHLO_v1.0.0\x00", "error:"),
        (b"func.func @main() {", "expected"),
        (
            b"func.func @main() {\n  tidu.name @x }",
            'bad.mlir:2:3: error: tidu.name must be written in generic form: "tidu.name"',
        ),
        (CONVOLUTION % b"1", "error: custom op 'stablehlo.convolution'"),
        (
            CONVOLUTION % b"9223372036854775806",
            "bad.mlir:2:60: error: no tensor can have the dimension 9223372036854775806",
        ),
        (b'func.func @main(%x: tensor<f64> {tidu.name = "\\FF"}) { return }', "a name is not UTF-8 text"),
        (b"func.func private @f(tensor<f64>) -> tensor<f64>", "no public function @main"),
    ],
)
def test_bad_input_is_a_diagnostic(tmp_path, capfd, contents, message):
    path = tmp_path / "bad.mlir"
    path.write_bytes(contents)
    assert run(["vjp", str(path)]) == 1
    error = capfd.readouterr().err
    assert error.startswith(str(path)) and message in error and "Traceback" not in error


def test_files_that_cannot_be_read_or_written(file, tmp_path, capfd):
    for arguments in (
        ["jvp", str(tmp_path / "none.mlir")],
        ["jvp", str(tmp_path)],
        ["run", str(tmp_path)],
        ["jvp", file, "-o", str(tmp_path / "none" / "out.mlir")],
        ["jvp", file, "-o", str(tmp_path)],
        ["check", file, "--expect", str(tmp_path)],
        ["check", file, "--expect", file],
    ):
        assert run(arguments) == 1
        assert ": error: " in capfd.readouterr().err


@pytest.mark.parametrize("wanted", ["train-step", "import", "split"])
def test_files_that_belong_together_are_all_written_or_none(wanted, file, tmp_path, capfd):
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "backward.mlir").mkdir()  # the second output file cannot be written here
    first = str(folder / "first.npz")
    options = {
        "train-step": [
            "--train",
            "x",
            "--loss",
            "none",
            "--state",
            first,
            "-o",
            str(folder / "backward.mlir"),
        ],
        "import": ["--weights", first, "-o", str(folder / "backward.mlir")],
        "split": ["-o", str(folder)],
    }[wanted]
    assert run([wanted, file, *options]) == 1
    assert "backward.mlir: error: cannot write: Is a directory" in capfd.readouterr().err
    assert [path.name for path in folder.iterdir()] == ["backward.mlir"]
    (folder / "backward.mlir").rmdir()
    assert run([wanted, file, *options]) == 0
    assert {path.name for path in folder.iterdir()} > {"backward.mlir"}
    if wanted != "split":
        assert run([wanted, file, *options[:-1], first]) == 1
        assert "first.npz: error: two outputs have this name" in capfd.readouterr().err


def test_an_artifact_with_names_that_are_not_utf8(file, tmp_path, capfd):
    path = tmp_path / "f.mlirbc"
    assert run(["jvp", file, "--emit=artifact", "-o", str(path)]) == 0
    data = path.read_bytes()
    assert data.count(b"return_v1") == 1
    path.write_bytes(data.replace(b"return_v1", b"return_v\xff"))
    assert run(["opt", str(path)]) == 1
    error = capfd.readouterr().err
    assert error.startswith(f"{path}: error: a name is not UTF-8 text") and "Traceback" not in error


@pytest.mark.parametrize("command", [["jvp"], ["run", "--input", "zeros", "--no-cache"]])
def test_a_pipe_is_read_once(command, file):
    name, *options = command
    line = f"{sys.executable} -m tiduc {name} <(cat {file}) {' '.join(options)}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == ""
    assert ("stablehlo.cosine" if name == "jvp" else "result0: f64=0.0") in done.stdout


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("gard", "Did you mean grad or shard?"),
        ("jpv", "Did you mean vjp or jvp?"),
        ("q", "No such command 'q'."),
        ("--q", "--q"),
    ],
)
def test_misspelt_commands(name, words, capfd):
    assert run([name]) == 2
    assert words in capfd.readouterr().err


def test_unknown_dialects_are_said_to_need_rules(tmp_path, capfd):
    path = tmp_path / "f.mlir"
    path.write_text('func.func @main(%x: tensor<f32>) { "mine.op"(%x) : (tensor<f32>) -> () return }')
    assert run(["jvp", str(path)]) == 1
    assert "unregistered dialect. If the op has rules, name their module: --rules" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"), [(["--seed=-1"], "-1 is not in the range"), (["--input=1"], "one too many")]
)
def test_wrong_options_of_run(arguments, words, file, capfd):
    assert run(["run", file, "--input=1", *arguments]) in (1, 2)
    error = capfd.readouterr().err
    assert words in error and "Traceback" not in error


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_a_full_disk(file):
    with open("/dev/full", "w") as full:
        done = subprocess.run([*TIDUC, "jvp", file], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr == "<stdout>: error: cannot write: No space left on device\n"
    assert tiduc("jvp", file, "-o", "/dev/full").returncode == 1


def test_a_broken_pipe_is_quiet(file):
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([*TIDUC, "jvp", file], stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert done.returncode == 141 and done.stderr == b""


def test_closed_streams(file):
    done = subprocess.run(
        f"exec {sys.executable} -m tiduc jvp {file} >&-", shell=True, stderr=subprocess.PIPE
    )
    assert done.returncode == 1 and done.stderr == b"error: standard output is closed\n"
    done = subprocess.run(f"exec {sys.executable} -m tiduc jvp - <&-", shell=True, stderr=subprocess.PIPE)
    assert done.returncode == 1 and b"standard input is closed" in done.stderr


@pytest.mark.parametrize(("number", "status"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
@pytest.mark.usefixtures("default_signals")
def test_an_interrupt_leaves_nothing(number, status, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    with subprocess.Popen([*TIDUC, "jvp", "-", "-o", str(out / "g.mlir")], stdin=subprocess.PIPE) as process:
        wait_for_handlers(process.pid)  # the process waits for the rest of its input
        process.send_signal(getattr(signal, number))
        assert process.wait(300) == status
    assert list(out.iterdir()) == []


def wait_for_handlers(process):
    """Waits until the process with this id has installed its handler of SIGTERM."""
    caught = 0
    for _ in range(400):
        time.sleep(0.05)
        with open(f"/proc/{process}/status") as status:
            caught = int(dict(line.split(":", 1) for line in status)["SigCgt"], 16)
        if caught >> (signal.SIGTERM - 1) & 1:
            time.sleep(0.2)
            return
    raise AssertionError(f"it handles {caught:x}")


INTERRUPTED = """
import os, signal, sys
from tiduc.__main__ import main

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[0]:
            os.kill(os.getpid(), signal.SIGINT)

del sys.argv[0]
sys.meta_path.insert(0, Interrupt())
main()
"""


@pytest.mark.parametrize("library", ["tiduc.driver", "click", "torch_mlir._mlir_libs._mlir"])
@pytest.mark.usefixtures("default_signals")
def test_an_interrupt_while_libraries_load_is_quiet(library, file):
    command = [sys.executable, "-c", INTERRUPTED, library, "jvp", file]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == -signal.SIGINT and done.stderr == ""


def test_a_failure_keeps_the_old_file(file, tmp_path):
    out = tmp_path / "out.mlir"
    out.write_text("old")
    assert run(["jvp", file, "--wrt", "q", "-o", str(out)]) == 1
    assert out.read_text() == "old"


def test_a_command_may_replace_its_own_input(file):
    assert run(["grad", file, "-o", file]) == 0
    with open(file) as replaced:
        assert "stablehlo.cosine" in replaced.read()


def on_terminal(*arguments):
    """Runs a tiduc command on a terminal. Returns the exit status and the text that it writes to the terminal."""
    pid, terminal = pty.fork()
    if not pid:
        os.execv(sys.executable, [*TIDUC, *arguments])
    shown = b""
    try:
        while data := os.read(terminal, 4096):
            shown += data
    except OSError:  # Linux raises this error when the other end of the terminal is closed
        pass
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), shown


def test_colour_on_a_terminal_only(tmp_path):
    path = tmp_path / "bad.mlir"
    path.write_text("func.func @main(%x: tensor<f64>) { return %y }")
    status, shown = on_terminal("jvp", str(path))
    assert status == 1 and b"\x1b[31m" in shown
    assert "\x1b" not in tiduc("jvp", str(path)).stderr


def test_binary_output_does_not_go_to_a_terminal(file):
    status, shown = on_terminal("jvp", file, "--emit=bytecode")
    assert status == 1 and b"name a file with -o" in shown


def test_completion_is_offered():
    done = tiduc(env={**os.environ, "_TIDUC_COMPLETE": "bash_source"})
    assert done.returncode == 0 and "_TIDUC_COMPLETE=bash_complete" in done.stdout


def test_run_on_files_of_arrays(file, tmp_path, capfd):
    np.savez(tmp_path / "in.npz", x=np.array(0.5))
    assert run(["run", file, "--input", f"@{tmp_path}/in.npz", "-o", str(tmp_path / "out.npz")]) == 0
    with np.load(tmp_path / "out.npz") as results:
        assert results["result0"] == pytest.approx(np.sin(0.5), rel=1e-12)
    assert capfd.readouterr().out == ""


def test_check_against_stored_derivatives(file, tmp_path, capfd):
    path = str(tmp_path / "expected.npz")
    stored = {"input.0": 0.5, "tangent.0": 2.0, "grad.0": np.cos(0.5), "jvp": 2 * np.cos(0.5)}
    np.savez(path, **stored, **{"hvp.0": -2 * np.sin(0.5)})
    assert run(["check", file, "--engine=reference", "--expect", path]) == 0
    assert f"agree with those in {path} and finite differences" in capfd.readouterr().out
    np.savez(path, **{**stored, "grad.0": 1.0})
    assert run(["check", file, "--engine=reference", "--expect", path]) == 1
    assert "DISAGREES  gradient in x, against grad.0" in capfd.readouterr().out
    np.savez(path, **{"input.0": 0.5})
    assert run(["check", file, "--engine=reference", "--expect", path]) == 1
    assert "no derivatives to compare with" in capfd.readouterr().err


def test_every_public_name_is_there():
    import tiduc as package

    for name in package.__all__:
        assert getattr(package, name) is not None
    assert sorted(package.__all__) == sorted(package._MODULE_OF)


def test_subpackages_are_there_without_an_import_of_their_own():
    code = "import tiduc; tiduc.runtime.load, tiduc.eager.Array; tiduc.nothing"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.endswith("AttributeError: module 'tiduc' has no attribute 'nothing'\n")
