"""Crash reports: a diagnostic, and a folder with all files that reproduce the crash."""

import os
import platform
import re
import shlex
import signal
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from tiduc.cli.diagnostics import report
from tiduc.cli.memory import no_memory
from tiduc.dialect.errors import TiducError, out_of_memory

_LARGEST = 2**28  # the size in bytes up to which a file is copied into the folder
_LOST = re.compile(rb"distributed service|coordination service|gloo|nccl", re.IGNORECASE)


@dataclass(frozen=True)
class Crash:
    """How a worker process died, and which stage and file it was working on.

    `said` is the text that the worker printed to standard error. `trace` is the Python stack where it died.
    """

    status: int  # the status from `os.waitpid`
    stage: str
    file: str
    source: bytes  # the bytes read from a pipe; empty if `file` can be read again
    said: bytes
    trace: bytes
    joined: bool = False  # whether the worker communicated with processes of other drivers

    @property
    def has_lost_others(self) -> bool:
        """Whether the worker ended because it could not reach another process: JAX then aborts, or raises an error."""
        aborted = os.WIFSIGNALED(self.status) and os.WTERMSIG(self.status) == signal.SIGABRT
        failed = os.WIFEXITED(self.status)
        message = self.said if aborted else self.trace if failed else b""
        return self.joined and _LOST.search(message) is not None

    @property
    def ending(self) -> str:
        """How the worker ended, as the diagnostic states it."""
        if not os.WIFSIGNALED(self.status):
            if self.trace:
                return f"tiduc failed ({self.trace.decode(errors='replace').strip().splitlines()[-1]})"
            return f"a library ended tiduc (exit status {os.WEXITSTATUS(self.status)})"
        number = os.WTERMSIG(self.status)
        if number == signal.SIGALRM:  # `progress.time_limit` has set this alarm, so the limit is reached
            return "the file may be damaged: tiduc reached the time limit"
        name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
        return f"tiduc died ({name}{', core dumped' if os.WCOREDUMP(self.status) else ''})"


def report_crash(crash: Crash) -> None:
    """Prints the diagnostic of a crash. Saves a reproducer, unless memory ran out or another process has died."""
    if sys.stderr is not None and sys.stderr.isatty():
        print("\r\x1b[K\x1b[?25h", end="", file=sys.stderr)  # a spinner may have hidden the cursor
    file = "<stdin>" if crash.file == "-" else crash.file
    if out_of_memory(crash.said + crash.trace):
        report(no_memory())
        return
    if crash.has_lost_others:
        report(
            TiducError(
                f"another process has died or cannot be reached, during {crash.stage}; see the errors of the others",
                file,
            )
        )
        return
    killed = os.WIFSIGNALED(crash.status) and os.WTERMSIG(crash.status) == signal.SIGKILL
    why = "; the system may have run out of memory" if killed else ""
    report(TiducError(f"{crash.ending} during {crash.stage}{why}; {_saved(crash)}", file))


def _saved(crash: Crash) -> str:
    """Saves a reproducer. Returns a message that states where it is saved, or why it could not be saved."""
    try:
        folder = tempfile.mkdtemp(prefix="tiduc-crash-")
        _save(crash, folder)
        return f"reproducer saved as {folder}"
    except OSError as error:
        return f"no reproducer could be saved: {error.strerror}"


def _save(crash: Crash, folder: str) -> None:
    """Copies the files of the command line to a folder, and writes a script that runs the command on the copies."""
    line = shlex.join(["tiduc", *(_copied(argument, folder) for argument in sys.argv[1:])])
    if crash.source:
        _write(os.path.join(folder, "stdin"), crash.source)
        line = f"{line} < stdin" if crash.file == "-" else line.replace(shlex.quote(crash.file), "stdin")
    script = ["#!/bin/sh", f"# {crash.ending} during {crash.stage}."]
    script += [f"# {line}" for line in _versions()]
    script += ['cd "$(dirname "$0")" || exit', line, ""]
    _write(os.path.join(folder, "reproduce.sh"), os.fsencode("\n".join(script)))
    for name, contents in (("stderr", crash.said), ("traceback", crash.trace)):
        if contents:
            _write(os.path.join(folder, name), contents)


def _copied(argument: str, folder: str) -> str:
    """Copies the file that an argument names, and returns the argument with the path of the copy.

    An argument names a file as `FILE`, `--option=FILE`, `@FILE` or `@FILE:array`. Any other argument is returned
    unchanged.
    """
    match = re.fullmatch(r"((?:--?[\w-]+=)?@?)(.*?)(:[^:/]*)?", argument, re.DOTALL)
    assert match is not None
    before, name, after = match.groups(default="")
    if not os.path.isfile(name) and os.path.isfile(name + after):
        name, after = name + after, ""
    with suppress(OSError):
        if os.path.isfile(name) and os.path.getsize(name) <= _LARGEST:
            copy = _free(folder, os.path.basename(name))
            with open(name, "rb") as file:
                _write(os.path.join(folder, copy), file.read())
            return before + copy + after
    return argument


def _free(folder: str, name: str) -> str:
    """Returns a file name, derived from `name`, that the folder does not contain yet."""
    taken = {*os.listdir(folder), "reproduce.sh", "stderr", "traceback", "stdin"}
    numbered = (name if not i else f"{i}-{name}" for i in range(len(taken) + 1))
    return next(free for free in numbered if free not in taken)


def _write(path: str, contents: bytes) -> None:
    with open(path, "xb") as file:
        file.write(contents)


def _versions() -> list[str]:
    """The versions of Python and of packages, for a bug report."""
    lines = [f"Python {platform.python_version()}, {platform.platform()}"]
    for package in ("tiduc", "torch-mlir", "iree-base-compiler", "iree-base-runtime", "numpy", "jax"):
        with suppress(PackageNotFoundError):
            lines.append(f"{package} {version(package)}")
    return lines
