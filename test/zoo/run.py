"""Measures the models of the zoo: python test/zoo/run.py [--only TEXT] [--size small|real] [--journal FILE] [--write]

Each model is measured in a process of its own (`measure.py`), with limits of time and memory. A journal keeps the
figures, a line of JSON for each model, and later runs skip the models that it has. `--write` writes the table in
docs/zoo.md from the journal.
"""

import argparse
import json
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from measure import MARK
from models import ENTRIES
from table import written

HERE = Path(__file__).parent
SECONDS = 1800
MEBIBYTES = 16_000


def measured(name: str, seconds: int) -> dict[str, Any]:
    """The figures of a model, or {"refused" | "failed": reason}."""

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (MEBIBYTES * 2**20,) * 2)

    command = [sys.executable, str(HERE / "measure.py"), name]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=seconds, preexec_fn=limited)
    except subprocess.TimeoutExpired:
        return {"failed": f"no result in {seconds} s"}
    for line in ended.stdout.splitlines():
        if line.startswith(MARK):
            found: dict[str, Any] = json.loads(line.removeprefix(MARK))
            return found
    last = ended.stderr.strip().splitlines()[-1:] or [""]
    return {"failed": f"exit {ended.returncode}: {last[0]}"}


def known(journal: Path) -> dict[str, dict[str, Any]]:
    """The last figures of each model in a journal."""
    lines = journal.read_text().splitlines() if journal.exists() else []
    return {name: found for name, found in map(json.loads, lines)}


def chosen(only: str, size: str | None) -> Iterator[str]:
    for entry in ENTRIES:
        if only in entry.name and size in (None, entry.size):
            yield entry.name


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="models whose names have this text")
    parser.add_argument("--size", choices=("small", "real"), help="models of this size")
    parser.add_argument("--seconds", type=int, default=SECONDS, help="time limit of a model")
    parser.add_argument("--journal", type=Path, default=Path("zoo.jsonl"), help="file of figures")
    parser.add_argument("--write", action="store_true", help="write the table in docs/zoo.md")
    given = parser.parse_args()
    found = known(given.journal)
    with given.journal.open("a") as journal:
        for name in chosen(given.only, given.size):
            if name not in found:
                found[name] = measured(name, given.seconds)
                print(json.dumps([name, found[name]]), file=journal, flush=True)
            print(name, json.dumps(found[name]), flush=True)
    if given.write:
        written(found)


if __name__ == "__main__":
    main()
