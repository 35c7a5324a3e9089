"""job: the input, the command and the messages of the process in `process.py`."""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

MODULE = "module"
"""The `end` of a span that runs to the end of compilation. It is not the name of a phase of IREE."""

RECORD_EACH_RUN = ("--iree-hal-indirect-command-buffers=false",)
"""The compiler flag that makes each run record its commands, instead of filling slots of a recorded command buffer."""

_PROGRAM = (
    "import sys; sys.path[:] = {path!r}; sys.modules['numpy'] = None\n"
    "from tiduc.backends.iree.modules.process import main; main()"
)


class Span(NamedTuple):
    """The phases of IREE's compiler up to and including `end`, and the edits after these phases.

    The passes of a `pipeline` replace the phases. Unless `verified`, IREE's compiler verifies the module only at the
    end of the span, not between passes.
    """

    end: str
    edits: Sequence[str] = ()
    verified: bool = True
    pipeline: str = ""


class Job(NamedTuple):
    """The spans of one run, which begins at the phase `begin`, or at StableHLO if `begin` is empty.

    `workgroups` is `Source.workgroups`. The run writes a compiled module if the last span ends at `MODULE`, else MLIR
    bytecode. Without `threads`, IREE's compiler starts no threads.
    """

    begin: str
    spans: Sequence[Span]
    threads: bool = True
    workgroups: Mapping[str, str] = {}

    def header(self) -> bytes:
        """The line that precedes the program on the standard input of the process."""
        return json.dumps(self._asdict()).encode() + b"\n"


def command(flags: Sequence[str]) -> list[str]:
    """The command of the process. `flags` are flags of iree-compile."""
    path = [*sys.path, str(Path(__file__).parents[4])]
    return [sys.executable, "-I", "-S", "-c", _PROGRAM.format(path=path), *flags]


REMARK, REFUSED, RECORDS = "remark", "refused", "records"
"""Kinds of lines: a remark; the reason of a refusal; a request to compile again with commands recorded in each run."""

_LINE = re.compile(r"^\0tiduc (\w+): (.*)\n?", re.MULTILINE)


def say(kind: str, text: str = "") -> None:
    """Writes a line of this kind to standard error."""
    sys.stderr.write(f"\0tiduc {kind}: {' '.join(text.split())}\n")


def said(errors: str) -> tuple[str, list[tuple[str, str]]]:
    """Removes the lines that `say` wrote from a process's standard error.

    Returns the remaining text, and the removed lines as pairs (kind, text).
    """
    return _LINE.sub("", errors), _LINE.findall(errors)
