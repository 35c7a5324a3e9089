"""Compares gradients that IREE computes with PyTorch's gradients in f64, for all architectures in installed packages.

    python test/sweep/architectures.py [JOURNAL] [--seed N --count N] [--only TEXT] [--size SIZE] [--shapes N]
        [--engine none] [--page]

The architectures are those of `test/zoo/catalog.py`, with random weights. If the published size of an architecture has
more than 150 million weights, a reduced size is tested instead. A scalar function of the results is differentiated with
respect to all float weights and inputs. A worker process with limits of memory and time runs each architecture. The
outcome is one of `OUTCOMES`.

The journal, by default `test/zoo/architectures.jsonl`, has a line of JSON for each architecture, sorted by title. A
later run runs only the architectures that are not in the journal.

    --seed, --count   shuffle the architectures, and run the first COUNT
    --engine none     compile nothing; a later run compiles the architectures that could be differentiated
    --shapes N        skip modules whose weights have more than N different shapes. IREE compiles code for each shape,
                      so that modules with few shapes take less time: runs with growing N give many results early.
    --page            write the tables of docs/zoo.md from the journal
"""

import argparse
import json
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
ZOO = Path(__file__).parents[1] / "zoo"
sys.path.insert(0, str(ZOO))

from counts import WRONG, summary, total  # noqa: E402
from worker import Worker, answer_about_architectures, is_out_of_memory  # noqa: E402

OUTCOMES = {
    "ok": "the value and all gradients equal PyTorch's within the tolerance",
    "differentiated": "import and derivative succeed; the program has not been compiled",
    "refused": "PyTorch exports the module, and tiduc refuses it with a reason",
    "rejected": "IREE rejects the program of the gradient",
    "wrong": "a value or a gradient differs from PyTorch's, in f32 and in f64",
    "crash": "the process died, or raised an exception other than a `TiducError`",
    "hang": "no result within the limit of time",
    "not exported": "PyTorch's `torch.export` fails",
    "not built": "PyTorch cannot run any configuration that the catalog knows",
    "too large": "PyTorch needs more memory than the worker process may take",
}
SIZES = {"published": ["published", "reduced"], "reduced": ["reduced"]}
LEFT_OUT = "left out"
ERRORS = ("error", "torch_error", "wide_error")
JOURNAL = ZOO / "architectures.jsonl"
MEBIBYTES = 11000
Record = dict[str, Any]


# ---- the worker ---------------------------------------------------------------------------------------------


def record(*request: Any) -> Record:
    """Returns the record of an architecture, from `against_torch.record`.

    It is imported here, so that a worker imports PyTorch only after it has limited its memory.
    """
    from against_torch import record

    return record(*request)


# ---- the run ------------------------------------------------------------------------------------------------


def known(journal: Path) -> dict[str, Record]:
    """Maps the title of each architecture in a journal to its last record."""
    lines = journal.read_text().splitlines() if journal.exists() else []
    return {each["title"]: each for each in map(json.loads, lines)}


def keep(journal: Path, record: Record) -> None:
    """Adds a record to the journal file, and keeps records that other processes have added meanwhile."""
    records = known(journal) | {record["title"]: record}
    text = "".join(f"{json.dumps(records[title])}\n" for title in sorted(records))
    beside = journal.with_name(f"{journal.name}.{os.getpid()}")
    beside.write_text(text)
    beside.replace(journal)


def dead(outcome: str, errors: str) -> Record:
    """Returns the record of an architecture whose worker died or was killed.

    `errors` is the end of the worker's text on stderr.
    """
    if outcome == "crash" and is_out_of_memory(errors):
        return {"outcome": "too large", "why": errors}
    return {"outcome": outcome, "why": errors if outcome == "crash" else ""}


def is_open(found: Record | None, engine: str, again: Sequence[str]) -> bool:
    if found is None or found["outcome"] in again:
        return True
    return engine != "none" and found["outcome"] == "differentiated"


def run(titles: Sequence[str], given: argparse.Namespace) -> dict[str, Record]:
    """Runs the architectures that are not in the journal, adds their records, and returns all records.

    No architecture is started after the time limit.
    """
    end = time.monotonic() + given.seconds
    worker = Worker([sys.executable, __file__, "--worker"])
    for title in titles:
        began = time.monotonic()
        if began > end:
            break
        if not is_open(known(given.journal).get(title), given.engine, given.again):
            continue
        answer = worker.asked([title, given.engine, SIZES[given.size], given.shapes], given.limit)
        record = dead(answer, worker.errors) if isinstance(answer, str) else answer
        if record["outcome"] != LEFT_OUT:
            seconds = round(time.monotonic() - began)
            keep(given.journal, {"title": title, **record, "seconds": seconds, "day": f"{date.today()}"})
            print(f"{record['outcome']:14} {title} {described(record)} {seconds} s", flush=True)
    worker.close()
    found = known(given.journal)
    return {title: found[title] for title in titles if title in found}


def described(record: Mapping[str, Any]) -> str:
    words = [record.get("size", ""), *(f"{record[name]:.0e}" for name in ERRORS if name in record)]
    return " ".join([*words, record.get("why", "")[:300]])


def titles_of(given: argparse.Namespace) -> list[str]:
    """Returns the titles of the architectures that the options select. With a seed, they are shuffled."""
    from catalog import architectures, draw

    every = architectures()
    chosen = every if given.seed is None else draw(given.seed, len(every), every)
    titles = [each.title for each in chosen if re.search(given.only, each.title)]
    return titles[: given.count or None]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("journal", type=Path, nargs="?", default=JOURNAL)
    parser.add_argument("--seed", type=int, help="shuffles the architectures")
    parser.add_argument("--count", type=int, default=0, help="how many architectures; default: all")
    parser.add_argument(
        "--only", default="", help="only architectures whose titles match this regular expression"
    )
    parser.add_argument(
        "--size",
        choices=SIZES,
        default="published",
        help="published: the published size, or a reduced size where the catalog knows none",
    )
    parser.add_argument(
        "--shapes", type=int, default=0, help="skip modules whose weights have more shapes than this"
    )
    parser.add_argument("--engine", choices=("iree", "none"), default="iree")
    parser.add_argument("--again", action="append", default=[], help="rerun architectures with this outcome")
    parser.add_argument("--limit", type=float, default=900, help="time limit of an architecture in seconds")
    parser.add_argument("--seconds", type=float, default=1e9, help="start no architecture after this time")
    parser.add_argument(
        "--page", action="store_true", help="write the tables of docs/zoo.md from the journal"
    )
    given = parser.parse_args()
    if given.page:
        from architecture_page import write

        write(known(given.journal))
        return 0
    found = run(titles_of(given), given)
    counts = Counter(record["outcome"] for record in found.values())
    print(summary(counts))
    return int(total(counts, WRONG) > 0)


if __name__ == "__main__":
    if sys.argv[1:] == ["--worker"]:
        answer_about_architectures(record, MEBIBYTES)
    else:
        sys.exit(main())
