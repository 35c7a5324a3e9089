"""Runs a program in a child process within limits. The child ends when the caller is interrupted or dies."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import BinaryIO

_LOOK = 0.2  # seconds between checks of `stop`

# A keeper is a shell that waits until the process that started it dies, then kills the process group $1 and removes the
# folder $2. The starting process holds the write end of the keeper's standard input. A line tells the keeper that the
# process has cleaned up itself. End of file without a line means that the process has died.
_KEEPER = 'read -r line && exit; [ -z "$1" ] || kill -KILL "-$1"; [ -z "$2" ] || rm -rf "$2"'


def memory() -> int:
    """The memory in MiB of this machine, or of its container if that has less. 16 GiB if unknown."""
    try:
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 2**14
    with suppress(OSError, ValueError), open("/sys/fs/cgroup/memory.max") as file:  # holds "max" for no limit
        size = min(size, int(file.read()))
    return size // 2**20


@dataclass(frozen=True)
class Limits:
    """The limits of one process: seconds of wall-clock time, and MiB of memory (on Linux). 0 means no limit."""

    seconds: float = 900
    mebibytes: int = max(2048, memory() // 2)


@dataclass(frozen=True)
class Ended:
    """How a process ended. `code` is negative for a signal, and None for a timeout."""

    code: int | None
    output: bytes
    errors: str


class Stopped(Exception):
    """Raised if the process was ended because `stop` was set."""


def run_within(
    command: Sequence[str],
    program: bytes,
    limits: Limits,
    environment: Mapping[str, str],
    stop: threading.Event | None = None,
    errors: str | None = None,
    printed: int | None = subprocess.PIPE,
) -> Ended:
    """Runs a command with `program` as standard input, until it ends or reaches a limit.

    `errors` names a file for standard error, which others can read while the command runs. `printed` is the `stdout` of
    `subprocess.Popen`; only with `subprocess.PIPE`, the result has the output. The process and its children
    are killed if this call ends early (`KeyboardInterrupt`, `stop`, a limit), or if the caller's process dies, even by
    SIGKILL. Raises `Stopped` once `stop` is set, and `OSError` if the command does not start.
    """
    # A process group of its own: the compiler starts a linker, which must end with the compiler.
    group = {"process_group": 0} if os.name == "posix" else {}
    process = keeper = None
    told = None if errors is None else open(errors, "w+b")  # noqa: SIM115  (closed below)
    try:
        with _signals_held():
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=printed,
                stderr=subprocess.PIPE if told is None else told,
                env=dict(environment),
                **group,  # type: ignore[call-overload]
            )
            keeper = _keeper(group=process.pid)  # before the process gets its input
        limit_memory(limits.mebibytes, process.pid)
        deadline = time.monotonic() + limits.seconds if limits.seconds else None
        _feed(process, program)
        while True:
            try:
                output, piped = process.communicate(timeout=_patience(deadline, stop))
                return Ended(process.returncode, output or b"", _text(told, piped))
            except subprocess.TimeoutExpired:
                if stop is not None and stop.is_set():
                    raise Stopped from None
                if deadline is not None and time.monotonic() >= deadline:
                    return Ended(None, b"", "")
    finally:
        if process is not None:
            _end(process)
        _dismiss(keeper)
        if told is not None:
            told.close()


def _feed(process: "subprocess.Popen[bytes]", program: bytes) -> None:
    """Writes the standard input of a process in a thread. The thread ends when the process has read it or has died.

    `Popen.communicate` cannot write the input. After a timeout, Python 3.11 drops the rest and keeps the pipe open, so
    that the process would wait for ever.
    """
    stream, process.stdin = process.stdin, None
    assert stream is not None

    def write() -> None:
        with suppress(OSError), stream:  # the process may end before it has read its input
            stream.write(program)

    threading.Thread(target=write, daemon=True).start()


def _text(told: BinaryIO | None, piped: bytes) -> str:
    """The standard error of an ended process: the contents of the file `told`, or else `piped`."""
    if told is not None:
        told.seek(0)
        piped = told.read()
    return piped.decode("utf-8", "replace")


@contextmanager
def scratch_folder() -> Iterator[str]:
    """A temporary folder. It is removed at the end of the block, or when this process dies inside the block."""
    folder, keeper = "", None
    try:
        with _signals_held():
            folder = tempfile.mkdtemp(prefix="tiduc-")
            keeper = _keeper(folder=folder)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        _dismiss(keeper)


def _keeper(group: int | None = None, folder: str = "") -> "subprocess.Popen[bytes] | None":
    """Starts a process that waits until this process dies, then kills a process group and removes a folder.

    PR_SET_PDEATHSIG cannot replace this process, for three reasons. It must be set between fork and exec, where Python
    code is unsafe with threads. It does not reach children of the process, such as a linker. It does not remove the
    folder. A shell starts in a millisecond. A session of its own protects the shell from the terminal's signals.
    """
    if os.name != "posix":
        return None
    return subprocess.Popen(
        ["/bin/sh", "-c", _KEEPER, "tiduc-keeper", str(group or ""), folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _dismiss(keeper: "subprocess.Popen[bytes] | None") -> None:
    """Ends a keeper that is no longer needed."""
    if keeper is None:
        return
    with suppress(OSError):
        keeper.communicate(b"\n")
    keeper.wait()


@contextmanager
def _signals_held() -> Iterator[None]:
    """Delays signals that would end this process to the end of the block, because a starting child cannot be killed.

    Other threads need no delay, because Python runs signal handlers in the main thread only.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[int] = []
    ending = [
        getattr(signal, name, None) for name in ("SIGINT", "SIGTERM", "SIGHUP")
    ]  # Windows has no SIGHUP
    handlers = {int(number): signal.getsignal(number) for number in ending if number is not None}
    for number in handlers:
        signal.signal(number, lambda number, _: arrived.append(number))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        for number in arrived:
            signal.raise_signal(number)


def _patience(deadline: float | None, stop: threading.Event | None) -> float | None:
    """The seconds until `stop` or the deadline must be checked. None if there is neither."""
    left = None if deadline is None else max(0.0, deadline - time.monotonic())
    if stop is None:
        return left
    return _LOOK if left is None else min(left, _LOOK)


def limit_memory(mebibytes: int, process: int = 0) -> None:
    """Limits the memory that a process may allocate, on Linux. Process 0 is this process; 0 MiB changes nothing.

    A child is limited from outside while it waits for its input, because code between fork and exec is unsafe with
    threads. The limit is on data (RLIMIT_DATA), not on address space, because much reserved address space is never
    used. The hard limit of this process does not change, so that its children may get a higher limit.
    """
    if not 0 < mebibytes < 2**40 or not sys.platform.startswith("linux"):
        return
    import resource

    with suppress(OSError, ValueError):  # the process may have ended
        _, most = resource.prlimit(process, resource.RLIMIT_DATA)
        limit = mebibytes * 2**20
        limit = limit if most == resource.RLIM_INFINITY else min(limit, most)
        resource.prlimit(process, resource.RLIMIT_DATA, (limit, limit if process else most))


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Kills a process and its process group, and waits for the process."""
    with suppress(OSError):
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)
        elif process.poll() is None:
            process.kill()
    # No output is read any more, and children of the process may hold the pipes open.
    for pipe in (process.stdin, process.stdout, process.stderr):
        with suppress(OSError, ValueError):
            if pipe is not None:
                pipe.close()
    process.wait()
