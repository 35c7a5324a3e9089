"""Tests compilation: programs that IREE's compiler rejects or crashes on, input formats, limits, and interrupts."""

import io
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases.witnesses import find_witness
from iree.compiler.tools.binaries import find_tool

from tiduc.backends.backend import Lowered, Options
from tiduc.backends.iree.compile import (
    compile_module,
    compile_modules,
    compile_source,
    refusal,
)
from tiduc.backends.iree.source import Source
from tiduc.backends.iree.targets import find_target
from tiduc.cli import run
from tiduc.dialect.errors import CompileError
from tiduc.runtime.process import Ended, Limits, Stopped, run_within
from tiduc.runtime.run import run_module

MORE = "IREE's compiler needs more than the 1 MiB"
LOADING = "bin/iree-compile: error while loading shared libraries: libIREECompiler.so"


def unary(op: str, element: str) -> str:
    """The text of a function `f` that applies the op to a vector of three elements."""
    t = f"tensor<3x{element}>"
    arrow = f" -> {t}" if op.startswith("chlo") else ""
    return f"func.func @f(%x: {t}) -> {t} {{\n %y = {op} %x : {t}{arrow}\n return %y : {t}\n}}"


@pytest.mark.parametrize(
    "program, words",
    [
        ("garbage", r"^x.mlir:1:1: error: .*garbage"),
        ("", r"^x.mlir: error: "),
        ("\ufeff\udcff", r"^x.mlir:1:1: error: "),
        (unary("stablehlo.foo", "f32"), r"^x.mlir:2:7: error: .*'stablehlo.foo' is unknown"),
        (unary("stablehlo.sine", "i32"), r"^x.mlir:2:7: error: .*'stablehlo.sine' op operand #0 must be"),
        (unary("stablehlo.cbrt", "f64"), r"^x.mlir:2:7: error: target 'cpu': failed to legalize .*cbrt'$"),
        (b"ML\xefR but cut", r"^x.mlir.*: error: "),
    ],
)
def test_refused_programs(program: str | bytes, words: str) -> None:
    with pytest.raises(CompileError) as raised:
        compile_module(program, name="x.mlir")
    assert re.search(words, str(raised.value)), str(raised.value)


def test_a_location_in_the_program_is_the_one_told() -> None:
    program = unary("stablehlo.cbrt", "f64").replace("\n return", ' loc("a.py":7:3)\n return')
    with pytest.raises(CompileError, match="^a.py:7:3: error: "):
        compile_module(program)


def test_a_crash_of_the_compiler_is_reported() -> None:
    types = "(tensor<2x0xf32>, tensor<0x3xf32>) -> tensor<2x3xf32>"
    program = f"""func.func @f(%x: tensor<2x0xf32>, %y: tensor<0x3xf32>) -> tensor<2x3xf32> {{
        %z = stablehlo.dot %x, %y : {types}
        return %z : tensor<2x3xf32>
    }}"""
    with pytest.raises(CompileError, match=r"compiler crashed \(SIG\w+\).*try another target"):
        compile_module(program)


@pytest.mark.parametrize(
    "witness, place",
    [
        ("convolution_reversed", ":2:6"),
        ("pad_one_element", ":4:14"),
        ("pads_by_one_number", ""),
        ("reduce_window_excess", ":3:14"),
        ("scatter_window", ":2:6"),
    ],
)
def test_invalid_ops_are_found_between_runs_of_the_compiler(witness: str, place: str) -> None:
    """These invalid programs are refused at the op's line. With --verify=false, IREE would compile them wrongly."""
    source = Source(find_witness(witness).text, name="x.mlir", places=True)
    with pytest.raises(CompileError, match=f"^x.mlir{place}"):
        compile_source(source, cached=False)


