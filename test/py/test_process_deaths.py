"""If one of several cooperating processes dies, the cause is reported, and the other processes do not wait forever."""

import os
import subprocess
import sys
import threading
from concurrent.futures import Future
from pathlib import Path

import pytest
from harness.launched import IDENTITY, SCRIPT, launched, without_launchers

from tiduc.dialect.mlir.context import parse
from tiduc.distributed import local
from tiduc.distributed.launchers import ADDRESS
from tiduc.distributed.local import Outcome, free_port, run_locally
from tiduc.program import from_module
from tiduc.runtime.process import Ended
from tiduc.sharding import shard

OTHERS_WAIT = """
import os, sys, time, signal
mine = int(os.environ["TIDUC_PROCESS"])
open(f"{sys.argv[1]}/{os.getpid()}", "w").close()
if mine == 1:
    while len(os.listdir(sys.argv[1])) < 3: time.sleep(0.01)
    ENDING
time.sleep(600)
"""


@pytest.mark.parametrize(
    "ending, expected",
    [
        ("print('a fault', file=sys.stderr); sys.exit(7)", (7, 1, "a fault\n", "")),
        ("os.kill(os.getpid(), signal.SIGKILL)", (137, 1, "", "SIGKILL")),
    ],
)
def test_a_process_that_dies_ends_the_others(
    ending: str, expected: tuple[int, int, str, str], tmp_path: Path
) -> None:
    """If a process dies, the others are ended.

    The report names the process that died first, not one that failed because it communicates with it.
    """
    script = OTHERS_WAIT.replace("ENDING", ending)
    outcome = run_locally([sys.executable, "-c", script, str(tmp_path)], 3)
    assert (outcome.status, outcome.process, outcome.errors, outcome.signal) == expected
    for process in tmp_path.iterdir():
        with pytest.raises(ProcessLookupError):
            os.kill(int(process.name), 0)


@pytest.mark.parametrize("symptom", ["Connection closed by peer", "error: another process has died"])
@pytest.mark.parametrize(
    "cause, expected",
    [
        (Ended(7, b"", "a fault\n"), Outcome(7, 1, "a fault\n")),
        (Ended(-9, b"", ""), Outcome(137, 1, "", "SIGKILL")),
    ],
)
def test_the_cause_is_reported(
    cause: Ended, expected: Outcome, symptom: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reported process is the cause, not one that fails because it communicates with the cause."""
    monkeypatch.setattr(local, "_GRACE", 0.01)
    waits, ends, fails = Future[Ended](), Future[Ended](), Future[Ended]()
    fails.set_result(Ended(1, b"", symptom))
    ends.set_result(cause)
    stop = threading.Event()
    assert local._outcome({fails: 0, ends: 1, waits: 2}, stop) == expected
    assert stop.is_set()


@pytest.mark.slow
@pytest.mark.parametrize(
    "action, status, words",
    [
        ("raise", 1, "ValueError: process 1 has a fault\n"),
        ("kill", 137, "error: process 1 was killed by SIGKILL\n"),
    ],
)
def test_a_failure_while_others_communicate(action: str, status: int, words: str, tmp_path: Path) -> None:
    done = launched(action, 2, tmp_path)
    assert done.returncode == status and done.stderr.endswith(words)


@pytest.mark.slow
def test_a_death_without_a_common_parent(tmp_path: Path) -> None:
    """Processes that another launcher has started, and that have no common parent, also end when one of them dies."""
    own = {
        **without_launchers(),
        "TIDUC_PROCESSES": "2",
        ADDRESS: f"127.0.0.1:{free_port()}",
    }
    started = [
        subprocess.Popen(
            [sys.executable, SCRIPT, "kill", str(tmp_path)],
            env={**own, "TIDUC_PROCESS": str(index)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for index in range(2)
    ]
    try:
        errors = [process.communicate(timeout=300)[1] for process in started]
    finally:
        for process in started:
            process.kill()
    assert started[1].returncode == -9
    assert started[0].returncode != 0 and errors[0]


DEATHS = {
    "abort": "os.write(2, b'F1 JAX distributed service detected fatal errors\\n stack trace\\n'); os.abort()",
    "raise": "raise ValueError('Gloo: connection reset by peer')",
    "fault": "os.write(2, b'E1 coordination service: an error\\n'); os.kill(os.getpid(), 11)",
}


@pytest.mark.parametrize("how", DEATHS)
def test_a_process_whose_others_have_died(how: str, tmp_path: Path) -> None:
    """If another process has died, the driver names that cause and saves no reproducer.

    Other crashes are reported as usual.
    """
    script = f"""import os, sys
from tiduc.dialect import progress
from tiduc.driver import drive
def work():
    progress.work_on("f.mlir")
    progress.enter("run")
    if sys.argv[1:]:
        progress.join()
    {DEATHS[how]}
sys.exit(drive(work))"""
    own = {**os.environ, "TMPDIR": str(tmp_path)}
    for joined_others in (["joined"], []):
        command = [sys.executable, "-c", script, *joined_others]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=own)
        assert done.returncode == 1
        if joined_others and how != "fault":
            assert done.stderr == (
                "f.mlir: error: another process has died or cannot be reached, during run; "
                "see the errors of the others\n"
            )
            assert not list(tmp_path.iterdir())
        else:
            assert "reproducer saved as" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("failing", [0, 1])
def test_the_command_if_another_process_has_died(failing: int, tmp_path: Path) -> None:
    (tmp_path / "f.mlir").write_text(str(shard(from_module(parse(IDENTITY)), {"data": 2}, {"w": ["data"]})))
    own = {
        **without_launchers(),
        "TMPDIR": str(tmp_path),
        "TIDUC_PROCESSES": "2",
        ADDRESS: f"127.0.0.1:{free_port()}",
    }
    command = [
        sys.executable,
        "-m",
        "tiduc",
        "run",
        "f.mlir",
        "--engine",
        "xla",
        "--processes",
        "2",
        "--input",
    ]
    started = [
        subprocess.Popen(
            [*command, "@nothing.npy" if index == failing else "zeros"],
            env={**own, "TIDUC_PROCESS": str(index)},
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            cwd=tmp_path,
        )
        for index in range(2)
    ]
    try:
        errors = [process.communicate(timeout=300)[1] for process in started]
    finally:
        for process in started:
            process.kill()
    assert [process.returncode for process in started] == [1, 1]
    assert errors[failing].startswith("nothing.npy: error: cannot read")
    assert errors[1 - failing].startswith("f.mlir: error: ") and "stack trace" not in errors[1 - failing]
    assert [file.name for file in tmp_path.iterdir()] == ["f.mlir"]
