"""job: the input of the process in `process.py`, the command that starts it, and its messages."""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

MODULE = "module"
"""The `end` of a `Span` that runs to the end of compilation. IREE has no phase of this name."""

RECORD_EACH_RUN = ("--iree-hal-indirect-command-buffers=false",)
"""A compiler flag: compiled programs then record their commands in each run, instead of reusing command buffers."""

_PROGRAM = (
    "import sys; sys.path[:] = {path!r}; sys.modules['numpy'] = None\n"
    "from tiduc.backends.iree.modules.process import main; main()"
)


class Span(NamedTuple):
    """A part of a compilation: IREE's phases up to and including `end`, then the edits with the names `edits`.

    If `pipeline`, the text of a pass pipeline, is not empty, it runs instead of the phases. Without `verified`, the
    module is not verified between passes, but only after them.
    """

    end: str
    edits: Sequence[str] = ()
    verified: bool = True
    pipeline: str = ""


class Job(NamedTuple):
    """The input of one run of the process: spans, which run one after the other.

    The program has been compiled up to the phase `begin`, or is StableHLO if `begin` is empty. The run writes a
    compiled module if the last span ends at `MODULE`, else MLIR bytecode. `workgroups` is `Source.workgroups`. Without
    `threads`, IREE's compiler starts no threads.
    """

    begin: str
    spans: Sequence[Span]
    threads: bool = True
    workgroups: Mapping[str, str] = {}

    def header(self) -> bytes:
        """The line that precedes the program on the standard input of the process."""
        return json.dumps(self._asdict()).encode() + b"\n"


def command(flags: Sequence[str]) -> list[str]:
    """The command that starts the process. `flags` are flags of iree-compile."""
    path = [*sys.path, str(Path(__file__).parents[4])]
    return [sys.executable, "-I", "-S", "-c", _PROGRAM.format(path=path), *flags]


REMARK, REFUSED, RECORDS = "remark", "refused", "records"
"""Kinds of lines that the process writes.

A line of kind `REMARK` has a remark, and one of kind `REFUSED` the reason why the program is refused. A line of kind
`RECORDS` says that the exception `Recorded` (edits.py) was raised.
"""

_LINE = re.compile(r"^\0tiduc (\w+): (.*)\n?", re.MULTILINE)


def say(kind: str, text: str = "") -> None:
    """Writes a line of the kind `kind` to standard error, in the format that `said` recognizes."""
    sys.stderr.write(f"\0tiduc {kind}: {' '.join(text.split())}\n")


def said(errors: str) -> tuple[str, list[tuple[str, str]]]:
    """Removes the lines that `say` wrote from a process's standard error.

    Returns the remaining text, and the removed lines as pairs (kind, text).
    """
    return _LINE.sub("", errors), _LINE.findall(errors)
