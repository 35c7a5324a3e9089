"""compiler_progress: reports the progress of IREE's compiler, which reports none itself.

Flags of MLIR make the compiler write a file whenever a pass in `_PASSES` starts. The file is in a folder named after
the executable or function that the pass runs on. A flag of LLVM makes the compiler print a remark for each function
with complete machine code. The flags do not change the module.
"""

import os
import re
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tiduc.dialect import progress

_EVERY = 0.3  # seconds between reads of the files

_PASSES = _ENCODES, _TRANSLATES, _LOWERS = (
    "iree-stream-encode-device-tensors",
    "iree-hal-translate-all-executables",
    "iree-llvmcpu-lower-executable-target",
)
"""Passes that mark progress. The first runs on all executables before the second begins; the second runs the third on
functions.

IREE may add executables between the first and the second pass.
"""

_DONE = re.compile(r"stack bytes in function '([^']*)'")
_REMARK = re.compile(r"^remark: .*\n?", re.MULTILINE)
_LAST = "iree_hal_executable_library_query"
"""LLVM compiles this function after the functions of all executables."""
PRINTS_IR = "--mlir-print-ir"
"""The prefix of flags with which users make the compiler print IR."""

_TAKEN = PRINTS_IR, "--pass-remarks"
_FUNCTION = "func_func_"


@dataclass(frozen=True)
class Reported:
    """Flags for progress reports, the file for the compiler's standard error, and the folder for its IR.

    All three are empty if no listener asks for progress.
    """

    flags: tuple[str, ...] = ()
    errors: str | None = None
    tree: str | None = None


@contextmanager
def reported(folder: str, flags: Sequence[str]) -> Iterator[Reported]:
    """A context in which the progress of a compiler with these flags is reported. `folder` takes the compiler's files.

    Reports nothing if the flags already make the compiler print IR or remarks.
    """
    if not progress.has_listeners() or any(flag.startswith(_TAKEN) for flag in flags):
        yield Reported()
        return
    own = tempfile.mkdtemp(dir=folder)  # a separate folder for each run of the compiler
    tree, errors = os.path.join(own, "passes"), os.path.join(own, "errors")
    marks = f"--mlir-print-ir-before={','.join(_PASSES)}", f"--mlir-print-ir-tree-dir={tree}"
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(_EVERY):
            progress.report(phase(tree, errors))

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield Reported((*marks, "--pass-remarks-analysis=prolog-epilog"), errors, tree)
    finally:
        ended.set()
        thread.join()
        progress.report(phase(tree, errors))


def without_remarks(errors: str) -> str:
    """A compiler's standard error without LLVM's remarks."""
    return _REMARK.sub("", errors)


def phase(tree: str, errors: str) -> str:
    """Reads the compiler's current phase, and the share of the phase that is done, from its files."""
    places: dict[str, set[str]] = {name: set() for name in _PASSES}
    for place, _, files in os.walk(tree):
        for name in _PASSES:
            if any(file.endswith(f"_{name}.mlir") for file in files):
                places[name].add(place)
    formed, begun = len(places[_ENCODES]), len(places[_TRANSLATES])
    if not formed:
        return "IREE forms executables"
    if not begun:
        return f"IREE schedules {_number(formed, 'executable')}"
    done: set[str] = set()
    with suppress(OSError):
        done.update(_DONE.findall(Path(errors).read_text(encoding="utf-8", errors="replace")))
    functions = {os.path.basename(place).removeprefix(_FUNCTION) for place in places[_LOWERS]}
    if _LAST in done:
        return "IREE links the module"
    if done:
        return f"LLVM has compiled {len(done & functions)} of {_number(len(functions), 'function')}"
    return f"IREE lowers executable {begun} of {max(begun, formed)}"


def _number(n: int, what: str) -> str:
    return f"{n} {what}{'s' * (n != 1)}"
