"""The outcomes of operations on inputs. Some outcomes are findings, which point to bugs."""

import json
import re
import traceback
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tiduc.dialect.errors import InvalidIR, ParseError, TiducError, Unsupported

EXPECTED = ("answer", "refused", "usage", "isolated", "reported")
"""The categories of outcomes that are not findings:

- "answer": the operation has a result
- "refused": the operation raises a `TiducError`
- "usage": the command line is wrong
- "isolated": the operation ends or blocks the process, but with `isolated=True` it does not
- "reported": the driver reports that its worker died
"""
FINDINGS = ("traceback", "death", "hang", "memory", "invalid", "silent", "unplaced", "outside")
CATEGORIES = (*EXPECTED, *FINDINGS)

_PLACED = re.compile(r":\d+:\d+$")
_NO_PLACE = (
    "neither MLIR text, bytecode nor",  # the error is about the whole file
    "Failure while executing pass pipeline",  # a pass of MLIR reported no location
    "reading ",  # a worker process died or took too long
    "StableHLO's reference interpreter cannot run it",
)
"""The beginnings of error messages that need no location."""
_ROOT = str(Path(__file__).resolve().parents[2])


@dataclass(frozen=True)
class Outcome:
    """The outcome of one operation. Findings with equal signatures are assumed to have the same cause."""

    category: str
    detail: str = ""
    signature: str = ""

    @property
    def is_finding(self) -> bool:
        return self.category in FINDINGS


class Invalid(Exception):
    """Raised if the result of an operation is malformed, such as IR that cannot be parsed."""


class Outside(BaseException):
    """Raised if an operation does something that is not its task, such as opening another file.

    It is no `Exception`, so that `except Exception` does not catch it.
    """


def finding(category: str, detail: str, place: str = "") -> Outcome:
    """Returns a finding. Its signature consists of the category, the location, and the first line of the detail.

    Types, numbers and quoted texts in this line are left out.
    """
    first = re.sub(
        r"tensor<[^ ]*>|0x[0-9a-f]+|\d+|'[^']*'|\"[^\"]*\"", "_", detail.strip().partition("\n")[0]
    )
    return Outcome(category, detail, f"{category} {place} {first[:120]}")


def refused(error: TiducError, has_places: bool) -> Outcome:
    """Returns the outcome of an operation that raised a `TiducError`.

    If the input has locations (`has_places`), an error about the input must have a location, too.
    """
    about_the_input = isinstance(error, (ParseError, Unsupported)) and not error.message.startswith(_NO_PLACE)
    if has_places and about_the_input and not _PLACED.search(error.location):
        return finding("unplaced", f"{type(error).__name__}: {error}")
    if isinstance(error, InvalidIR):
        return finding("invalid", str(error))
    if not error.message.strip():
        return finding("silent", f"{type(error).__name__} without a message")
    return Outcome("refused", str(error))


def raised(error: BaseException, has_places: bool) -> Outcome:
    """Returns the outcome of an operation that raised an exception."""
    if isinstance(error, TiducError):
        return refused(error, has_places)
    if isinstance(error, MemoryError):
        return finding("memory", _told(error), _frame(error))
    if isinstance(error, Outside):
        return finding("outside", str(error))
    if isinstance(error, Invalid):
        return finding("invalid", str(error))
    return finding("traceback", _told(error), _frame(error))


def _told(error: BaseException) -> str:
    line = traceback.format_exception_only(error)[-1].strip()
    frames = "".join(traceback.format_tb(error.__traceback__)[-8:])
    return f"{line}\n{frames}"


def _frame(error: BaseException) -> str:
    """Returns the file and the function of the innermost frame of an exception that is in tiduc's own files."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if f.filename.startswith(_ROOT) and "/test/" not in f.filename]
    return f"{Path(ours[-1].filename).name}:{ours[-1].name}" if ours else ""


def _as_json(errors: str) -> bool:
    """Returns whether the last line is an error with a message in the format of `--json`."""
    try:
        return bool(json.loads(errors.strip().rpartition("\n")[2])["message"])
    except (ValueError, TypeError, KeyError):
        return False


def exited(code: int, output: str, errors: str, command: Sequence[str], kind: str) -> Outcome:
    """Returns the outcome of a command line, from its exit status and its output."""
    if re.search(r"^Traceback \(most", errors, re.MULTILINE):
        tail = errors.strip().rpartition("\n")[2]
        frames = re.findall(r'File "[^"]*/([^"/]+)", line \d+, in (\w+)', errors)
        return finding("traceback", f"{tail}\n{errors[-3000:]}", ":".join(frames[-1]) if frames else "")
    if code < 0:
        return died(-code, errors)
    if failed := re.search(r"error: tiduc failed \((.*)\) during", errors):
        return finding("traceback", f"{failed[1]}\n{_reproducer(errors)}")
    if "error: tiduc made invalid IR" in errors:
        return finding("invalid", errors[:3000], command[0])
    if code == 1 and re.search(r"error: (?:tiduc died|a library ended tiduc) \(", errors):
        return Outcome("reported", errors[:300])
    if code == 0:
        return Outcome("answer", output[:200])
    if code == 1 and (
        re.search(r"error: ", errors) or _as_json(errors) or command[0] == "check" and output.strip()
    ):
        return Outcome("refused", errors[:300])
    if code == 1:
        return finding("silent", f"exit status 1 without a diagnostic: {errors[:300]!r}", command[0])
    if code == 2 and kind == "commands":
        return Outcome("usage", errors[:300])
    return finding("silent", f"exit status {code}: {errors[:300]!r}", command[0])


def _reproducer(errors: str) -> str:
    """Returns the traceback in the folder that the driver saved, or the beginning of `errors` if there is none."""
    folder = re.search(r"reproducer saved as (\S+)", errors)
    saved = Path(folder[1], "traceback") if folder else None
    return (
        saved.read_text(errors="replace")[-3000:] if saved is not None and saved.is_file() else errors[:3000]
    )


def died(signal: int, errors: str) -> Outcome:
    """Returns the outcome of an operation whose process was ended by a signal.

    `errors` is the output of the process. It ends with the output of Python's fault handler.
    """
    before, fatal, stack = errors.rpartition("Fatal Python error")
    told = (before if fatal else errors).strip().splitlines()[-5:]
    why = next((line for line in told if re.search(r"error|terminate|assert|what\(\)|LLVM", line, re.I)), "")
    frames = [f for f in re.findall(r'File "([^"]*)", line \d+ in (\w+)', stack) if "/test/" not in f[0]]
    place = ":".join((Path(frames[0][0]).name, frames[0][1])) if frames else ""
    category = "memory" if "bad_alloc" in errors or "out of memory" in errors.lower() else "death"
    return finding(category, f"signal {signal}: {why}\n" + "\n".join([*told, fatal + stack[:1500]]), place)


def table(counts: Mapping[str, Counter[str]], inputs: Mapping[str, int]) -> str:
    """Returns a Markdown table with a row for each kind of input, and the number of operations for each category."""
    shown = [c for c in CATEGORIES if c in EXPECTED or any(row[c] for row in counts.values())]
    rows: list[Iterable[str]] = [["kind", "inputs", "operations", *shown], ["---"] * (3 + len(shown))]
    for kind, row in counts.items():
        rows.append([kind, _number(inputs[kind]), _number(row.total()), *(_number(row[c]) for c in shown)])
    every = sum(counts.values(), Counter())
    whole = [_number(sum(inputs.values())), _number(every.total())]
    rows.append(["all", *whole, *(_number(every[c]) for c in shown)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _number(count: int) -> str:
    return f"{count:,}"
