"""Child processes end when tiduc ends, even if tiduc is killed."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from harness.processes import becomes, runs

from tiduc.runtime.process import Limits, memory, run_within, scratch_folder

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")

COMPILING = """
import os, sys, tempfile
from tiduc.backends.iree.compile import compile_module
tempfile.tempdir = sys.argv[1]
os.environ["IREE_TOOL_PATH"] = sys.argv[2]
compile_module("")
"""


def test_sigkill_of_the_caller_ends_compiler_and_linker_and_leaves_no_folder(tmp_path: Path) -> None:
    tools, left, pids = tmp_path / "tools", tmp_path / "left", tmp_path / "pids"
    tools.mkdir()
    left.mkdir()
    # A compiler that has started a linker and ignores all signals that can be ignored.
    (tools / "iree-compile").write_text(
        f"#!/bin/sh\ntrap '' INT TERM HUP\ntouch $TMPDIR/x\nsleep 60 & echo $! $$ > {pids}.tmp\n"
        f"mv {pids}.tmp {pids}\nwait\n"
    )
    (tools / "iree-compile").chmod(0o755)
    with subprocess.Popen([sys.executable, "-c", COMPILING, left, tools]) as process:
        assert becomes(pids.exists) and os.listdir(left)
        process.kill()
    started = [int(pid) for pid in pids.read_text().split()]
    assert len(started) == 2
    assert becomes(lambda: not any(map(runs, started)), 5)
    assert becomes(lambda: not os.listdir(left), 5)


def test_a_process_that_starts_slowly_gets_its_whole_input() -> None:
    """A process that reads its input late gets the whole input, although the caller meanwhile checks several times
    whether it should stop.
    """
    program = bytes(2**20)
    ended = run_within(["sh", "-c", "sleep 0.7; wc -c"], program, Limits(60), os.environ, threading.Event())
    assert ended.code == 0 and int(ended.output) == len(program)


def test_a_process_that_succeeds_leaves_nothing() -> None:
    before = children()
    with scratch_folder() as folder:
        assert run_within(["cat"], b"x", Limits(), os.environ).output == b"x"
        assert os.path.isdir(folder)
    assert not os.path.exists(folder) and children() == before


def children() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


@pytest.mark.usefixtures("default_signals")
def test_a_folder_goes_with_an_exception() -> None:
    with pytest.raises(KeyboardInterrupt), scratch_folder() as folder:
        signal.raise_signal(signal.SIGINT)
    assert not os.path.exists(folder)


def test_the_memory_limit_depends_on_the_machine() -> None:
    total = next(line for line in Path("/proc/meminfo").read_text().splitlines() if "MemTotal" in line)
    assert 64 < memory() <= int(total.split()[1]) // 1024 + 1
