"""The driver process of the command line: its report when the worker process dies, and the handling of signals."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cases.broken_bytecode import DEADLY, ENDLESS, HUNGRY
from harness.processes import becomes, runs

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the driver needs Linux")

TIDUC = [sys.executable, "-m", "tiduc"]
PROGRAM = """func.func @main(%x: tensor<f64>) -> tensor<f64> {
  %0 = stablehlo.sine %x : tensor<f64>
  return %0 : tensor<f64>
}
"""
DEEP = {
    "regions": "func.func @main() {\n" + '"a.b"() ({\n' * 10_000 + "}) : () -> ()\n" * 10_000 + "return }",
    "attributes": "module attributes {a = " + "[" * 100_000 + "]" * 100_000 + "} {}",
    "tuples": "func.func @main(%x: " + "tuple<" * 10_000 + "f32" + ">" * 10_000 + ") { return }",
}
DEATH = re.compile(r"(.+): error: (.*?tiduc .*) during ([\w.]+); reproducer saved as (.+)\n")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which reproducers are saved. The working directory is a temporary folder that contains `f.mlir`."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f.mlir").write_text(PROGRAM)
    return temporary


def tiduc(*arguments: str, **options: Any) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run([*TIDUC, *arguments], capture_output=True, timeout=60, **options)


def with_rules(code: str, *more: str) -> "subprocess.CompletedProcess[bytes]":
    """Runs `tiduc grad`. Its worker process runs this code after it has loaded its libraries."""
    Path("code.py").write_text(code)
    return tiduc(*more, "grad", "f.mlir", "--rules", "code.py")


def death(done: "subprocess.CompletedProcess[bytes]") -> tuple[str, str, str, Path]:
    """The file, the cause of death, the stage and the reproducer, which the last line of a driver's output names."""
    assert done.returncode == 1 and done.stdout == b"" and b"Traceback" not in done.stderr
    match = DEATH.fullmatch(done.stderr.decode().splitlines(keepends=True)[-1])
    assert match is not None, done.stderr
    return match[1], match[2], match[3], Path(match[4])


@pytest.mark.parametrize("kind", ["regions", "attributes", pytest.param("tuples", marks=pytest.mark.more)])
def test_programs_nested_too_deeply(kind: str, folder: Path) -> None:
    Path("deep.mlir").write_text(DEEP[kind])
    done = tiduc("grad", "deep.mlir")
    assert done.returncode == 1 and done.stderr.startswith(b"deep.mlir: error: ")
    assert b"Traceback" not in done.stderr
    if b"reproducer" in done.stderr:
        _, _, stage, saved = death(done)
        assert stage == "parse" and saved.parent == folder
        assert (saved / "deep.mlir").read_text() == DEEP[kind]


@pytest.mark.parametrize("kind", DEADLY)
def test_bytecode_that_ends_the_reader(kind: str) -> None:
    Path("f.mlirbc").write_bytes(DEADLY[kind])
    done = tiduc("opt", "f.mlirbc")
    assert done.returncode == 1 and b"f.mlirbc" in done.stderr and b": error: " in done.stderr
    assert b"Traceback" not in done.stderr


def test_a_crash_is_reported_with_a_script_that_reproduces_it(folder: Path) -> None:
    file, how, stage, saved = death(with_rules("import ctypes\nctypes.string_at(0)"))
    assert file == "f.mlir" and how.startswith("tiduc died (SIGSEGV") and stage == "grad"
    assert list(folder.iterdir()) == [saved]
    assert {path.name for path in saved.iterdir()} == {"f.mlir", "code.py", "reproduce.sh", "traceback"}
    assert 'code.py", line 2' in (saved / "traceback").read_text()
    script = (saved / "reproduce.sh").read_text()
    assert script.endswith("\ntiduc grad f.mlir --rules code.py\n") and "SIGSEGV" in script
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    rerun = subprocess.run(["sh", saved / "reproduce.sh"], capture_output=True, env=environment)
    assert death(rerun)[:3] == (file, how, stage)


