"""A worker process that answers requests. It is replaced by a new process if it dies or exceeds the time limit."""

import json
import re
import resource
import select
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from typing import Any

_MARK = "OUTCOME "
"""The prefix of answers on stdout. It distinguishes answers from the output of libraries."""


_MEMORY = re.compile(
    r"can't allocate|unable to allocate|out of memory|bad_alloc|MemoryError|RESOURCE_EXHAUSTED", re.IGNORECASE
)


def is_out_of_memory(message: str) -> bool:
    """Whether a message of PyTorch, NumPy, JAX or C++ says that memory could not be allocated."""
    return _MEMORY.search(message) is not None


class Worker:
    """Starts a command as a worker process at the first request. The command must call `answer_requests`.

    `errors` is the end of the text that the last process that died had written to stderr.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self.command = command
        self.process: Any = None
        self.errors = ""
        self._stderr: Any = None

    def asked(self, request: Any, seconds: float) -> Any:
        """Sends a request and returns the answer.

        Returns "crash" if the process died, and "hang" if it did not answer within `seconds`.
        """
        if self.process is None:
            pipe = subprocess.PIPE
            self._stderr = tempfile.TemporaryFile("w+", errors="replace")
            self.process = subprocess.Popen(
                self.command, stdin=pipe, stdout=pipe, stderr=self._stderr, text=True
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
                self._stderr.seek(0)
                self.errors = " ".join(self._stderr.read().split())[-300:]
                return "crash" if ready else "hang"
        return json.loads(line.removeprefix(_MARK))

    def close(self) -> None:
        """Waits until the process has finished its current request, and ends it."""
        if self.process is not None:
            self.process.stdin.close()
            self.process.wait()


def answer_requests(answer: Callable[[Any], Any]) -> None:
    """The main function of a worker process. It reads requests as lines of JSON and writes answers as lines of JSON."""
    for line in sys.stdin:
        print(_MARK + json.dumps(answer(json.loads(line))), flush=True)


def answer_about_architectures(record: Callable[..., Any], mebibytes: int) -> None:
    """The main function of a worker process with a memory limit. A request (title, ...) is a call of `record`.

    The first argument of `record` is the architecture in `test/zoo/catalog.py` with this title. The others are those of
    the request. PyTorch uses one thread.
    """
    resource.setrlimit(resource.RLIMIT_DATA, (mebibytes * 2**20,) * 2)
    warnings.simplefilter("ignore")
    import torch
    from catalog import architectures

    torch.set_num_threads(1)
    by_title = {each.title: each for each in architectures()}
    answer_requests(lambda request: record(by_title[request[0]], *request[1:]))
