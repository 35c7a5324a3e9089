"""Reduces the input file of a finding. Removes ops if the file is a valid module, and then lines."""

import os
import signal
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Pipe
from pathlib import Path
from tempfile import TemporaryDirectory

from forks import PROCESSOR_SECONDS, Request, attempted, draw_of
from kinds import Case, case_of
from outcomes import died, finding

from tiduc.dialect.errors import TiducError
from tiduc.dialect.mlir.context import EVERY_DIALECT, parse
from tiduc.reduction.reduce import reduce

SECONDS = 300  # the time limit for the removal of ops


def minimised(request: Request, at: int, signature: str) -> bytes:
    """Returns the first file of an input in a reduced form.

    Operation number `at` on this file still has a finding with this signature.
    """
    case = case_of(*request)

    def fails(lines: list[bytes]) -> bool:
        files = {**case.files, case.file: b"".join(lines)}
        return _signature(replace(case, files=files), request, at) == signature

    contents = case.files[case.file]
    try:
        module = parse(contents, dialects=EVERY_DIALECT)
        contents = reduce(module, lambda text: fails([text]), SECONDS).text
    except TiducError:  # the file cannot be parsed, or the finding vanishes if the module is printed again
        pass
    return b"".join(_reduced(contents.splitlines(keepends=True), fails))


def _reduced(lines: list[bytes], fails: Callable[[list[bytes]], bool]) -> list[bytes]:
    """Removes consecutive lines as long as `fails` is true for the remaining lines.

    First tries to remove half of the lines at once, then fewer and fewer lines.
    """
    size = len(lines)
    while size := size // 2:
        at = 0
        while at < len(lines):
            shorter = lines[:at] + lines[at + size :]
            if fails(shorter):
                lines = shorter
            else:
                at += size
    return lines


def _signature(case: Case, request: Request, at: int) -> str:
    """Returns the signature of the outcome of operation number `at`, which runs in a separate process."""
    ours, theirs = Pipe()
    with TemporaryDirectory() as folder, open(os.path.join(folder, "errors"), "w+b") as errors:
        child = os.fork()
        if child == 0:
            os.dup2(errors.fileno(), 2)
            os.chdir(folder)
            for name, contents in case.files.items():
                Path(name).write_bytes(contents)
            draw = draw_of(request, at)
            theirs.send(attempted(case, case.operations[at], draw).signature)
            os._exit(0)
        theirs.close()
        answered = ours.poll(PROCESSOR_SECONDS)
        try:
            return str(ours.recv()) if answered else finding("hang", "").signature
        except EOFError:
            pass
        finally:
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
        errors.seek(0)
        return died(os.WTERMSIG(status), errors.read().decode(errors="replace")).signature
