"""Calls functions in a worker process. If native code crashes, hangs or exhausts memory, only the worker ends.

    in_worker(function, limits, x, y)    ->    calls function(x, y) in a worker and returns the result

A worker is a Python process that executes one call after another. It starts within half a second and is reused. A new
worker replaces a worker that died. Functions, arguments, results and exceptions are pickled, so the function must be
defined at the top level of a module.
"""

import atexit
import gc
import io
import os
import pickle
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import ParamSpec, TypeVar

from tiduc.dialect.errors import out_of_memory
from tiduc.runtime.process import Limits

P = ParamSpec("P")
R = TypeVar("R")

_COLLECTED_AFTER = 200_000
"""The number of new objects after which the cyclic garbage collector of a worker runs.

With Python's default of 700, the collector takes a fifth of the time to import PyTorch.
"""

_FATAL = re.compile(r"^LLVM ERROR: (.*)$", re.MULTILINE)
# The current folder and PYTHON* variables do not affect the worker (-I). It gets the import path of this process.
_PROGRAM = (
    "import sys; sys.path[:] = {path!r}; "
    "from tiduc.runtime.worker import serve; serve({call}, {life}, {modules})"
)


class Died(Exception):
    """Raised if the worker ended before the function returned. The message gives the reason, such as `died (SIGSEGV)`.

    `fatal` is the message with which LLVM aborted the process, or "" if there was no such message.
    """

    def __init__(self, why: str, fatal: str = "") -> None:
        super().__init__(why)
        self.fatal = fatal


def in_worker(function: Callable[P, R], limits: Limits, *arguments: P.args, **keywords: P.kwargs) -> R:
    """Calls a function in a worker. Raises the function's exception, or `Died` if the worker dies.

    If this process is a worker, calls the function directly.
    """
    if _serving:
        return function(*arguments, **keywords)
    with _idle_worker() as worker:
        return worker.call(function, limits, *arguments, **keywords)


def warm_up(*modules: str) -> None:
    """Starts a worker that imports these modules, if no worker is idle. Does not wait for the worker."""
    if not _serving and not _IDLE:
        _IDLE.append(Worker(modules))


@contextmanager
def _idle_worker() -> Iterator["Worker"]:
    """A context with a worker that no other thread uses until the context ends."""
    try:
        worker = _IDLE.pop()
    except IndexError:
        worker = Worker()
    try:
        yield worker
    finally:
        if worker.is_alive():
            _IDLE.append(worker)


