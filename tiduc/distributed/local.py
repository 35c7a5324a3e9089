"""launch: starts processes on this host, and ends all if one fails."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from tiduc.distributed.launchers import ADDRESS, PROCESS, PROCESSES
from tiduc.runtime.process import Ended, Limits, run_within, scratch_folder

_GRACE = 1.0  # seconds between the first failure and the end of the others
_COMMUNICATION = re.compile(
    r"gloo|nccl|connection |coordination service|heartbeat|cannot connect|another process has died",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Outcome:
    """How local processes ended. `status` is 0 if all succeeded, else the exit status of the one that failed first.

    `process` is the index of that process, or 0 if all succeeded, and `errors` is what it has printed to standard
    error. `signal` is the name of the signal that killed the process, or "".
    """

    status: int
    process: int
    errors: str
    signal: str = ""


def launch(command: Sequence[str], processes: int, environment: Mapping[str, str] | None = None) -> int:
    """Runs a command in several processes on this host. Returns 0, or the exit status of the process that failed first.

    The processes find each other by environment variables, which `joined` reads. They have the `environment`, by
    default that of this process. When a process fails, the others are killed, and the standard error of the first
    failure is printed. Standard output is that of process 0. The processes end when this process dies.
    """
    outcome = run_locally(command, processes, environment)
    sys.stderr.write(outcome.errors)
    if outcome.signal:
        sys.stderr.write(f"error: process {outcome.process} was killed by {outcome.signal}\n")
    return outcome.status


def run_locally(
    command: Sequence[str], processes: int, environment: Mapping[str, str] | None = None
) -> Outcome:
    """Runs a command in several processes, as `launch` does, but prints no errors."""
    given = {
        **(os.environ if environment is None else environment),
        PROCESSES: str(processes),
        ADDRESS: f"127.0.0.1:{free_port()}",
    }
    stop = threading.Event()
    sys.stdout.flush()
    with scratch_folder() as folder, ThreadPoolExecutor(processes) as pool:

        def run(index: int) -> Ended:
            own = {**given, PROCESS: str(index)}
            errors = str(Path(folder, f"{index}.errors"))
            output = None if index == 0 else subprocess.DEVNULL
            return run_within(command, b"", Limits(0, 0), own, stop, errors, output)

        try:
            running = {pool.submit(run, index): index for index in range(processes)}
            return _outcome(running, stop)
        finally:
            stop.set()


def _outcome(running: Mapping[Future[Ended], int], stop: threading.Event) -> Outcome:
    """Waits until all processes end, or one fails; then sets `stop`, which ends the others.

    Processes that communicate with a dead process fail soon after it. Therefore, the failures within `_GRACE` seconds
    are compared: a signal and an error of the program itself are causes, and an error of the communication is not.
    """
    left, ended = set(running), dict[int, Ended]()
    deadline: float | None = None
    while left and (deadline is None or time.monotonic() < deadline):
        patience = None if deadline is None else max(0.0, deadline - time.monotonic())
        done, left = wait(left, patience, FIRST_COMPLETED)
        ended |= {running[each]: each.result() for each in done}
        if deadline is None and any(each.code for each in ended.values()):
            deadline = time.monotonic() + _GRACE
    stop.set()
    failed = [(_order(each), index) for index, each in ended.items() if each.code]
    if not failed:
        return Outcome(0, 0, ended[0].errors)
    _, index = min(failed)
    code, errors = ended[index].code or 0, ended[index].errors
    killed = signal.Signals(-code).name if code < 0 else ""
    return Outcome(128 - code if killed else code, index, errors, killed)


def _order(ended: Ended) -> int:
    """A number that is lower for a more probable cause of the failure of all processes."""
    return 2 if _COMMUNICATION.search(ended.errors) else int((ended.code or 0) > 0)


def free_port() -> int:
    """A port of this host that no process uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
