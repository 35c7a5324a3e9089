"""Processes of tests: whether they run, and command lines of tiduc."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path


def becomes(true: Callable[[], bool], seconds: float = 20) -> bool:
    """Whether something becomes true in time."""
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def runs(process: int) -> bool:
    """Whether a process runs, and is not a zombie."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def command(directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs a command line of tiduc in a directory."""
    return subprocess.run(
        [sys.executable, "-m", "tiduc", *words], cwd=directory, capture_output=True, text=True, check=False
    )
