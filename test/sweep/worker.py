"""A process that answers requests, and is replaced when it dies or takes too long."""

import json
import resource
import select
import subprocess
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

_MARK = "OUTCOME "
"""Prefix of answers, which distinguishes them from the output of libraries."""


class Worker:
    """A command that calls `answer_requests`; the first request starts it."""

    def __init__(self, command: Sequence[str]) -> None:
        self.command = command
        self.process: Any = None

    def asked(self, request: Any, seconds: float) -> Any:
        """The answer, "crash" if the process died, or "hang" if no answer came in time."""
        if self.process is None:
            pipe = subprocess.PIPE
            self.process = subprocess.Popen(
                self.command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
            )
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line, ready = "", True
        while not line.startswith(_MARK):
            ready = bool(select.select([self.process.stdout], [], [], seconds)[0])
            line = self.process.stdout.readline() if ready else ""
            if not line:
                self.process.kill()
                self.process.wait()
                self.process = None
                return "crash" if ready else "hang"
        return json.loads(line.removeprefix(_MARK))

    def close(self) -> None:
        """Ends the process after its current answer."""
        if self.process is not None:
            self.process.stdin.close()
            self.process.wait()


def answer_requests(answer: Callable[[Any], Any]) -> None:
    """Runs a worker: answers each request, a line of JSON on stdin, with a line of JSON on stdout."""
    for line in sys.stdin:
        print(_MARK + json.dumps(answer(json.loads(line))), flush=True)


def answer_about_architectures(record: Callable[..., Any], mebibytes: int) -> None:
    """Runs a worker: answers requests (title, ...) with `record(architecture, ...)`, within a limit of memory.

    Titles are those of architectures in `test/zoo/catalog.py`. PyTorch computes on one thread.
    """
    resource.setrlimit(resource.RLIMIT_DATA, (mebibytes * 2**20,) * 2)
    warnings.simplefilter("ignore")
    import torch
    from catalog import architectures

    torch.set_num_threads(1)
    by_title = {each.title: each for each in architectures()}
    answer_requests(lambda request: record(by_title[request[0]], *request[1:]))
