"""Runs commands of tiduc in processes, and finds out whether processes still run."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile

from fork_client import status_in_fork


def becomes(true: Callable[[], bool], seconds: float = 20) -> bool:
    """Waits until a condition is true, and returns whether this happens within `seconds`."""
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def runs(process: int) -> bool:
    """Returns whether the process with this number runs and is not a zombie."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def command(directory: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a command of tiduc in a directory, with additional environment variables.

    The command runs in a fork of a process that has loaded tiduc's libraries. Loading takes ten times as long as a
    typical command. `test_cli.py` starts commands without a fork, as a shell does.
    """
    variables = {**os.environ, **environment}
    with TemporaryFile() as given, TemporaryFile("w+") as output, TemporaryFile("w+") as errors:
        streams = [file.fileno() for file in (given, output, errors)]
        status = status_in_fork(_server(), ["tiduc", *words], variables, str(directory), streams)
        assert status is not None, f"{words}: the server gave no exit status"
        texts = [file.seek(0) or file.read() for file in (output, errors)]
    return subprocess.CompletedProcess(["tiduc", *words], status, *texts)


@cache
def _server() -> str:
    """Starts a server that runs commands in forks, and returns the path of its socket.

    The server ends when this process ends, because its input is then closed.
    """
    program = Path(__file__).parents[2] / "lit" / "fork_server.py"
    _STARTED.append(
        subprocess.Popen([sys.executable, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    )
    assert _STARTED[0].stdout is not None
    return _STARTED[0].stdout.readline().strip()


_STARTED: list[subprocess.Popen[str]] = []
