"""Worker processes that run operations on inputs. This process forks them after it has loaded all libraries.

A worker reports the beginning and the outcome of each operation. If a worker dies or exceeds a limit, this is an
outcome, too, and a new worker replaces it. A command line runs in a child process of the worker, because users also run
it in a process of its own.
"""

import ctypes
import faulthandler
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from random import Random
from typing import Any

from kinds import CACHE, Case, case_of
from operations import OTHER, PROGRAM, Subject
from outcomes import Outcome, exited, raised

MEMORY = 4 << 30
"""The number of bytes of memory that an operation may use in addition to the memory of the libraries."""
PROCESSOR_SECONDS = 30
"""The limit of the processor time of an operation, in seconds."""
IDLE_SECONDS, IDLE_SHARE = 15, 0.02
"""An operation is blocked if its wall time exceeds 15 s and its processor time is less than 0.02 of the wall time."""
_CASES, _ARCHIVES = (
    400,
    2500,
)  # a worker is replaced after this number of inputs, because MLIR contexts grow; for archives, PyTorch starts slowly
_SPOILING = frozenset({"bytecode", "compiled", "models"})
"""The kinds of inputs that may corrupt the memory of a worker or start threads in it. It is replaced after them."""
_PR_SET_PDEATHSIG = 1

Request = tuple[str, int, int]
"""An input, identified by its kind, seed and number."""


class Worker:
    """A process that runs the operations of inputs, one after the other."""

    def __init__(self, home: Path) -> None:
        """The worker creates the folder `home` for the files of inputs."""
        self.home = home
        self.connection, theirs = Pipe()
        self.errors = tempfile.TemporaryFile()
        sys.stdout.flush()
        self.process = os.fork()
        if self.process == 0:
            self.connection.close()
            _serve(theirs, self.errors.fileno(), home)
        theirs.close()
        self.done, self.is_spoilt, self.kind = 0, False, ""
        self.since = 0.0
        self.processor_since = 0.0

    def ask(self, request: Request, first: int, isolated: bool = False) -> None:
        """Requests the operations of an input, beginning with operation number `first`.

        With `isolated`, requests only this operation, which then runs with `isolated=True`.
        """
        self.done += 1
        self.kind = request[0]
        self.is_spoilt = request[0] in _SPOILING or "compile" in case_of(*request).operations
        self.connection.send((request, first, isolated))
        self.note()

    def note(self) -> None:
        """Records the time at which an operation begins."""
        self.since, self.processor_since = time.monotonic(), self._processor_seconds()

    @property
    def is_late(self) -> bool:
        """Whether the current operation has exceeded its time limit or is blocked."""
        took, used = time.monotonic() - self.since, self._processor_seconds() - self.processor_since
        return used > PROCESSOR_SECONDS or (took > IDLE_SECONDS and used < took * IDLE_SHARE)

    @property
    def is_old(self) -> bool:
        """Returns whether a new worker must replace this worker before the next input."""
        return self.is_spoilt or self.done >= (_ARCHIVES if self.kind == "archives" else _CASES)

    def _processor_seconds(self) -> float:
        return sum(_processor_seconds(process) for process in [self.process, *_descendants(self.process)])

    def end(self) -> tuple[int, str]:
        """Kills the process and its child processes.

        Returns the signal that ended the process, or 0, and the end of its output.
        """
        for process in [*_descendants(self.process), self.process]:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        _, status = os.waitpid(self.process, 0)
        shutil.rmtree(self.home, ignore_errors=True)
        self.connection.close()
        self.errors.seek(0, os.SEEK_END)
        self.errors.seek(max(0, self.errors.tell() - 20_000))
        words = self.errors.read().decode(errors="replace")
        self.errors.close()
        return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0, words


