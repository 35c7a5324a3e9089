"""If native code in a worker process crashes, hangs or uses too much memory, the calling process gets an error."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tiduc
from tiduc.backends.reference.interpreter import Interpreted, evaluate
from tiduc.dialect.errors import CompileError, InputError, ParseError, RequestError, TiducError, Unsupported
from tiduc.runtime.process import Limits
from tiduc.runtime.worker import Died, Worker, in_worker

EXAMPLES = Path(__file__).parents[2] / "examples"
SOON = Limits(seconds=60, mebibytes=1024)

DOUBLE = """
func.func @main(%x: tensor<2xf64>) -> tensor<2xf64> {
  %0 = stablehlo.add %x, %x : tensor<2xf64>
  return %0 : tensor<2xf64>
}
"""
FOREVER = """
func.func @main(%x: tensor<i1>) -> tensor<i1> {
  %0 = stablehlo.while(%y = %x) : tensor<i1>
    cond { stablehlo.return %y : tensor<i1> } do { stablehlo.return %y : tensor<i1> }
  return %0 : tensor<i1>
}
"""
LARGE = """
func.func @main(%x: tensor<f64>) -> tensor<100000x100000xf64> {
  %0 = stablehlo.broadcast_in_dim %x, dims = [] : (tensor<f64>) -> tensor<100000x100000xf64>
  return %0 : tensor<100000x100000xf64>
}
"""
RANDOM = """
func.func @main(%a: tensor<f32>) -> tensor<4xf32> {
  %s = stablehlo.constant dense<4> : tensor<1xi64>
  %0 = stablehlo.rng %a, %a, %s, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""
DYNAMIC_RESULT = """
func.func @main(%x: tensor<2xf32>) -> tensor<?xf32> {
  %0 = stablehlo.add %x, %x : (tensor<2xf32>, tensor<2xf32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}
"""


def identity(element: str) -> str:
    """The text of a program that returns its argument."""
    return f"func.func @main(%x: tensor<4x{element}>) -> tensor<4x{element}> {{ return %x : tensor<4x{element}> }}"


def nested(depth: int) -> str:
    """The text of a program with `depth` nested regions. If there are many, MLIR's parser overflows the stack."""
    opening = "".join(f'%r{i} = "stablehlo.if"(%p) ({{\n' for i in range(depth))
    other = "}, { stablehlo.return %x : tensor<f32> }) : (tensor<i1>) -> tensor<f32>\n"
    closing = "".join(f"{other}stablehlo.return %r{i} : tensor<f32>\n" for i in reversed(range(1, depth)))
    return (
        "func.func @main(%x: tensor<f32>, %p: tensor<i1>) -> tensor<f32> {\n"
        f"{opening}stablehlo.return %x : tensor<f32>\n{closing}{other}return %r0 : tensor<f32>\n}}"
    )


# ---- workers -----------------------------------------------------------------------------------------------


def test_a_worker_serves_many_calls() -> None:
    with Worker() as one:
        first = one.call(os.getpid, SOON)
        assert first != os.getpid() and one.call(os.getpid, SOON) == first
        with pytest.raises(ZeroDivisionError):
            one.call(divmod, SOON, 1, 0)
        assert one.call(os.getpid, SOON) == first
    assert not one.is_alive()


def test_a_worker_that_died_is_replaced() -> None:
    with pytest.raises(Died, match=r"died \(SIGABRT\)"):
        in_worker(os.abort, SOON)
    assert in_worker(divmod, SOON, 7, 2) == (3, 1)


def test_limits_of_a_call() -> None:
    with pytest.raises(Died, match=r"took longer than 0.5 seconds"):
        in_worker(time.sleep, Limits(0.5, 1024), 60)
    with pytest.raises(Died, match="needs more than the 256 MiB"):
        in_worker(bytearray, Limits(60, 256), 2**30)
    assert len(in_worker(bytearray, Limits(60, 0), 2**20)) == 2**20


def test_arrays_pass_whole_and_can_be_written() -> None:
    x = np.arange(2**18, dtype=np.float64)
    y = in_worker(np.negative, SOON, x)
    np.testing.assert_array_equal(y, -x)
    y[0] = 1


def test_threads_have_workers_of_their_own() -> None:
    pids: list[int] = []

    def one() -> None:
        in_worker(time.sleep, SOON, 0.3)
        pids.append(in_worker(os.getpid, SOON))

    threads = [threading.Thread(target=one) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(pids) == 2


SLEEPS = """
import os, time
from tiduc.runtime.process import Limits
from tiduc.runtime.worker import in_worker
print(in_worker(os.getpid, Limits()), flush=True)
in_worker(time.sleep, Limits(), 600)
"""


def test_a_worker_ends_with_its_caller() -> None:
    with subprocess.Popen([sys.executable, "-c", SLEEPS], stdout=subprocess.PIPE, text=True) as caller:
        assert caller.stdout is not None
        pid = int(caller.stdout.readline())
        time.sleep(0.2)
        caller.send_signal(signal.SIGKILL)
    assert ended(pid, 5)


def ended(pid: int, seconds: float) -> bool:
    """Whether a process ends within this time. The process need not be a child of this one."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


def test_a_forked_process_has_workers_of_its_own() -> None:
    in_worker(os.getpid, SOON)
    reader, writer = os.pipe()
    if not (child := os.fork()):
        os.write(writer, str(in_worker(divmod, SOON, 7, 2)).encode())
        os._exit(0)
    os.close(writer)
    assert finished(child, 30) == 0
    assert os.read(reader, 100) == b"(3, 1)"
    os.close(reader)
    assert in_worker(divmod, SOON, 9, 2) == (4, 1)


def finished(child: int, seconds: float) -> int | None:
    """Waits for a child process and returns its exit code. If it does not end in time, kills it and returns None."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


# ---- the interpreter ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "argument", "message"),
    [
        (RANDOM, np.float32(0), "stablehlo.rng is unsupported"),
        (DYNAMIC_RESULT, np.zeros(2, np.float32), "dynamic result types"),
        (identity("ui4"), np.zeros(4, np.uint8), "interpreter failed"),
        (identity("f8E4M3FN"), np.zeros(4, ml_dtypes.float8_e4m3fn), "cannot run it"),
    ],
    ids=["rng", "dynamic", "ui4", "f8"],
)
def test_programs_the_interpreter_cannot_run(text: str, argument: Any, message: str) -> None:
    with pytest.raises(Unsupported, match=message):
        evaluate(text, [argument], SOON)
    np.testing.assert_array_equal(evaluate(DOUBLE, [np.arange(2.0)])[0], [0, 2])


def test_limits_of_the_interpreter() -> None:
    with pytest.raises(CompileError, match="interpreter took longer than 1 seconds"):
        evaluate(FOREVER, [np.array(True)], Limits(1, 1024))
    with pytest.raises(CompileError, match="interpreter needs more than the 1024 MiB"):
        evaluate(LARGE, [np.array(1.0)], SOON)


def test_the_interpreter_outlives_its_worker() -> None:
    run = Interpreted(DOUBLE)
    with pytest.raises(Died):
        in_worker(os.abort, SOON)
    np.testing.assert_array_equal(run([np.ones(2)])[0], [2, 2])
    with pytest.raises(InputError, match="takes 1 arguments, but the call has 0"):
        run([])
    with pytest.raises(ParseError, match=r"-:1:\d+"):
        Interpreted("func.func @main(")


# ---- reading -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mlp_f32.mlir", "newton.mlir"])
def test_an_isolated_program_is_the_program(name: str) -> None:
    program, isolated = (tiduc.load(EXAMPLES / name, isolated=each) for each in (False, True))
    assert isolated.text == program.text and isolated.grad().text == program.grad().text
    assert tiduc.load((EXAMPLES / name).read_text(), isolated=True).text == program.text


@pytest.mark.parametrize(
    "source",
    [
        nested(10_000),
        f"func.func @main() attributes {{a = {'[' * 100_000}{']' * 100_000}}} {{ return }}",
    ],
    ids=["regions", "attributes"],
)
def test_a_source_that_crashes_mlir_is_an_error(source: str) -> None:
    with pytest.raises(ParseError, match=r"^error: reading died \(SIG(SEGV|ABRT|BUS)\)$"):
        tiduc.load(source, isolated=True, limits=SOON)
    with pytest.raises(ParseError, match="reading died"):
        tiduc.load(source.encode(), isolated=True, limits=SOON)


def test_a_source_without_end_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TiducError, match="^/dev/zero: error: .*not a regular file, and larger than 64 MiB"):
        tiduc.load("/dev/zero", isolated=True, limits=Limits(60, 512))
    os.mkfifo(tmp_path / "pipe.mlir")
    with pytest.raises(ParseError, match="pipe.mlir: error: reading took longer than 1 seconds"):
        tiduc.load(tmp_path / "pipe.mlir", isolated=True, limits=Limits(1, 1024))


