"""The reports in docs/upstream/: one for each fault of IREE that computes wrong values or crashes the compiler.

A report has what IREE's maintainers need: the program, the command, the arguments, and the results that StableHLO's
specification gives. Records whose fault has a known report (`Fault.upstream`) need none. docs/upstream/searches.toml
says how the public issues were searched for each of the other faults; a report ends with what was found.
"""

import re
import shlex
import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "test" / "py"))
from cases.witnesses import Witness, find_witness  # noqa: E402

from tiduc.backends.iree.fault import SEEN, Fault  # noqa: E402
from tiduc.backends.iree.records import records  # noqa: E402
from tiduc.backends.iree.targets import find_target  # noqa: E402

_SHOWN = 100
"""The most elements of an array that a report shows."""

_WRITTEN = 200
"""The most elements of an array that the Python code of a report lists."""


@dataclass(frozen=True)
class Search:
    """A search for a public report of a fault: an entry of docs/upstream/searches.toml.

    `nearest` is the address of the most similar thread; it is empty if no thread is similar. `reason` says why the
    thread describes another fault.
    """

    date: date
    query: str
    nearest: str = ""
    reason: str = ""

    def __str__(self) -> str:
        searched = f"Searched the public issues on {self.date} for: {self.query}."
        if not self.nearest:
            return f"{searched} None found."
        return f"{searched} Nearest: {_link(self.nearest)}, which is another fault: {self.reason}."


def searches() -> dict[str, Search]:
    """The searches, by the names of reports without ".md"."""
    text = (Path(__file__).parent / "upstream" / "searches.toml").read_text()
    return {name: Search(**entry) for name, entry in tomllib.loads(text).items()}


def reports() -> dict[str, str]:
    """The text of each report, by the name of its file; fails if a search belongs to no report."""
    searched = searches()
    found: dict[str, str] = {}
    ops: dict[tuple[str, str], list[str]] = {}
    for record in records():
        if record.fault.kind in ("wrong", "crash") and not record.fault.upstream:
            ops.setdefault((record.fault.text, record.fault.witness), []).append(record.name)
    for record in records():
        names = ops.pop((record.fault.text, record.fault.witness), [])
        if names:
            file = _file(record.fault.witness or record.name, found)
            found[file] = _report(record.fault, list(dict.fromkeys(names)))
            if search := searched.pop(file.removesuffix(".md"), None):
                found[file] += f"\n{search}\n"
    if searched:
        raise ValueError(f"searches.toml names no report: {', '.join(searched)}")
    return found


