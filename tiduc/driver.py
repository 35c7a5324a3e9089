"""The driver: the process that the user started. It forks a worker, which does all the work (as clang's `-cc1` does).

    driver --fork--> worker --run_within--> compilers, each with a keeper (see runtime/process.py)

MLIR, XLA and compiled programs may abort, overflow the stack, or ignore signals for minutes. The driver loads none of
them. It waits, forwards signals, and turns the death of the worker into a diagnostic.
"""

import errno
import mmap
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

from tiduc.dialect import progress

GRACE = 0.6  # seconds that the worker has to clean up after a signal, before it is killed
FAILED = 70  # the exit status of a worker after an unexpected exception; EX_SOFTWARE of sysexits.h
_PR_SET_PDEATHSIG = 1
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if os.name == "posix" else ()


def drive(work: Callable[[], int]) -> int:
    """Runs `work` in a child process and returns the exit status of the child.

    If the child crashes, prints a diagnostic and returns 1. Both processes are in one process group, so that the
    terminal treats them as one job.
    """
    shared = _Shared()
    passed_on = [number for number in _ENDING if signal.getsignal(number) is not signal.SIG_IGN]
    with _blocked():
        driver = os.getpid()
        worker = os.fork()
        if not worker:
            shared.work(work, driver, passed_on)
        arrived = _pass_on(passed_on, worker)
    os.waitid(os.P_PID, worker, os.WEXITED | os.WNOWAIT)
    # After `waitpid`, the worker's pid may belong to another process, to which no signal may be forwarded.
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    _, status = os.waitpid(worker, 0)
    for number in passed_on:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
    return shared.ended(status, arrived)


@contextmanager
def _blocked() -> Iterator[None]:
    """Context manager: while its body runs, signals that would end this process wait until the body ends."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _pass_on(numbers: list[signal.Signals], worker: int) -> list[int]:
    """Installs handlers that forward these signals to the worker.

    The worker is killed if it still runs `GRACE` seconds after the first signal. Returns a list, to which the handlers
    append the number of each signal.
    """
    arrived: list[int] = []

    def tell(number: int, _: object) -> None:
        if not arrived:
            signal.setitimer(signal.ITIMER_REAL, GRACE)
        arrived.append(number)
        os.kill(worker, number)

    for number in numbers:
        signal.signal(number, tell)
    signal.signal(signal.SIGALRM, lambda *_: os.kill(worker, signal.SIGKILL))
    return arrived


class _Shared:
    """The shared memory and the files by which the driver learns how its worker ended."""

    def __init__(self) -> None:
        self._page = mmap.mmap(-1, progress.SIZE)
        self._done = mmap.mmap(-1, 1)
        self._source = os.memfd_create("source")  # the bytes that the worker has read from a pipe
        self._said = os.memfd_create("said")  # what native code printed to standard error
        self._trace = os.memfd_create("trace")  # the Python stack where the worker died
        progress.share(self._page, self._source)
        progress.enter("start-up")

    def work(self, work: Callable[[], int], driver: int, passed_on: list[signal.Signals]) -> NoReturn:
        """Runs `work` in the worker, then ends the process without the exit handlers of its libraries."""
        code = FAILED
        try:
            # While libraries load, nothing needs cleaning up yet, so these signals may end the worker directly. If a
            # signal raised an exception inside a library instead, it would be reported as a crash.
            for number in passed_on:
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
            _die_with(driver)
            self._redirect()
            code = work()
        except SystemExit as ending:  # raised by a signal handler
            code = ending.code if isinstance(ending.code, int) else FAILED
        except KeyboardInterrupt:
            code = 128 + signal.SIGINT
        except BaseException as error:
            # The limit on open files may be too low to load the libraries.
            if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
                os.write(self._said, f"error: cannot start: {error.strerror}\n".encode())
                code = 1
            else:
                import traceback

                with open(self._trace, "w", errors="backslashreplace", closefd=False) as file:
                    traceback.print_exc(file=file)
        finally:
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError, ValueError, AttributeError):
                    stream.flush()
            self._done[0] = 1
            os._exit(code)

    def _redirect(self) -> None:
        """Redirects standard error of native code to `_said`. At a crash, the Python stack is written to `_trace`."""
        import faulthandler

        if sys.stderr is not None:
            own = os.dup(2)
            sys.stderr = open(own, "w", encoding=sys.stderr.encoding, errors="backslashreplace", buffering=1)
        os.dup2(self._said, 2)
        faulthandler.enable(self._trace)

    def ended(self, status: int, arrived: list[int]) -> int:
        """The exit status of the driver, given the worker's wait status and the signals that the driver forwarded.

        Prints the messages of native code, and reports a crash of the worker.
        """
        said = _contents(self._said)
        exited = self._done[0] and os.WIFEXITED(status) and os.WEXITSTATUS(status) != FAILED
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        if exited or arrived or number in _ENDING:
            _print(said)
        if exited:
            return os.WEXITSTATUS(status)
        if arrived:
            return 128 + arrived[0]
        if number in _ENDING:  # only the worker received the signal
            os.kill(os.getpid(), number)
        from tiduc.crashes import Crash, report_crash

        stage, file = progress.recorded()
        source, trace = _contents(self._source), _contents(self._trace)
        crash = Crash(status, stage, file, source, said, trace, progress.has_joined())
        if not crash.has_lost_others:
            _print(said)
        report_crash(crash)
        return 1


def _print(said: bytes) -> None:
    """Writes `said`, the messages of native code, to standard error."""
    with suppress(OSError), open(2, "wb", closefd=False) as errors:  # `os.write` may write only a part
        errors.write(said)


def _contents(descriptor: int) -> bytes:
    """All bytes of a file, independent of its read position."""
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0)


def _die_with(driver: int) -> None:
    """Makes the system kill this process when the driver dies. Ends this process if the driver is dead already."""
    import ctypes  # costs nothing, because NumPy imports ctypes as well

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != driver:
        os._exit(1)
