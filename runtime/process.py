"""Runs a program in a child process within limits. If the caller is interrupted or dies, the child ends too."""

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

_LOOK = 0.2  # the number of seconds between checks of `stop`

# A keeper is a shell that waits until its parent process dies, then kills the process group $1 and removes the folder
# $2. The parent holds the write end of the keeper's standard input. If the parent needs the keeper no longer, it writes
# a line, and the keeper exits. If the keeper reads end of file without a line, the parent has died.
_KEEPER = 'read -r line && exit; [ -z "$1" ] || kill -KILL "-$1"; [ -z "$2" ] || rm -rf "$2"'


def memory() -> int:
    """Returns the memory of this machine in MiB or, if it is lower, the memory limit of the container.

    Returns 16384 if the memory of the machine is unknown.
    """
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
    """How a process ended. `code` is the exit status, or a negative signal number, or None after a timeout."""

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
    """Runs a command with `program` as standard input, until the command ends or reaches a limit.

    `errors` names a file for standard error, which other processes can read while the command runs. `printed` is passed
    to `subprocess.Popen` as `stdout`. The result contains the standard output only if `printed` is `subprocess.PIPE`.
    The process and its children are killed if this call ends early (`KeyboardInterrupt`, `stop`, a limit), or if the
    caller's process dies, even by SIGKILL. Raises `Stopped` once `stop` is set, and `OSError` if the command does not
    start.
    """
    # The process gets a new process group. The compiler starts a linker, and both must be killed together.
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
            keeper = _keeper(group=process.pid)  # started before the process gets its input
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
    """Writes the standard input of a process in a thread. The thread ends when the process has read the input or has
    died.

    `Popen.communicate` cannot write the input. After a timeout, Python 3.11 drops the rest of the input and keeps the
    pipe open, so the process would wait forever.
    """
    stream, process.stdin = process.stdin, None
    assert stream is not None

    def write() -> None:
        with suppress(OSError), stream:  # the process may end before it has read its input
            stream.write(program)

    threading.Thread(target=write, daemon=True).start()


def _text(told: BinaryIO | None, piped: bytes) -> str:
    """Returns the standard error of an ended process: the contents of the file `told` or, if it is None, `piped`."""
    if told is not None:
        told.seek(0)
        piped = told.read()
    return piped.decode("utf-8", "replace")


@contextmanager
def scratch_folder() -> Iterator[str]:
    """A context with a temporary folder. The folder is removed when the context ends or when this process dies."""
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
    """Starts a shell that waits until this process dies, then kills a process group and removes a folder.

    PR_SET_PDEATHSIG cannot replace the shell, for three reasons. It must be set between fork and exec, where Python
    code is unsafe with threads. It does not affect the children of a process, such as a linker. It does not remove the
    folder. The shell starts in a millisecond. It runs in a new session, so that signals of the terminal do not reach
    it.
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
    """A context in which signals that would end this process are delayed until the context ends.

    Otherwise, a signal could end this process while it starts a child, and nothing would kill the child. Other threads
    need no delay, because Python runs signal handlers only in the main thread.
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
    """Returns the number of seconds to wait before `stop` or the deadline is checked, or None if there is neither."""
    left = None if deadline is None else max(0.0, deadline - time.monotonic())
    if stop is None:
        return left
    return _LOOK if left is None else min(left, _LOOK)


def limit_memory(mebibytes: int, process: int = 0) -> None:
    """Limits the memory that a process may allocate, on Linux. Process 0 is this process. 0 MiB changes nothing.

    This process limits a child while the child waits for its input, because code between fork and exec is unsafe with
    threads. The limit applies to data (RLIMIT_DATA), not to address space, because much of the reserved address space
    is never used. The hard limit of this process does not change, so that its children may get a higher limit.
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
    # The pipes are closed without reading to their end, because children of the process may hold them open.
    for pipe in (process.stdin, process.stdout, process.stderr):
        with suppress(OSError, ValueError):
            if pipe is not None:
                pipe.close()
    process.wait()