def index() -> str:
    """The page that introduces the reports, and lists the records whose fault has a public report."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for record in records():
        fault = record.fault
        if fault.upstream:
            found.setdefault((fault.kind, fault.upstream, fault.text), []).append(record.name)
    lines = [
        INDEX,
        "| op or pass | kind | IREE's fault, and what replaces it | report |",
        "|---|---|---|---|",
    ]
    for (kind, address, text), names in sorted(found.items()):
        ops = ", ".join(f"`{name}`" for name in dict.fromkeys(names))
        lines.append(f"| {ops} | {kind} | {text} | {_link(address)} |")
    return "\n".join(lines) + "\n"


def _link(address: str) -> str:
    """A Markdown link to a thread on GitHub, with its repository and number as the label."""
    label = re.sub(r"https://github.com/(.+)/(?:issues|pull)/(\d+)", r"\1#\2", address)
    return f"[{label}]({address})"


def _file(name: str, taken: dict[str, str]) -> str:
    stem = re.sub(r"\W+", "_", name)
    number = sum(re.fullmatch(rf"{stem}(_\d+)?\.md", each) is not None for each in taken)
    return f"{stem}_{number + 1}.md" if number else f"{stem}.md"


def _report(fault: Fault, names: Sequence[str]) -> str:
    ops = ", ".join(f"`{name}`" for name in names)
    said = fault.text.partition(";")[0].rstrip(".")
    outcome = "Wrong values" if fault.kind == "wrong" else "The compiler rejects the program or crashes"
    lines = [f"# {outcome}: {said}\n", f"IREE {fault.seen}, in tiduc's workaround for {ops}.\n"]
    if not fault.witness:
        return "\n".join([*lines, f"There is no small program: {fault.untested}"]) + "\n"
    return "\n".join([*lines, *_steps(find_witness(fault.witness), fault)]) + "\n"


def _steps(witness: Witness, fault: Fault) -> Iterator[str]:
    flags = shlex.join(
        "--iree-llvmcpu-target-cpu=host" if "target-cpu=" in flag else flag  # for any value of TIDUC_HOST_CPU
        for flag in find_target(witness.target).flags
    )
    yield f"`program.mlir`:\n\n```text\n{witness.text.strip()}\n```\n"
    yield f"```text\niree-compile {flags} program.mlir -o program.vmfb\n```\n"
    if fault.kind == "crash":
        yield "The program is valid StableHLO: the compiler should accept it, and its module should load.\n"
        yield from _run(witness)
        return
    if witness.earlier:  # not a command, because iree-run-module calls a function once
        for i, arguments in enumerate(witness.earlier):
            yield f"An earlier call {i + 1}, whose results stay on the device, takes:\n\n{_arrays(arguments)}\n"
        yield f"The call of `main` takes:\n\n{_arrays(witness.arguments)}\n"
    else:
        yield from _run(witness)
    if witness.refused:
        yield "The sizes of these arguments do not fit together; the call should fail and does not."
    elif witness.expected is not None:
        yield f"The specification gives:\n\n{_arrays(witness.expected)}"
    else:
        yield (
            "StableHLO's reference interpreter gives the results of the specification; those of IREE differ, "
            "or the call fails."
        )


def _run(witness: Witness) -> Iterator[str]:
    """The call by iree-run-module; NumPy first writes the arguments that a command line cannot hold."""
    flags, saved, unwritten = [], [], []
    for i, array in enumerate(witness.arguments):
        if _is_on_command_line(array):
            flags.append(f"--input={_array(array)}")
            continue
        if array.dtype.itemsize == 1 and array.size <= _SHOWN:  # as bytes, since the bytes of NaNs may differ
            flags.append(f"--input={_array(array).partition('=')[0]}=@{i}.bin")
            saved.append(f'np.array({array.view(np.uint8).tolist()}, np.uint8).tofile("{i}.bin")')
            continue
        flags.append(f"--input=@{i}.npy")
        if code := _code(array):
            saved.append(f'np.save("{i}.npy", {code})')
        else:
            unwritten.append(f"`{i}.npy` holds {_array(array)}.")
    if saved:
        yield "\n".join(["```text", "import numpy as np", "", *saved, "```\n"])
    if unwritten:
        yield "\n".join([*unwritten, ""])
    device = _DEVICES.get(witness.target, witness.target.partition(":")[0])
    yield f"```text\niree-run-module --module=program.vmfb --device={device} {shlex.join(flags)}\n```\n"


_DEVICES = {"cpu": "local-sync", "cpu-threads": "local-task", "vmvx": "local-sync"}


def _is_on_command_line(array: Any) -> bool:
    """Whether iree-run-module reads the values from the command line: not complex numbers, nor 8-bit NaN."""
    is_nan = array.dtype.name.startswith("float8") and np.isnan(array.astype(np.float32)).any()
    return bool(array.size <= _SHOWN and array.dtype.kind != "c" and not is_nan)


def _code(array: Any) -> str:
    """NumPy's code for an array; empty if the array is large and follows no formula."""
    if array.size == 0:
        return f"np.zeros({array.shape}, np.{array.dtype.name})"
    if np.array_equal(array, np.full_like(array, array.ravel()[0])):
        return f"np.full({array.shape}, {array.ravel()[0].item()}, np.{array.dtype.name})"
    counted = np.arange(array.size).reshape(array.shape)
    if array.dtype.kind in "if" and np.array_equal(array.astype(np.float64), counted):
        return f"np.arange({array.size}).astype(np.{array.dtype.name}).reshape({array.shape})"
    if array.size > _WRITTEN:
        return ""
    return f"np.array({array.tolist()}, np.{array.dtype.name})"


def _arrays(arrays: Sequence[Any]) -> str:
    return "\n".join(["```text", *map(_array, arrays), "```"]) if arrays else "no arguments."


def _array(array: Any) -> str:
    """An array as `iree-run-module --input` reads it, or its type and range if it is large."""
    if array.dtype == bool:  # whose bytes are read as integers of 8 bits
        return _array(array.astype(np.int8))
    element = _ELEMENT.sub(_bits, array.dtype.name)
    type_ = "x".join([*map(str, array.shape), _FLOAT8.get(element, element)])
    if array.size <= _SHOWN:
        return f"{type_}={' '.join(map(str, array.ravel().tolist()))}"
    wide = array.astype(np.complex128)
    if np.all(wide == wide.ravel()[0]):
        return f"{type_}={array.ravel()[0]}"
    return f"{type_}: {array.size} numbers between {wide.real.min():.3g} and {wide.real.max():.3g}"


_FLOAT8 = {"float8_e4m3fn": "f8E4M3FN", "float8_e5m2": "f8E5M2"}
"""MLIR's names of the types of 8 bits that records have."""

_ELEMENT = re.compile(r"^(?:(complex)|(u?)int|b?float)(\d+)$")


def _bits(match: re.Match[str]) -> str:
    """MLIR's name of an element type of NumPy."""
    of_complex, unsigned, bits = match.groups()
    if of_complex:
        return f"complex<f{int(bits) // 2}>"
    return ("b" if match[0][0] == "b" else "") + (f"{unsigned}i" if "int" in match[0] else "f") + bits


INDEX = f"""# Reports to IREE

One file for each fault of IREE {SEEN} that tiduc works around and that gives wrong values, or that makes the compiler
reject a valid program or crash on it. Each file holds the smallest program that shows the fault, so that it can be sent
to IREE's maintainers. `python docs/generate.py` writes these files, and this page, from the records of the faults.

A report ends with the search for a public report of the fault, from `searches.toml`. The searches read a stored copy of
the issues and pull requests of IREE, LLVM, StableHLO and torch-mlir, by meaning, so they may miss a thread.

## Faults with a public report

The field `upstream` of these records holds the address of a report, or of a pull request that corrects the fault. They
have no file here.
"""
