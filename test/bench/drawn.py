"""Times gradients of randomly drawn architectures: python test/bench/drawn.py [--help]

The seed, by default the date, determines the architectures, so that kernels cannot be tuned for this benchmark. It
draws architectures of transformers, timm, torchvision and diffusers (`test/zoo/catalog.py`) with their published widths
and numbers of layers. The seed also determines the height and width of images and the length of texts. The gradient of
a scalar with respect to all weights, in f32 and on one thread, is measured as in `real_sizes.py`. Each architecture
runs in a separate process. The journal has a line for each architecture of all runs. With --write, a table of the
journal is written to docs/benchmarks.md.
"""

import argparse
import json
import math
import os
import re
import statistics
import sys
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from random import Random
from typing import Any

for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
HERE = Path(__file__).resolve().parent
sys.path += [str(HERE.parent / name) for name in ("sweep", "zoo")]

from worker import Worker, answer_about_architectures  # noqa: E402

BEGIN, END = "<!-- drawn.py -->", "<!-- end of drawn.py -->"
JOURNAL = HERE / "drawn.jsonl"
MEBIBYTES = 11000
SIDES, LENGTHS = (96, 288), (16, 256)
TIDUC, OTHERS = "tiduc compile", ("PyTorch", "torch.compile", "XLA")
Record = dict[str, Any]


# ---- in the worker --------------------------------------------------------------------------------------------


def record(architecture: Any, side: int, length: int, seconds: float, without: Sequence[str]) -> Record:
    """Measures an architecture. Returns its figures, or the error message if it fails."""
    from entries import Loss
    from real_sizes import IREE, compared
    from shrinking import Size

    try:
        module, inputs = architecture.build(Size(0, 0, side, length, published=True))
        row = compared(Loss(module), inputs, 1, seconds, (*without, IREE))
    except Exception as error:  # packages raise exceptions of many types
        message = " ".join(str(error).split()).replace(sys.executable, "python")
        message = re.sub(r"\S*/site-packages/", "", message)
        return {"failed": f"{type(error).__name__}: {message[:200]}"}
    figures = {"times": row.times, "memory": row.memory, "seconds": row.seconds}
    rounded = {kind: {way: float(f"{x:.3g}") for way, x in of.items()} for kind, of in figures.items()}
    return {**rounded, "error": float(f"{row.error:.1e}")}


# ---- the run --------------------------------------------------------------------------------------------------


def run(given: argparse.Namespace) -> None:
    """Measures drawn architectures until `count` of them have figures, and appends all records to the journal."""
    from catalog import architectures, draw

    every = [each for each in architectures() if not each.training]  # dropout masks differ
    random, measured = Random(given.seed), 0
    known = {(each["seed"], each["title"]) for each in records(given.journal)}
    for architecture in draw(given.seed, len(every), every):
        side, length = (
            round(math.exp(random.uniform(*map(math.log, ends)))) // 16 * 16 for ends in (SIDES, LENGTHS)
        )
        if measured == given.count:
            return
        if (given.seed, architecture.title) in known:
            measured += 1
            continue
        worker = Worker([sys.executable, __file__, "--worker"])
        answer = worker.asked([architecture.title, side, length, given.seconds, given.without], given.limit)
        worker.close()
        found = answer if isinstance(answer, dict) else {"failed": answer}
        measured += "times" in found
        line = {"seed": given.seed, "title": architecture.title, "side": side, "length": length, **found}
        with given.journal.open("a") as journal:
            journal.write(json.dumps(line) + "\n")
        print(json.dumps(line), flush=True)


def records(journal: Path) -> list[Record]:
    """Reads all records of a journal, in order."""
    return [json.loads(line) for line in journal.read_text().splitlines()] if journal.exists() else []


def ratios(rows: Sequence[Record], kind: str, way: str) -> list[float]:
    """Returns, for each row, tiduc's figure divided by the figure of another way.

    Leaves out rows without one of these figures.
    """
    return [row[kind][TIDUC] / row[kind][way] for row in rows if way in row[kind] and row[kind][way] > 0]


def report(found: Sequence[Record]) -> Iterator[str]:
    """Yields the lines of the report in Markdown: a table of all runs, and a table of the networks of the last run."""
    heads = "time / PyTorch", "above 1.0", "largest", "/ torch.compile", "/ XLA", "memory / PyTorch"
    yield f"\n| seed | networks | {' | '.join(heads)} | to compile / XLA | largest error |"
    yield "|---|" + "---:|" * 9
    measured = [row for row in found if "times" in row]
    for seed in dict.fromkeys(row["seed"] for row in measured):
        rows = [row for row in measured if row["seed"] == seed]
        of_torch = ratios(rows, "times", "PyTorch")
        means = [mean(ratios(rows, "times", way)) for way in OTHERS]
        means += [mean(ratios(rows, "memory", "PyTorch")), mean(ratios(rows, "seconds", "XLA"))]
        cells = [len(rows), means[0], sum(r > 1 for r in of_torch), f"{max(of_torch):.2f}", *means[1:]]
        yield f"| {seed} | {' | '.join(map(str, cells))} | {max(row['error'] for row in rows):.0e} |"
    if not measured:
        return
    yield f"\nThe networks of seed {measured[-1]['seed']}:\n"
    heads = "ms", "/ PyTorch", "/ torch.compile", "/ XLA", "memory / PyTorch", "s to compile", "/ XLA"
    yield f"| network | side, length | {' | '.join(heads)} | error |"
    yield "|---|---|" + "---:|" * 8
    for row in (row for row in measured if row["seed"] == measured[-1]["seed"]):
        cells = [f"{row['times'][TIDUC]:.3g}", *(mean(ratios([row], "times", way)) for way in OTHERS)]
        cells += [mean(ratios([row], "memory", "PyTorch")), f"{row['seconds'][TIDUC]:.0f}"]
        cells += [mean(ratios([row], "seconds", "XLA"))]
        yield f"| {row['title']} | {row['side']}, {row['length']} | {' | '.join(cells)} | {row['error']:.0e} |"


def mean(values: Sequence[float]) -> str:
    """Returns the geometric mean with two digits. Returns a dash if there are no values."""
    return f"{statistics.geometric_mean(values):.2f}" if values else "-"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("journal", type=Path, nargs="?", default=JOURNAL)
    parser.add_argument("--seed", type=int, default=int(f"{date.today():%Y%m%d}"))
    parser.add_argument("--count", type=int, default=20, help="number of networks that have figures")
    parser.add_argument("--seconds", type=float, default=10.0, help="seconds of calls of each network")
    parser.add_argument("--limit", type=float, default=1800, help="time limit of a network in seconds")
    parser.add_argument("--without", nargs="+", choices=OTHERS[1:], default=(), metavar="WAY")
    parser.add_argument(
        "--write", action="store_true", help="measure nothing; write the table to docs/benchmarks.md"
    )
    given = parser.parse_args()
    if not given.write:
        run(given)
    found = records(given.journal)
    text = "\n".join(report(found))
    print(text)
    if given.write:
        page = HERE.parents[1] / "docs" / "benchmarks.md"
        before, _, rest = page.read_text().partition(BEGIN)
        page.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    if sys.argv[1:] == ["--worker"]:
        answer_about_architectures(record, MEBIBYTES)
    else:
        main()