def _processor_seconds(process: int) -> float:
    """Returns the processor time of a process and of its child processes that have ended, in seconds."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _descendants(process: int) -> list[int]:
    try:
        listed = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except OSError:
        return []
    return [each for child in map(int, listed) for each in (child, *_descendants(child))]


# ---- in the worker ------------------------------------------------------------------------------------------


def _serve(connection: Connection, errors: int, home: Path) -> None:
    """The main function of a worker: answers requests until the connection closes. It does not return."""
    code = 1
    try:
        os.dup2(errors, 1)
        os.dup2(errors, 2)
        sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        faulthandler.enable()
        _limit_memory()
        home.mkdir()
        while True:
            request, first, isolated = connection.recv()
            _answer(connection, request, first, isolated, home)
    except EOFError:
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _limit_memory() -> None:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmData:"):
            limit = int(line.split()[1]) * 1024 + MEMORY
            resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _answer(connection: Connection, request: Request, first: int, isolated: bool, home: Path) -> None:
    """Runs the operations of an input from number `first` on, or only this one if `isolated`.

    Reports the beginning and the outcome of each operation. If the input cannot be loaded, skips the Python operations.
    """
    case = case_of(*request)
    is_loaded = True
    for i, operation in enumerate(case.operations):
        if i < first or (isinstance(operation, str) and not is_loaded):
            continue
        connection.send(("begins", i))
        _fresh(home, case)
        outcome = attempted(case, operation, draw_of(request, i), isolated)
        connection.send(("ended", i, outcome))
        is_loaded = is_loaded and (operation != "load" or outcome.category == "answer")
        if isolated:
            break
    connection.send(("finished",))


def draw_of(request: Request, at: int) -> Random:
    """Returns the random generator for operation number `at` of an input."""
    return Random(f"{request} {at}")


def _fresh(home: Path, case: Case) -> None:
    """Creates a new folder with the files of an input in `home`, and makes it the working directory."""
    os.chdir(home)
    shutil.rmtree(home / "at", ignore_errors=True)
    folder = home / "at"
    folder.mkdir()
    os.chdir(folder)
    for name, contents in case.files.items():
        (folder / name).write_bytes(contents)
    case.prepare(folder)
    (folder / "tmp").mkdir()
    tempfile.tempdir = os.environ["TMPDIR"] = str(folder / "tmp")
    os.environ["TIDUC_CACHE"] = str(folder / CACHE) if case.kind == "cache" else "off"


def attempted(case: Case, operation: str | tuple[str, ...], draw: Random, isolated: bool = False) -> Outcome:
    """Runs an operation on the input in the working directory and returns its outcome."""
    if not isinstance(operation, str):
        return _commanded(list(operation), case.kind)
    run: Callable[[Subject], Any] = PROGRAM[operation][0] if operation in PROGRAM else OTHER[operation]
    try:
        run(Subject(Path(case.file), draw, isolated))
    except BaseException as error:  # each exception has an outcome
        return raised(error, case.has_places)
    return Outcome("answer")


def _commanded(arguments: list[str], kind: str) -> Outcome:
    """Runs a command line in a child process and returns its outcome."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        child = os.fork()
        if child == 0:
            _run_command(arguments, output.fileno(), errors.fileno())
        _, status = os.waitpid(child, 0)
        output.seek(0)
        errors.seek(0)
        code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        written, told = output.read().decode(errors="replace"), errors.read().decode(errors="replace")
        return exited(code, written, told, arguments, kind)


def _run_command(arguments: list[str], output: int, errors: int) -> None:
    """Runs a command line of tiduc in this process, and ends the process. It does not return."""
    from tiduc.__main__ import main

    code = 1
    try:
        nothing = os.open(os.devnull, os.O_RDONLY)
        for ours, theirs in ((nothing, 0), (output, 1), (errors, 2)):
            os.dup2(ours, theirs)
        sys.stdin, sys.stdout, sys.stderr = (
            os.fdopen(i, mode, closefd=False) for i, mode in enumerate("rww")
        )
        sys.argv = ["tiduc", *arguments]
        try:
            main()
            code = 0
        except SystemExit as ending:
            code = ending.code if isinstance(ending.code, int) else int(ending.code is not None)
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)