@pytest.mark.parametrize("place", ["<stdin>:7:3", 'loc(fused["<stdin>":7:3, "<stdin>":8:3])'])
def test_lines_of_vm_code_are_no_places_of_the_program(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    def failing(command: list[str], *more: Any) -> Ended:
        if "--compile-from=vm" in command:
            return Ended(1, b"", f"{place}: error: bad")
        return run_within(command, *more)

    monkeypatch.setattr("tiduc.backends.iree.compile.run_within", failing)
    source = Source(unary("stablehlo.sine", "f32"), name="x.mlir", places=True)
    with pytest.raises(CompileError, match="^x.mlir: error: .*bad"):
        compile_source(source, cached=False)


def test_bytecode_and_portable_artifacts() -> None:
    ir = pytest.importorskip("torch_mlir.ir")
    from torch_mlir._mlir_libs import _stablehlo

    program = unary("stablehlo.sine", "f64")
    x = np.array([1.0, 2, 3])
    bytecode = io.BytesIO()
    with ir.Context() as context:
        _stablehlo.register_dialect(context)
        module = ir.Module.parse(program)
        module.operation.write_bytecode(bytecode)
        portable = _stablehlo.serialize_portable_artifact_str(program, "1.0.0")
    for form in (bytecode.getvalue(), portable):
        np.testing.assert_allclose(run_module(compile_module(form), [x])[0], np.sin(x), rtol=1e-15)


def test_a_location_of_several_is_the_innermost() -> None:
    program = unary("stablehlo.cbrt", "f64")
    for location in (
        'fused["fused", "a.py":7:3]',
        '"name"("a.py":7:3)',
        'callsite("a.py":7:3 at "b.py":1:1)',
    ):
        with pytest.raises(CompileError, match="^a.py:7:3: error: "):
            compile_module(program.replace("\n return", f" loc({location})\n return"))
        with pytest.raises(CompileError, match="^x.mlir:7:3: error: "):
            given = program.replace("\n return", f" loc({location})\n return").replace("a.py", "<stdin>")
            compile_module(given, name="x.mlir")


SLEEPS = f"#!/bin/sh\ntouch $TMPDIR/x\n{sys.executable} -c 'import time; time.sleep(60)' & echo $! > $0.pid\nwait\n"
HUNGRY = (
    f"#!/bin/sh\nread line; {sys.executable} -c 'bytearray(600_000_000)' 2>/dev/null || "
    "echo std::bad_alloc >&2; exit 1\n"
)


def tool(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Makes tiduc run this script instead of IREE's compiler, and returns the path of the script."""
    path = folder / "iree-compile"
    path.write_text(script)
    path.chmod(0o755)
    monkeypatch.setenv("IREE_TOOL_PATH", str(folder))
    return path


def ended(process: int) -> bool:
    """Whether a process ends, or becomes a zombie, within five seconds."""
    for _ in range(50):
        try:
            state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state in "ZX":
            return True
        time.sleep(0.1)
    return False


posix = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs a shell and /proc")


@posix
def test_a_hanging_compiler_and_its_children_are_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tool(tmp_path, SLEEPS, monkeypatch)
    with pytest.raises(CompileError, match="^f.mlir: error: .*ended after 0.5 seconds.*--compile-timeout"):
        compile_module("x" * 10_000_000, "cpu", "f.mlir", Limits(0.5), cached=False)
    assert ended(int(Path(f"{path}.pid").read_text()))


@posix
@pytest.mark.more
def test_a_recursive_program_hangs_the_compiler_no_longer_than_it_may() -> None:
    program = """func.func @main(%x: tensor<f32>) -> tensor<f32> {
        %y = func.call @main(%x) : (tensor<f32>) -> tensor<f32>
        return %y : tensor<f32>
    }"""
    with pytest.raises(CompileError, match="ended after 3 seconds|crashed|recurs"):
        compile_module(program, limits=Limits(3, 2000), cached=False)


@posix
def test_memory_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool(tmp_path, HUNGRY, monkeypatch)
    with pytest.raises(CompileError, match="more than the 300 MiB of memory.*--compile-memory"):
        compile_module("", limits=Limits(60, 300), cached=False)


@posix
def test_the_compiler_within_too_little_memory() -> None:
    with pytest.raises(CompileError, match="more than the 20 MiB of memory"):
        compile_module(unary("stablehlo.sine", "f32"), limits=Limits(60, 20), cached=False)
    assert compile_module(unary("stablehlo.sine", "f32"), limits=Limits(0, 0), cached=False)


def test_modules_compile_side_by_side() -> None:
    programs = [unary(op, "f32") for op in ("stablehlo.sine", "stablehlo.foo", "stablehlo.cosine")]
    sources = [[Source(program, "cpu", f"{i}.mlir")] for i, program in enumerate(programs)]
    sine, refused, cosine = compile_modules(sources, cached=False, jobs=3)
    assert isinstance(refused, CompileError) and str(refused).startswith("1.mlir:2:7: error: ")
    x = np.array([1, 2, 3], np.float32)
    for vmfb, function in ((sine, np.sin), (cosine, np.cos)):
        assert isinstance(vmfb, bytes)
        np.testing.assert_allclose(run_module(vmfb, [x])[0], function(x), rtol=1e-5)
    assert compile_modules([]) == []


@posix
def test_one_stop_ends_all(tmp_path: Path) -> None:
    stop = threading.Event()
    threading.Timer(0.5, stop.set).start()
    started = time.monotonic()
    with pytest.raises(Stopped):
        run_within(["sleep", "60"], b"x", Limits(), os.environ, stop)
    assert time.monotonic() - started < 5


INTERRUPTED = """
import os, signal, sys, tempfile, threading
from tiduc.backends.iree.compile import refusal, compile_module, compile_modules
from tiduc.backends.iree.source import Source
tempfile.tempdir = sys.argv[1]
os.environ["IREE_TOOL_PATH"] = sys.argv[2]
interrupt = [threading.main_thread().ident, signal.SIGINT]
threading.Timer(1, signal.pthread_kill, interrupt).start()
compile_modules([[Source("")]] * 5, jobs=2) if sys.argv[3] == "several" else compile_module("")
"""


@posix
@pytest.mark.parametrize("how", ["one", "several"])
@pytest.mark.usefixtures("default_signals")
def test_an_interrupt_ends_the_compiler_and_leaves_nothing(tmp_path: Path, how: str) -> None:
    tools, left = tmp_path / "tools", tmp_path / "left"
    tools.mkdir()
    left.mkdir()
    (tools / "iree-compile").write_text(
        f"#!/bin/sh\ntouch $TMPDIR/x\nsleep 60 & echo $! $$ >> {tmp_path}/pids\nwait\n"
    )
    (tools / "iree-compile").chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, left, tools, how], capture_output=True, text=True, check=False
    )
    assert "KeyboardInterrupt" in done.stderr
    assert not os.listdir(left)
    pids = (tmp_path / "pids").read_text().split()
    assert len(pids) == (2 if how == "one" else 4)
    assert all(ended(int(pid)) for pid in pids)