@pytest.mark.parametrize("how", ["-", "pipe"])
def test_input_from_a_pipe_is_saved(how: str) -> None:
    line = "tiduc opt -" if how == "-" else "tiduc opt <(cat)"
    line = line.replace("tiduc", " ".join(TIDUC))
    done = subprocess.run(["bash", "-c", line], input=DEEP["regions"].encode(), capture_output=True)
    file, _, _, saved = death(done)
    assert file == "<stdin>" if how == "-" else file.startswith("/dev/fd/")
    assert (saved / "stdin").read_text() == DEEP["regions"]
    assert (
        (saved / "reproduce.sh").read_text().endswith(f"tiduc opt {'- < stdin' if how == '-' else 'stdin'}\n")
    )


@pytest.mark.parametrize(
    ("code", "how"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", r"tiduc died \(SIGKILL\)"),
        ("import os; os.abort()", r"tiduc died \(SIGABRT.*\)"),
        ("import os; os._exit(0)", r"a library ended tiduc \(exit status 0\)"),
        (
            "import tiduc.program as p; p.Program.grad = lambda *_, **__: {}['key']\nfrom tiduc import OPSET",
            r"tiduc failed \(KeyError: 'key'\)",
        ),
    ],
)
def test_other_deaths(code: str, how: str) -> None:
    done = with_rules(code)
    assert done.returncode == 1 and b"Traceback" not in done.stderr
    assert re.fullmatch(
        rf"f\.mlir: error: {how} during grad; .*reproducer saved as .*\n", done.stderr.decode()
    )


def test_without_a_place_for_the_reproducer() -> None:
    script = f"tempfile.tempdir = {'/dev/null'!r}; from tiduc.__main__ import main; main()"
    Path("code.py").write_text("import os; os.abort()")
    command = [
        sys.executable,
        "-c",
        f"import sys, tempfile; {script}",
        "grad",
        "f.mlir",
        "--rules",
        "code.py",
    ]
    done = subprocess.run(command, capture_output=True)
    assert done.returncode == 1
    assert done.stderr.endswith(b"; no reproducer could be saved: Not a directory\n")


def test_output_of_native_code_is_printed() -> None:
    done = with_rules("import os; os.write(2, b'from native code\\n')\nfrom tiduc import OPSET")
    assert (
        done.returncode == 0 and done.stderr == b"from native code\n" and b"stablehlo.cosine" in done.stdout
    )


@pytest.mark.parametrize(
    ("number", "status"),
    [
        ("SIGINT", 130),
        *(pytest.param(*each, marks=pytest.mark.more) for each in [("SIGTERM", 143), ("SIGHUP", 129)]),
    ],
)
@pytest.mark.usefixtures("default_signals")
def test_a_signal_ends_native_code_that_ignores_it(number: str, status: int, folder: Path) -> None:
    Path("endless.mlirbc").write_bytes(ENDLESS)
    heeding = partial(
        signal.signal, getattr(signal, number), signal.SIG_DFL
    )  # under nohup, SIGHUP is ignored
    command = [*TIDUC, "opt", "endless.mlirbc"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, preexec_fn=heeding) as process:
        worker = worker_of(process.pid)
        assert becomes(lambda: seconds_of(worker) > 1)  # the worker has started
        sent = time.monotonic()
        process.send_signal(getattr(signal, number))
        assert process.wait(300) == status
        is_busy = os.getloadavg()[0] >= (os.cpu_count() or 1)  # then other processes delay this one
        assert time.monotonic() - sent < (1.5 if is_busy else 1)
        assert process.stderr is not None and process.stderr.read() == b""
    assert not runs(worker) and not list(folder.iterdir())


def test_bytecode_that_takes_for_ever_reaches_a_limit() -> None:
    code = "import tiduc.dialect.mlir.context as c; c._seconds = lambda _: 0.5\nfrom tiduc import OPSET"
    Path("f.mlir").write_bytes(ENDLESS)
    done = with_rules(code)
    file, _, stage, _ = death(done)
    assert (
        file == "f.mlir" and "the file may be damaged: tiduc reached the time limit" in done.stderr.decode()
    )
    assert stage == "parse"


def test_sigkill_of_the_driver_ends_the_worker() -> None:
    Path("endless.mlirbc").write_bytes(ENDLESS)
    with subprocess.Popen([*TIDUC, "opt", "endless.mlirbc"]) as process:
        worker = worker_of(process.pid)
        assert becomes(lambda: seconds_of(worker) > 1)
        process.kill()
    assert becomes(lambda: not runs(worker), 5)