class Worker:
    """A process that calls functions one after the other. As a context manager, it ends the process."""

    def __init__(self, modules: Sequence[str] = ()) -> None:
        """Starts the process, which imports these modules before its first call."""
        self._socket, theirs = socket.socketpair()
        # Nothing is written; end of file tells the worker that this process has ended.
        end, self._life = os.pipe()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  (closed with the worker)
        self._file = self._socket.makefile("rwb")
        program = _PROGRAM.format(path=sys.path, call=theirs.fileno(), life=end, modules=list(modules))
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", program],
            stdin=subprocess.DEVNULL,
            stdout=self._errors,
            stderr=self._errors,
            pass_fds=(theirs.fileno(), end),
            process_group=0,  # so that Ctrl-C interrupts only this process
        )
        theirs.close()
        os.close(end)

    def call(self, function: Callable[P, R], limits: Limits, *arguments: P.args, **keywords: P.kwargs) -> R:
        """Calls a function in the process and returns the function's result.

        Raises the function's exception, or `Died`. If the call is interrupted, the worker ends.
        """
        try:
            self._limit(limits.mebibytes)
            start = self._errors.seek(0, os.SEEK_END)
            self._socket.settimeout(limits.seconds or None)
            try:
                pickle.dump((function, arguments, keywords), self._file, protocol=5)
                self._file.flush()
                succeeded, result = pickle.load(self._file)
            except TimeoutError:
                raise Died(f"took longer than {limits.seconds:g} seconds") from None
            except (OSError, EOFError, pickle.UnpicklingError):
                raise self._died(start, limits) from None
        except BaseException:
            self.close()
            raise
        if succeeded:
            return result  # type: ignore[no-any-return]
        if isinstance(result, MemoryError):
            self.close()  # frees the memory that the process still holds
            raise Died(_too_much(limits))
        raise result

    def _limit(self, mebibytes: int) -> None:
        """Limits the data that the process may allocate, but not its address space, much of which is never used."""
        _, highest = resource.prlimit(self._process.pid, resource.RLIMIT_DATA)
        wanted = mebibytes * 2**20 if mebibytes else highest
        if highest != resource.RLIM_INFINITY:
            wanted = min(wanted, highest)
        resource.prlimit(self._process.pid, resource.RLIMIT_DATA, (wanted, highest))

    def _died(self, start: int, limits: Limits) -> Died:
        """Returns the error for a process that has ended. The reason comes from its exit status and its output since
        `start`.
        """
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1)
        self._errors.seek(start)
        written = self._errors.read().decode("utf-8", "replace")
        code = self._process.poll()
        if code and out_of_memory(written.encode()):
            return Died(_too_much(limits))
        fatal = _FATAL.search(written)
        how = f"died ({signal_name(-code)})" if code and code < 0 else f"ended ({code})"
        return Died(how, fatal[1] if fatal else "")

    def is_alive(self) -> bool:
        """Whether the process can take another call."""
        return self._process.poll() is None

    def close(self) -> None:
        """Ends the process."""
        self.forget()
        self._process.kill()
        self._process.wait()

    def forget(self) -> None:
        """Closes the ends of the socket and the pipe in this process. The worker ends when all processes have closed
        them.
        """
        for end in (self._file, self._socket, self._errors):
            with suppress(OSError, ValueError):
                end.close()
        if self._life >= 0:
            os.close(self._life)
            self._life = -1

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def signal_name(number: int) -> str:
    """Returns the name of a signal, such as `SIGSEGV` for 11."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _too_much(limits: Limits) -> str:
    return f"needs more than the {limits.mebibytes} MiB of memory that it may use"


_IDLE: list[Worker] = []


def _close_all() -> None:
    while _IDLE:
        _IDLE.pop().close()


def _forget_all() -> None:
    """In a forked process, forgets the idle workers, which belong to the parent."""
    while _IDLE:
        _IDLE.pop().forget()


atexit.register(_close_all)
os.register_at_fork(after_in_child=_forget_all)


# ---- in the worker -----------------------------------------------------------------------------------------

_serving = False


def serve(call: int, life: int, modules: Sequence[str]) -> None:
    """Imports the modules that exist, then serves calls from the socket `call` until its other end closes.

    If the pipe `life` closes, the process ends.
    """
    import fcntl

    global _serving
    _serving = True
    gc.set_threshold(_COLLECTED_AFTER)
    # At end of file on the pipe, this process gets the signal SIGIO, which ends it even inside native code.
    fcntl.fcntl(life, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(life, fcntl.F_SETFL, fcntl.fcntl(life, fcntl.F_GETFL) | os.O_ASYNC)
    for module in modules:
        with suppress(ImportError):
            import_module(module)
    with socket.socket(fileno=call) as ours, ours.makefile("rwb") as file:
        while True:
            try:
                function, arguments, keywords = pickle.load(file)
            except EOFError:
                return
            except Exception as error:  # raised while the function's module is imported
                answer: tuple[bool, object] = False, error
            else:
                answer = _answer(function, arguments, keywords)
            _send(answer, file)


def _answer(
    function: Callable[..., object], arguments: Sequence[object], keywords: Mapping[str, object]
) -> tuple[bool, object]:
    try:
        return True, function(*arguments, **keywords)
    except Exception as error:
        return False, error


def _send(answer: tuple[bool, object], file: io.BufferedIOBase) -> None:
    try:
        pickle.dump(answer, file, protocol=5)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise RuntimeError(f"the result of the call cannot be pickled: {answer[1]!r}") from error
    file.flush()