@posix
@pytest.mark.usefixtures("default_signals")
def test_an_interrupt_while_a_process_starts_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []

    class Interrupted(subprocess.Popen):  # type: ignore[type-arg]
        def __init__(self, *arguments: object, **options: object) -> None:
            super().__init__(*arguments, **options)  # type: ignore[call-overload]
            started.append(self)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_within(["sleep", "60"], b"", Limits(), os.environ)
    assert started[0].returncode == -signal.SIGKILL
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@posix
@pytest.mark.parametrize("sent, status", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.usefixtures("default_signals")
def test_a_command_that_is_ended_ends_its_compilers(tmp_path: Path, sent: int, status: int) -> None:
    tools, left = tmp_path / "tools", tmp_path / "left"
    for folder in (tools, left):
        folder.mkdir()
    (tools / "iree-compile").write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 60\n")
    (tools / "iree-compile").chmod(0o755)
    (tmp_path / "f.mlir").write_text(unary("stablehlo.sine", "f32"))
    command = [sys.executable, "-m", "tiduc", "compile", tmp_path / "f.mlir", "-o", tmp_path / "f.vmfb"]
    environment = {**os.environ, "IREE_TOOL_PATH": str(tools), "TMPDIR": str(left)}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE)
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(sent)
    assert process.wait(300) == status
    assert ended(int((tmp_path / "pid").read_text())) and not os.listdir(left)
    assert not (tmp_path / "f.vmfb").exists()


