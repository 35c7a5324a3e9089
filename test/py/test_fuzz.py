"""The fuzzer detects injected faults, and reports no fault for a sample of its inputs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FUZZ = ROOT / "test/fuzz"
BAD = f"""
import os, signal, sys, time
sys.path[:0] = [{str(ROOT)!r}, *({str(ROOT)!r} + "/test/" + name for name in ("py", "sweep", "fuzz"))]
import corpus, forks, operations, runs
from kinds import KINDS, Case
forks.IDLE_SECONDS, runs._LOOK = 1, 0.1

def die(s): os.kill(os.getpid(), signal.SIGSEGV)
def hang(s): time.sleep(60)
def grow(s): bytearray(1 << 40)
def fail(s): raise KeyError("x")
def lie(s): raise operations.Invalid("no IR")
def answer(s): pass

bad = (die, hang, grow, fail, lie, answer)
operations.OTHER.update((f.__name__, f) for f in bad)
KINDS["bad"] = lambda draw: Case("bad", {{"x": b""}}, tuple(f.__name__ for f in bad))
corpus.PREPARE["bad"] = lambda: None
run = runs.Run([("bad", 0, 0), ("bad", 0, 1)])
run.run()
print(sorted(run.counts["bad"].items()), run.inputs["bad"])
"""


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


@pytest.mark.slow
@pytest.mark.more
def test_failures_of_a_worker_are_classified() -> None:
    done = subprocess.run(
        [sys.executable, "-c", BAD], capture_output=True, text=True, timeout=120, env=environment()
    )
    classes = [("answer", 2), ("death", 2), ("hang", 2), ("invalid", 2), ("memory", 2), ("traceback", 2)]
    assert done.stdout.strip() == f"{classes} 2", done.stderr


@pytest.mark.more
@pytest.mark.parametrize("kinds", ["text,programs", "bytecode,compiled,arrays,cache,commands"])
def test_a_sample_finds_nothing(kinds: str) -> None:
    """The fuzzer reports no fault for 12 inputs of each kind, except models and archives, which import frameworks."""
    command = [sys.executable, str(FUZZ), "--kinds", kinds, "--count", "12", "--seed", "14"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment())
    assert done.returncode == 0, done.stdout
    assert "| all | 12 |" in done.stdout


def test_archives_of_strangers_touch_nothing() -> None:
    pytest.importorskip("torch")
    command = [sys.executable, str(FUZZ), "--kinds", "archives", "--count", "100", "--seed", "14"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, env=environment())
    assert done.returncode == 0, done.stdout
    assert "| all | 100 |" in done.stdout


def test_an_input_is_determined_by_its_number() -> None:
    from kinds import KINDS, case_of

    for kind in ("text", "programs", "arrays", "commands"):
        assert kind in KINDS
        first, repeated, other = case_of(kind, 1, 2), case_of(kind, 1, 2), case_of(kind, 1, 3)
        assert (
            (first.files, first.operations)
            == (repeated.files, repeated.operations)
            != (other.files, other.operations)
        )


@pytest.mark.parametrize(
    "code, output, errors, category",
    [
        (0, "module {}", "", "answer"),
        (1, "", "f.mlir:1:2: error: no", "refused"),
        (1, "", "", "silent"),
        (3, "", "f.mlir:1:2: error: no", "silent"),
        (2, "", "Usage: tiduc", "silent"),
        (-11, "", "", "death"),
        (1, "", "f.mlir: error: tiduc died (SIGSEGV) during parsing; reproducer saved as /none", "reported"),
        (
            1,
            "",
            "f.mlir: error: tiduc failed (KeyError: 1) during lowering; reproducer saved as /none",
            "traceback",
        ),
        (1, "", "f.mlir:1:2: error: tiduc made invalid IR; please report it", "invalid"),
        (1, "", "Traceback (most recent call last):\n  File\nKeyError: 1", "traceback"),
    ],
)
def test_outcomes_of_command_lines(code: int, output: str, errors: str, category: str) -> None:
    from outcomes import exited

    assert exited(code, output, errors, ["vjp"], "text").category == category


def test_an_error_without_its_place_is_a_finding() -> None:
    from outcomes import raised

    from tiduc.dialect.errors import ParseError, RequestError

    assert raised(ParseError("no"), has_places=True).category == "unplaced"
    assert raised(ParseError("no", "f:1:2"), has_places=True).category == "refused"
    assert raised(ParseError("no"), has_places=False).category == "refused"
    assert raised(RequestError("no"), has_places=True).category == "refused"