def test_isolated_errors_are_those_of_load(tmp_path: Path) -> None:
    for source, entry, kind in (
        (tmp_path / "none.mlir", None, TiducError),
        ("func.func @main( {", None, ParseError),
        (EXAMPLES / "newton.mlir", "other", RequestError),
    ):
        messages = []
        for isolated in (False, True):
            with pytest.raises(kind) as raised:
                tiduc.load(source, entry, isolated=isolated)
            messages.append(str(raised.value))
        assert messages[0] == messages[1]


def test_a_model_in_a_process_of_its_own(tmp_path: Path) -> None:
    plain, isolated = (tiduc.import_model(EXAMPLES / "mlp_f32.mlir", isolated=each) for each in (False, True))
    assert isolated.text == plain.text
    (tmp_path / "deep.mlir").write_text(nested(10_000))
    with pytest.raises(ParseError, match=r"deep.mlir: error: reading died \(SIG"):
        tiduc.import_model(tmp_path / "deep.mlir", isolated=True, limits=SOON)


# ---- devices after a fork ----------------------------------------------------------------------------------

FORKS = """
import os, sys
import numpy as np
import tiduc

module = tiduc.runtime.load(sys.argv[1], sys.argv[2])
x = np.arange(2.0)
kept = module["main"].keep(x)[0]
if not (child := os.fork()):
    load = lambda: tiduc.runtime.load(sys.argv[1], sys.argv[2])["main"]
    for attempt in (lambda: module["main"](x), lambda: module["main"](kept), lambda: load()(x)):
        try:
            print(*attempt()[0], flush=True)
        except tiduc.TiducError as error:
            print(error.message, flush=True)
    print(*kept.numpy(), flush=True)
    sys.exit(3)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), *module["main"](x)[0], flush=True)
"""


@pytest.mark.parametrize("target", ["cpu", "cpu-threads"])
def test_a_forked_process(target: str, tmp_path: Path) -> None:
    tiduc.load(DOUBLE).compile(target).save(tmp_path / "double.vmfb")
    command = [sys.executable, "-c", FORKS, str(tmp_path / "double.vmfb"), target]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    *child, numbers, last = done.stdout.splitlines()
    assert (numbers, last, done.stderr) == ("0.0 2.0", "3 0.0 2.0", "")
    if target == "cpu":
        assert child == ["0.0 2.0", "0.0 4.0", "0.0 2.0"]
    else:
        assert all("before this process was forked" in line for line in child) and len(child) == 3
