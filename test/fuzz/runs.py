"""A run of the fuzzer: sends inputs to worker processes, counts outcomes, and writes the files of findings."""

import os
import re
import shutil
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import corpus
from forks import Request, Worker
from kinds import Case, case_of
from outcomes import Outcome, died, finding

_LOOK = 1.0  # the seconds between checks whether a worker exceeds its time limit
_TELL = 30.0  # the seconds between progress messages


def requests(shares: Mapping[str, int], count: int, seed: int, first: int) -> Iterator[Request]:
    """Yields `count` inputs of alternating kinds. Their numbers are proportional to `shares`."""
    whole = sum(shares.values())
    given = dict.fromkeys(shares, 0)
    for i in range(count):
        kind = min(shares, key=lambda kind: (given[kind] + 1) / shares[kind] - i / whole)
        yield kind, seed, first + given[kind]
        given[kind] += 1


@dataclass
class Finding:
    """The first finding with a signature, and the number of all findings with this signature.

    `request` is the input, and `at` is the number of the operation.
    """

    outcome: Outcome
    where: str
    request: Request
    at: int
    count: int = 1


class Run:
    """Runs inputs in worker processes.

    `counts` has the numbers of outcomes for each kind, and `findings` the first finding of each signature. If an
    operation ends or blocks a worker, it is repeated in a new worker. It is a finding only if it ends or blocks the new
    worker, too. `repeated` has the pairs of an input and the number of the repeated operation.
    """

    def __init__(
        self, asked: Sequence[Request], workers: int = 1, seconds: float = 0, keep: Path | None = None
    ) -> None:
        self.counts: dict[str, Counter[str]] = {}
        self.inputs: Counter[str] = Counter()
        self.findings: dict[str, Finding] = {}
        self._waiting: deque[tuple[Request, int]] = deque((request, 0) for request in asked)
        self._count, self._keep = workers, keep
        self._deadline = time.monotonic() + seconds if seconds else None
        self._home, self._started = Path(tempfile.mkdtemp(prefix="fuzz-", dir=_scratch())), 0
        self.repeated: set[tuple[Request, int]] = set()
        self._told = time.monotonic()
        self._busy: dict[Worker, tuple[Request, int]] = {}
        for kind in dict.fromkeys(kind for kind, _, _ in asked):
            self.counts[kind] = Counter()
            corpus.PREPARE[kind]()

    def run(self) -> None:
        """Runs all inputs, or as many as the time limit allows. A keyboard interrupt ends the run."""
        try:
            for _ in range(min(self._count, len(self._waiting))):
                self._next(self._worker())
            while self._busy:
                self._progress()
                ready = wait([worker.connection for worker in self._busy], _LOOK)
                for worker in list(self._busy):
                    if worker.connection in ready:
                        self._hear(worker)
                    elif worker.is_late:
                        self._lose(worker, is_late=True)
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
        finally:
            for worker in self._busy:
                worker.end()
            shutil.rmtree(self._home, ignore_errors=True)

    def _worker(self) -> Worker:
        self._started += 1
        return Worker(self._home / str(self._started))

    def _progress(self) -> None:
        """Prints a progress message if the last one was printed more than `_TELL` seconds ago."""
        if time.monotonic() - self._told > _TELL:
            self._told = time.monotonic()
            done = sum(self.inputs.values())
            print(f"{done} inputs, {len(self.findings)} causes of findings", file=sys.stderr, flush=True)

    def _next(self, worker: Worker) -> None:
        """Sends the next input to a worker. Ends the worker if no input is left."""
        if self._deadline is not None and time.monotonic() > self._deadline:
            self._waiting.clear()
        if not self._waiting:
            worker.end()
            return
        if worker.is_old:
            worker.end()
            worker = self._worker()
        request, first = self._waiting.popleft()
        self._busy[worker] = request, first
        worker.ask(request, first)

    def _hear(self, worker: Worker) -> None:
        """Reads a message of a worker and handles it. If the connection is closed, the worker has died."""
        request, _ = self._busy[worker]
        said: tuple[Any, ...] = ("died",)
        with suppress(EOFError, ConnectionResetError):
            said = worker.connection.recv()
        if said[0] == "died":
            self._lose(worker)
        elif said[0] == "begins":
            self._busy[worker] = request, said[1]
            worker.note()
        elif said[0] == "ended":
            outcome = said[2]
            self._note(
                request,
                said[1],
                self._confirmed(request, said[1], outcome) if outcome.category == "memory" else outcome,
            )
        else:
            self.inputs[request[0]] += 1
            del self._busy[worker]
            self._next(worker)

    def _lose(self, worker: Worker, is_late: bool = False) -> None:
        """Handles a worker that died or exceeds its time limit.

        If this happens for the first time, a new worker repeats the operation. Otherwise, the outcome is counted, and a
        new worker continues with the next operation.
        """
        request, at = self._busy.pop(worker)
        signal, words = worker.end()
        outcome = finding("hang", _running(words)) if is_late else died(signal, words)
        outcome = self._confirmed(request, at, outcome)
        if outcome.is_finding and (request, at) not in self.repeated:
            self.repeated.add((request, at))  # the cause may be an earlier operation, or a busy machine
            self._waiting.appendleft((request, at))
            self._next(self._worker())
            return
        self._note(request, at, outcome)
        operations, after = case_of(*request).operations, at + 1
        if operations[at] == "load":  # skips the other Python operations
            after += next((i for i, each in enumerate(operations[after:]) if not isinstance(each, str)), 99)
        self._waiting.appendleft((request, after))
        self._next(self._worker())

    def _confirmed(self, request: Request, at: int, outcome: Outcome) -> Outcome:
        """Runs a Python operation that ended the worker again with `isolated=True`.

        Returns an outcome of the category "isolated" if this run is no finding, else `outcome`.
        """
        if isinstance(case_of(*request).operations[at], str):
            second = self._isolated(request, at)
            if not second.is_finding:
                return Outcome("isolated", second.detail)
        return outcome

    def _isolated(self, request: Request, at: int) -> Outcome:
        """Returns the outcome of an operation with `isolated=True`, so that another process reads the input."""
        worker = self._worker()
        worker.ask(request, at, isolated=True)
        try:
            while not worker.is_late:
                if worker.connection.poll(_LOOK) and (said := worker.connection.recv())[0] == "ended":
                    outcome: Outcome = said[2]
                    return outcome
            return finding("hang", "")
        except (EOFError, ConnectionResetError):
            return finding("death", "")
        finally:
            worker.end()

    def _note(self, request: Request, at: int, outcome: Outcome) -> None:
        kind, seed, number = request
        self.counts[kind][outcome.category] += 1
        if not outcome.is_finding:
            return
        if outcome.signature in self.findings:
            self.findings[outcome.signature].count += 1
            return
        case = case_of(*request)
        operation = case.operations[at]
        said = operation if isinstance(operation, str) else " ".join(("tiduc", *operation))
        where = f"--kinds {kind} --seed {seed} --only {number}: {said}"
        self.findings[outcome.signature] = Finding(outcome, where, request, at)
        if self._keep is not None:
            _keep(self._keep / f"{outcome.category}-{kind}-{seed}-{number}-{at}", case, where, outcome)


def _scratch() -> str | None:
    """Returns the path of a folder in memory. Returns None if the system has none."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def _running(words: str) -> str:
    frames = re.findall(r'File "[^"]*/([^"/]+)", line \d+ in (\w+)', words)
    return f"no answer {frames[0] if frames else ''}"


def _keep(folder: Path, case: Case, where: str, outcome: Outcome) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, contents in case.files.items():
        (folder / name).write_bytes(contents)
    (folder / "finding.txt").write_text(f"{where}\n{outcome.detail}\n", errors="backslashreplace")
