"""job: what the process of `process.py` is to do, the command that starts it, and the lines that it says."""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

MODULE = "module"
"""The end of compilation."""

RECORD_EACH_RUN = ("--iree-hal-indirect-command-buffers=false",)
"""The compiler flag that disables slots: command buffers that would need them are recorded in each run."""

_PROGRAM = (
    "import sys; sys.path[:] = {path!r}; sys.modules['numpy'] = None\n"
    "from tiduc.backends.iree.modules.process import main; main()"
)


class JobStage(NamedTuple):
    """Phases of IREE's compiler, up to and with `end`, and the edits after them.

    With a `pipeline`, its passes run in place of the phases.
    """

    end: str
    edits: Sequence[str] = ()
    verified: bool = True
    pipeline: str = ""


class Job(NamedTuple):
    """Stages from the phase `begin` on, or from StableHLO if that is empty. `workgroups` is that of `Source`.

    The result is a module, or bytecode of MLIR. Without `threads`, IREE's compiler starts none.
    """

    begin: str
    stages: Sequence[JobStage]
    threads: bool = True
    workgroups: Mapping[str, str] = {}

    def header(self) -> bytes:
        """The line before the program on the standard input of the process."""
        return json.dumps(self._asdict()).encode() + b"\n"


def command(flags: Sequence[str]) -> list[str]:
    """The command of the process; `flags` are those of iree-compile."""
    path = [*sys.path, str(Path(__file__).parents[4])]
    return [sys.executable, "-I", "-S", "-c", _PROGRAM.format(path=path), *flags]


REMARK, REFUSED, RECORDS = "remark", "refused", "records"
"""A remark; why a program is refused; the program is to be compiled again, so that it is recorded in each run."""

_LINE = re.compile(r"^\0tiduc (\w+): (.*)\n?", re.MULTILINE)


def say(kind: str, text: str = "") -> None:
    """Writes a line of this kind to standard error."""
    sys.stderr.write(f"\0tiduc {kind}: {' '.join(text.split())}\n")


def said(errors: str) -> tuple[str, list[tuple[str, str]]]:
    """The standard error of a process without the lines that `say` wrote, and these lines: their kinds and texts."""
    return _LINE.sub("", errors), _LINE.findall(errors)
