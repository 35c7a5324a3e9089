"""Progress on a terminal: the stages, and the counts of finished kernels, which rise up to the program's total."""

import os
import pty
import re
import sys
import time

import pytest

from tiduc.backends.iree import compiler_progress
from tiduc.backends.iree.compile import compile_modules, compile_source
from tiduc.backends.iree.source import Source
from tiduc.cli import diagnostics
from tiduc.dialect import progress
from tiduc.dialect.errors import CompileError

THREE = """
func.func @main(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0]
    : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = stablehlo.sine %0 : tensor<4x4xf32>
  %2 = stablehlo.dot_general %1, %x, contracting_dims = [1] x [1]
    : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0, %2 : tensor<4x4xf32>, tensor<4x4xf32>
}
"""
LOOP = """
func.func @main(%x: tensor<8xf32>, %n: tensor<i32>) -> tensor<8xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %r:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<8xf32>
  cond {
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %j = stablehlo.add %i, %one : tensor<i32>
    %z = stablehlo.sine %y : tensor<8xf32>
    stablehlo.return %j, %z : tensor<i32>, tensor<8xf32>
  }
  return %r#1 : tensor<8xf32>
}
"""


def reports_of(source):
    """The compiled module of a program, and the distinct progress reports during its compilation."""
    said = []
    with progress.listening(said.append):
        module = compile_source(source, cached=False)
    return module, list(dict.fromkeys(said))


@pytest.mark.parametrize(("text", "executables"), [(THREE, 3), pytest.param(LOOP, 1, marks=pytest.mark.slow)])
def test_counts_rise_to_the_number_of_executables(monkeypatch, text, executables):
    expected = compile_source(Source(text), cached=False)
    monkeypatch.setattr(compiler_progress, "_EVERY", 0.002)
    module, said = reports_of(Source(text))
    assert module == expected and said[-1] == "IREE links the module"
    lowered = [re.fullmatch(r"IREE lowers executable (\d+) of (\d+)", each) for each in said]
    counts = [(int(match[1]), int(match[2])) for match in lowered if match]
    assert counts == sorted(counts) and {total for _, total in counts} <= {executables}
    monkeypatch.setattr(compiler_progress, "_LAST", "")  # omits the report that follows the last function
    plural = "s" * (executables > 1)
    assert (
        reports_of(Source(text))[1][-1]
        == f"LLVM has compiled {executables} of {executables} function{plural}"
    )


def test_other_targets_count_executables():
    assert reports_of(Source(THREE, "vulkan"))[1][-1] == "IREE lowers executable 3 of 3"


def test_flags_of_the_user_stay(tmp_path):
    with progress.listening(lambda _: None):
        with compiler_progress.reported(str(tmp_path), ["--mlir-print-ir-after-all"]) as seen:
            assert not seen.flags and seen.errors is None
        with compiler_progress.reported(str(tmp_path), ["--iree-opt-level=O2"]) as seen:
            assert seen.flags
    with compiler_progress.reported(str(tmp_path), []) as seen:  # nothing listens to the progress
        assert not seen.flags


def test_errors_have_no_remarks():
    text = THREE.replace("return %0, %2", 'stablehlo.custom_call @"no.such"(%x) {has_side_effect = true}'
        " : (tensor<4x4xf32>) -> tensor<4x4xf32>\n  return %0, %2")  # fmt: skip
    with pytest.raises(CompileError) as alone:
        compile_source(Source(text), cached=False)
    with pytest.raises(CompileError) as followed:
        reports_of(Source(text))
    assert str(followed.value) == str(alone.value)
    assert (
        compiler_progress.without_remarks("remark: -:1:0: 8 stack bytes\nerror: no\nremark: x")
        == "error: no\n"
    )


def test_several_programs_are_counted():
    said = []
    with progress.listening(said.append):
        compile_modules([[Source(LOOP)], [Source(THREE)]], cached=False)
    assert said == ["1 of 2 programs compiled", "2 of 2 programs compiled"]


COMMAND = """
import sys
import time
from tiduc.backends.iree import compiler_progress
from tiduc.cli import diagnostics, run
diagnostics.PATIENCE, compiler_progress._EVERY = 0.0, 0.002
sys.exit(run())
"""


@pytest.mark.parametrize("on_terminal", [True, False])
def test_the_command_shows_counts_on_a_terminal_only(tmp_path, on_terminal):
    path = tmp_path / "three.mlir"
    path.write_text(THREE)
    arguments = ["compile", str(path), "--no-cache", "-o", str(tmp_path / "three.vmfb")]
    reader, writer = pty.openpty() if on_terminal else os.pipe()
    pid = os.fork()
    if not pid:
        os.dup2(writer, 2)
        os.environ.update(TERM="xterm", COLUMNS="300")
        os.execv(sys.executable, [sys.executable, "-c", COMMAND, *arguments])
    os.close(writer)
    shown = b""
    try:
        while data := os.read(reader, 4096):
            shown += data
    except OSError:  # the child process has closed the terminal
        pass
    os.close(reader)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert (tmp_path / "three.vmfb").exists()
    assert (re.search(rb"of 3|links the module", shown) is not None) == on_terminal
    assert on_terminal or not shown


def test_stages_are_shown_after_a_while_on_a_terminal(monkeypatch, capfd):
    class Terminal:
        def isatty(self):
            return True

        def write(self, text):
            written.append(text)

        def flush(self):
            pass

    written = []
    monkeypatch.setattr(diagnostics, "PATIENCE", 0.05)
    monkeypatch.setattr(sys, "stderr", Terminal())
    with diagnostics.waiting("compiling"):
        pass
    assert not written
    monkeypatch.setenv("TERM", "xterm")
    with diagnostics.waiting("compiling"):
        time.sleep(0.5)
    assert "compiling" in "".join(written)
    with diagnostics.waiting("differentiating"), progress.during("parse"):
        with progress.during("linearize"):
            pass
        time.sleep(0.5)
        progress.report("entry 2 of 3")
        time.sleep(0.5)
    shown = "".join(written)
    assert "differentiating: parse, after 1 stage" in shown and "after 1 stage: entry 2 of 3" in shown
    assert not progress.has_listeners()
