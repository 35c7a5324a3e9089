"""Programs that IREE's compiler refuses, crashes on or takes in other forms; targets; interrupts."""

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from iree.compiler.tools.binaries import find_tool

from tiduc.dialect.errors import CompileError, TiducError
from tiduc.runtime.compile import compile_module
from tiduc.runtime.run import run_module
from tiduc.runtime.targets import TARGETS, find_target


def unary(op: str, element: str) -> str:
    """A function `f` of one vector of three."""
    t = f"tensor<3x{element}>"
    arrow = f" -> {t}" if op.startswith("chlo") else ""
    return f"func.func @f(%x: {t}) -> {t} {{\n %y = {op} %x : {t}{arrow}\n return %y : {t}\n}}"


@pytest.mark.parametrize(
    "name, words",
    [
        ("tpu", "unknown target 'tpu'; known targets: cpu, cpu-threads, cuda, vmvx, vulkan"),
        ("", "unknown target ''"),
        ("cpu:avx", "target 'cpu' has no variants"),
        ("cuda:sm_99", "unknown variant 'sm_99' of target 'cuda'"),
        ("cuda:", "unknown variant ''"),
    ],
)
def test_unknown_targets(name: str, words: str) -> None:
    with pytest.raises(TiducError) as raised:
        compile_module(unary("stablehlo.sine", "f32"), name)
    assert words in str(raised.value)


def test_no_target_makes_f32_of_f64() -> None:
    for name in TARGETS:
        assert "--iree-input-demote-f64-to-f32=false" in find_target(name).flags


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


def test_a_crash_of_the_compiler_is_told() -> None:
    types = "(tensor<2x0xf32>, tensor<0x3xf32>) -> tensor<2x3xf32>"
    program = f"""func.func @f(%x: tensor<2x0xf32>, %y: tensor<0x3xf32>) -> tensor<2x3xf32> {{
        %z = stablehlo.dot %x, %y : {types}
        return %z : tensor<2x3xf32>
    }}"""
    with pytest.raises(CompileError, match=r"compiler crashed \(SIG\w+\).*try another target"):
        compile_module(program)


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


INTERRUPTED = """
import os, signal, sys, tempfile, threading
from tiduc.runtime.compile import compile_module
tempfile.tempdir = sys.argv[1]
os.environ["IREE_TOOL_PATH"] = sys.argv[2]
interrupt = [threading.main_thread().ident, signal.SIGINT]
threading.Timer(1, signal.pthread_kill, interrupt).start()
compile_module("")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell")
def test_an_interrupt_ends_the_compiler_and_leaves_nothing(tmp_path: Path) -> None:
    tools, left = tmp_path / "tools", tmp_path / "left"
    tools.mkdir()
    left.mkdir()
    (tools / "iree-compile").write_text(
        f"#!/bin/sh\necho $$ > {tmp_path}/pid\ntouch $TMPDIR/x\nexec sleep 60\n"
    )
    (tools / "iree-compile").chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, left, tools], capture_output=True, text=True, check=False
    )
    assert "KeyboardInterrupt" in done.stderr
    assert not os.listdir(left)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_workaround_embedded_linking_knows_no_libm() -> None:
    """Where this fails, targets.py needs --iree-llvmcpu-link-embedded=false no more."""
    flags = [flag for flag in find_target("cpu").flags if "link-embedded" not in flag]
    done = subprocess.run(
        [find_tool("iree-compile"), *flags, "-", "-o", os.devnull],
        input=unary("stablehlo.sine", "f64").encode(),
        capture_output=True,
        check=False,
    )
    assert done.returncode and b"undefined symbol: sin" in done.stderr