def test_several_files_in_one_command(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    t = "tensor<3xf64>"
    texts = {
        "sine": unary("stablehlo.sine", "f64"),
        "cosine": unary("stablehlo.cosine", "f64"),
        "call": unary("stablehlo.custom_call @nowhere(%x) :", "f64").replace(f"%x : {t}", f"({t}) -> {t}"),
        "garbage": "garbage",
    }
    places = {name: str(tmp_path / f"{name}.mlir") for name in texts}
    for name, text in texts.items():
        Path(places[name]).write_text(text)
    out = tmp_path / "out"
    assert run(["compile", places["sine"], places["cosine"], "-o", str(out)]) == 0
    assert sorted(os.listdir(out)) == ["cosine.vmfb", "sine.vmfb"]
    assert run(["compile", *places.values(), "-o", str(tmp_path / "again")]) == 1
    assert sorted(os.listdir(tmp_path / "again")) == ["cosine.vmfb", "sine.vmfb"]
    told = capfd.readouterr().err
    assert f"{places['garbage']}:1:1: error: " in told and f"{places['call']}:2:7: error: " in told
    assert run(["compile", places["sine"], places["sine"], "-o", str(out)]) == 1
    assert run(["compile", places["sine"], places["cosine"]]) == 1
    assert "same name" in (told := capfd.readouterr().err) and "name a folder with -o" in told


def test_limits_of_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "f.mlir").write_text(unary("stablehlo.sine", "f64"))
    seen = []

    def built(program: Lowered, options: Options, *_: Any, **__: Any) -> bytes:
        seen.append((options.limits, options.cached))
        return b"module"

    monkeypatch.setattr("tiduc.cli.libraries.build", built)
    command = ["compile", str(tmp_path / "f.mlir"), "-o", os.devnull]
    limited = [*command, "--compile-timeout", "0.5", "--compile-memory", "7", "--no-cache"]
    assert run(command) == run(limited) == 0
    assert seen == [(Limits(), True), (Limits(0.5, 7), False)]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits memory")
def test_errors_of_the_compiler_name_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "f.mlir"
    file.write_text(unary("stablehlo.sine", "f64"))
    assert run(["compile", str(file), "--compile-memory=1", "--no-cache", "-o", os.devnull]) == 1
    assert f"{file}: error: @f: target 'cpu': IREE's compiler needs more" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("code", "said", "words"),
    [
        (-signal.SIGABRT, "LLVM ERROR: out of memory\nAllocation failed", MORE),
        (-signal.SIGABRT, "LLVM ERROR: out of memory\nBuffer allocation failed", MORE),
        (-signal.SIGABRT, "LLVM ERROR: pthread_create failed: Resource temporarily unavailable", MORE),
        (-signal.SIGABRT, "terminate called after throwing an instance of 'std::bad_alloc'", MORE),
        (
            -signal.SIGABRT,
            "an instance of 'std::system_error'\n what():  Resource temporarily unavailable",
            MORE,
        ),
        (127, "out of memory", MORE),
        (127, f"{LOADING}: cannot map zero-fill pages", MORE),
        (127, f"{LOADING}: failed to map segment from shared object", MORE),
        (127, f"{LOADING}: cannot create TLS data structures: Cannot allocate memory", MORE),
        (
            127,
            f"{LOADING}: cannot open shared object file: No such file or directory",
            "ended with 127: .*No such",
        ),
        (-signal.SIGKILL, "", "was killed .SIGKILL., probably because the system ran out of memory"),
        (-signal.SIGSEGV, "", "crashed .SIGSEGV. on this program"),
    ],
)
def test_compilers_that_run_out_of_memory(code: int, said: str, words: str) -> None:
    """The diagnostic for each message that the compiler or the loader prints if memory runs out.

    The messages are from 300 runs with limits of 1 to 35 MiB.
    """
    error = refusal(Ended(code, b"", said), Limits(mebibytes=1), find_target("cpu"), "f.mlir")
    assert re.match(f"f.mlir: error: target 'cpu': .*{words}", str(error))


def test_workaround_embedded_linking_knows_no_libm() -> None:
    """IREE's embedded linker does not find `sin`.

    If this test fails, targets.py no longer needs --iree-llvmcpu-link-embedded=false.
    """
    flags = [flag for flag in find_target("cpu").flags if "link-embedded" not in flag]
    done = subprocess.run(
        [find_tool("iree-compile"), *flags, "-", "-o", os.devnull],
        input=unary("stablehlo.sine", "f64").encode(),
        capture_output=True,
        check=False,
    )
    assert done.returncode and b"undefined symbol: sin" in done.stderr
