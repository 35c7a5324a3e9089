"""Measures the models of the zoo: python test/zoo/run.py [--only TEXT] [--size small|real] [--journal FILE] [--write]

`measure.py` measures each model in a separate process with limits of time and memory. The figures of each model and
engine are appended to a journal as a line of JSON. Later runs skip the models in the journal. `--engine none` stops
after the transform to the gradient. `--write` writes docs/zoo.md from the journal, and measures nothing.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MEASURE = Path(__file__).with_name("measure.py")
sys.path.insert(0, str(MEASURE.parent))
from measure import MARK  # noqa: E402

Figures = dict[str, Any]


def measured(name: str, engine: str, seconds: float, mebibytes: int) -> Figures:
    """Measures a model in a separate process. If the process fails, the figure "failed" is the reason."""
    command = [sys.executable, str(MEASURE), name, "--engine", engine, "--mebibytes", str(mebibytes)]
    with tempfile.TemporaryFile("w+") as output:
        try:
            code: int | None = subprocess.run(
                command, stdout=output, stderr=subprocess.STDOUT, timeout=seconds
            ).returncode
        except subprocess.TimeoutExpired:
            code = None
        output.seek(0)
        lines = output.read().splitlines()
    figures = [line for line in lines if line.startswith(MARK)] or [MARK + "{}"]
    found: Figures = json.loads(figures[-1].removeprefix(MARK))
    if code is None:
        found["failed"] = f"no result in {seconds} s"
    elif code:
        last = lines[-1] if lines and not lines[-1].startswith(MARK) else ""
        found["failed"] = f"exit {code}: {last}"
    return found


def known(journal: Path) -> dict[tuple[str, str], Figures]:
    """Returns the last figures of each model and engine in a journal."""
    lines = journal.read_text().splitlines() if journal.exists() else []
    return {(name, engine): found for name, engine, found in map(json.loads, lines)}


def chosen(only: str, size: str | None) -> Iterator[str]:
    from installed import ENTRIES

    for entry in ENTRIES:
        if only in entry.name and size in (None, entry.size):
            yield entry.name


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="measure only models whose names contain this text")
    parser.add_argument("--size", choices=("small", "real"), help="measure only models of this size")
    parser.add_argument("--engine", choices=("iree", "xla", "none"), default="iree")
    parser.add_argument("--seconds", type=int, default=1800, help="time limit of a model in seconds")
    parser.add_argument("--mebibytes", type=int, default=6000, help="memory limit of a model in MiB")
    parser.add_argument("--journal", type=Path, default=Path("zoo.jsonl"), help="file for the figures")
    parser.add_argument("--again", action="store_true", help="measure failed and refused models again")
    parser.add_argument("--write", action="store_true", help="write docs/zoo.md, and measure nothing")
    given = parser.parse_args()
    found = known(given.journal)
    if given.write:
        from table import write

        write(found)
        return
    with given.journal.open("a") as journal:
        for name in chosen(given.only, given.size):
            before = found.get((name, given.engine))
            if before is None or (given.again and before.keys() & {"failed", "refused"}):
                figures = measured(name, given.engine, given.seconds, given.mebibytes)
                print(json.dumps([name, given.engine, figures]), file=journal, flush=True)
                print(name, json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
