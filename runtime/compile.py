"""compile: StableHLO to a compiled module, by IREE's compiler in a process of its own.

A process of its own, since some valid programs crash the compiler, and that must not take the caller along.
It costs no more time than a call inside this process.
"""

import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile

from iree.compiler.tools.binaries import find_tool

from tiduc.dialect.errors import CompileError
from tiduc.runtime.targets import Target, find_target

# `file:line:col: error: text`, `loc("name"): error: text`, `error: text`
_DIAGNOSTIC = re.compile(r"^(?:(?P<location>\S.*?): )?error: (?P<message>.*)$", re.MULTILINE)
_NO_LOCATION = re.compile(r"<unknown>|<stdin>:0:0")


def compile_module(stablehlo: str | bytes, target: str = "cpu", name: str = "<stdin>") -> bytes:
    """The compiled module (a `.vmfb` file's bytes) of a StableHLO program.

    `stablehlo` is MLIR text, MLIR bytecode or a StableHLO portable artifact; `name` stands for it in
    diagnostics.  Raises TiducError for an unknown target, and CompileError, with the compiler's first
    diagnostic and its location, where the compiler refuses the program or crashes on it.
    """
    chosen = find_target(target)
    # surrogateescape: text that came from bytes which are no UTF-8 goes back to these bytes.
    program = stablehlo.encode("utf-8", "surrogateescape") if isinstance(stablehlo, str) else stablehlo
    command = [find_tool("iree-compile"), *chosen.flags, *_linker(chosen), "-", "-o", "-"]
    # The compiler's own temporary files go with this directory, also when the compiler is killed.
    with tempfile.TemporaryDirectory(prefix="tiduc-") as folder:
        # On KeyboardInterrupt `run` kills the process and waits for it.
        done = subprocess.run(
            command, input=program, capture_output=True, env={**os.environ, "TMPDIR": folder}, check=False
        )
    if done.returncode == 0 and done.stdout:
        return done.stdout
    raise _refused(done.returncode, done.stderr.decode("utf-8", "replace"), chosen, name)


def _linker(target: Target) -> tuple[str, ...]:
    """The flag that names the linker in IREE's own package, so that none has to be installed."""
    if "--iree-llvmcpu-link-embedded=false" not in target.flags or not sys.platform.startswith("linux"):
        return ()
    # The flag's value is a shell's command line, hence the quotes.
    return (f"--iree-llvmcpu-system-linker-path={shlex.quote(find_tool('iree-lld'))} -flavor gnu",)


def _refused(returncode: int, stderr: str, target: Target, name: str) -> CompileError:
    """The error to raise for a compiler that ended in this way."""
    # A crash can follow a diagnostic, which then is what the user needs.
    found = _DIAGNOSTIC.search(stderr)
    if found:
        location = found["location"] or ""
        located = name if _NO_LOCATION.match(location) else location.replace("<stdin>", name, 1)
        # The op is named before, and printing all of it takes a screen.
        message = found["message"].partition(" that was explicitly marked illegal")[0]
        return CompileError(f"target {target.name!r}: {message}", located or name)
    if returncode < 0:
        return CompileError(
            f"target {target.name!r}: IREE's compiler crashed ({_signal_name(-returncode)}) on this program. "
            "The fault is the compiler's: try another target, or leave parts out until the op at fault "
            f"is found. To report it: iree-compile {' '.join(target.flags)}",
            name,
        )
    last = stderr.strip().rsplit("\n", 1)[-1]
    return CompileError(f"target {target.name!r}: the compiler ended with {returncode}: {last}", name)


def _signal_name(number: int) -> str:
    """`SIGSEGV` for 11, and so on."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