def worker_of(driver: int) -> int:
    """Waits until a driver has a child process, and returns the child's id."""
    children = Path(f"/proc/{driver}/task/{driver}/children")
    assert becomes(lambda: children.read_text().strip() != "")
    return int(children.read_text())


def seconds_of(process: int) -> float:
    """The CPU time in seconds that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) / os.sysconf("SC_CLK_TCK")


def on_terminal(script: str) -> tuple[int, int]:
    """Starts a shell with job control on a new terminal.

    Returns the shell's process id and the terminal's file descriptor.
    """
    pid, terminal = pty.fork()
    if not pid:
        os.execvp("bash", ["bash", "-m", "-c", script])
    return pid, terminal


def shown(terminal: int, last: bytes) -> bytes:
    """Reads and returns the output of a terminal until it contains `last`."""
    output = b""
    while last not in output:
        ready, _, _ = select.select([terminal], [], [], 30)
        assert ready, output
        output += os.read(terminal, 4096)
    return output


@pytest.mark.usefixtures("default_signals")
def test_keys_of_a_terminal() -> None:
    """Ctrl-Z stops both the driver and its worker, which continue when the job continues. Ctrl-C ends both."""
    line = " ".join(TIDUC)
    shell, terminal = on_terminal(f"{line} opt -; echo stopped $?; sleep 1; fg; echo ended $?")
    worker = worker_of(worker_of(shell))
    os.write(terminal, b"\x1a")
    shown(terminal, b"stopped 148")
    assert becomes(lambda: state(worker) == "T")  # waits, because the driver may stop before the worker
    assert becomes(lambda: state(worker) != "T")
    os.write(terminal, b"\x03")
    shown(terminal, b"ended 130")
    assert not runs(worker)
    os.close(terminal)
    os.waitpid(shell, 0)


def test_the_worker_reads_from_the_terminal() -> None:
    shell, terminal = on_terminal(f"{' '.join(TIDUC)} opt -; echo ended $?")
    os.write(terminal, b"module {}\n\x04")
    assert b"module {\r\n}\r\n" in shown(terminal, b"ended 0")
    os.close(terminal)
    os.waitpid(shell, 0)


def state(process: int) -> str:
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.parametrize("code", ["x = bytearray(2**30)", "x = []\nwhile True: x.append(bytes(2**22))"])
def test_a_limit_of_memory(code: str) -> None:
    done = with_rules(code, "--memory-limit", "512M")
    assert done.returncode == 1 and done.stderr.startswith(b"f.mlir: error: out of memory during grad; ")


def test_native_code_at_the_limit_of_memory() -> None:
    Path("hungry.mlirbc").write_bytes(HUNGRY)
    done = tiduc("--memory-limit", "512", "opt", "hungry.mlirbc")
    assert done.returncode == 1
    assert b"hungry.mlirbc: error: this bytecode takes more memory than there is" in done.stderr
    assert b"reproducer" not in done.stderr and b"Traceback" not in done.stderr


def test_libraries_that_do_not_fit_into_memory() -> None:
    """If libraries run out of memory at start-up, the command reports this.

    A shell sets the limit, because a process cannot raise its own limit again. At 280 MB, start-up succeeds on one
    core, where OpenBLAS starts no threads; then a later stage runs out of memory.
    """
    start_up = rb"error: out of memory during start-up; .*"
    later = rb"f\.mlir: error: out of memory during [a-z-]+; .*"
    for limit, ends in (120, start_up), (200, start_up), (280, rb"%b|%b" % (start_up, later)):
        command = f"ulimit -v {limit}000; exec {' '.join(TIDUC)} grad f.mlir"
        environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
        done = subprocess.run(["sh", "-c", command], capture_output=True, env=environment)
        assert done.returncode == 1 and done.stdout == b""
        assert re.fullmatch(ends, done.stderr.splitlines()[-1])
        assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("size", ["x", "-1", "5X", "1M", "1e9", ""])
def test_invalid_sizes(size: str) -> None:
    from tiduc.cli import run

    assert run(["--memory-limit", size, "passes"]) == 2
