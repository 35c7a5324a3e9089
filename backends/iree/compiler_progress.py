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

_EVERY = 0.3  # the seconds between two reads of the compiler's files

_PASSES = _ENCODES, _TRANSLATES, _LOWERS = (
    "iree-stream-encode-device-tensors",
    "iree-hal-translate-all-executables",
    "iree-llvmcpu-lower-executable-target",
)
"""The passes whose starts are observed.

The first pass has run on all executables before the second pass begins. The second pass runs the third pass on each
function. IREE may add executables between the first and the second pass.
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
    """Flags that make the compiler show its progress, the file for its standard error, and the folder for its IR.

    If no progress is to be reported, `flags` is empty, and both paths are None.
    """

    flags: tuple[str, ...] = ()
    errors: str | None = None
    tree: str | None = None


@contextmanager
def reported(folder: str, flags: Sequence[str]) -> Iterator[Reported]:
    """Context manager: while its body runs a compiler, a thread reports the compiler's progress to the listeners.

    The caller must add the `flags` of the yielded record to the compiler's command, and write the compiler's standard
    error to the record's file `errors`. The compiler's files are written below `folder`. The argument `flags` has the
    flags that the command has already: if one of them makes the compiler print IR or remarks, nothing is reported.
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
    """Returns a compiler's standard error with LLVM's remarks removed."""
    return _REMARK.sub("", errors)


def phase(tree: str, errors: str) -> str:
    """Returns a phrase such as "IREE lowers executable 2 of 5", from the files that the compiler has written so far."""
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
