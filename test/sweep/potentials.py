"""Compares energies, forces and second derivatives of packages of interatomic potentials with the packages' own.

    python test/sweep/potentials.py JOURNAL [--only TEXT] [--engines xla,iree] [--dtypes f64,f32] [--page]

The reference is the package's own autograd, by PyTorch or JAX, in f64. For each model of `potential_cases.py` and
`potential_jax_cases.py`, and for each dtype, a worker compares:

- the energy, forces and virial: a VJP toward positions and strain
- the product of a vector and the Hessian toward positions and strain
- the gradient of a loss of energy, forces and virial toward all weights, as for training: a VJP of the VJP

A program of a PyTorch model has dynamic numbers of atoms and edges if PyTorch's export allows that; it runs at a size
other than that of the export. The journal has a line of JSON for each model, dtype and engine. A later run continues
the journal.

    --page            write the table of docs/potentials.md from the journal
"""

import argparse
import json
import os
import re
import resource
import sys
import time
import warnings
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

from counts import WRONG, summary, total  # noqa: E402
from worker import Worker, answer_requests  # noqa: E402

MEBIBYTES = 11000
DTYPES, ENGINES = ("f64", "f32"), ("xla", "iree", "reference")
COLUMNS = "energy", "forces", "virial", "Hessian product", "training"
PAGE = Path(__file__).parents[2] / "docs" / "potentials.md"
TABLE = re.compile(r"(<!-- table of test/sweep/potentials.py -->\n).*?(<!-- end -->)", re.DOTALL)
Record = dict[str, Any]


def answer(request: Any) -> Record:
    """The record of a model. A worker imports the frameworks after it has limited its memory."""
    title, dtype, engine = request
    if title.startswith("jax-md"):
        from potential_jax_run import record
    else:
        from potential_run import record
    return record(title, dtype, engine)


def titles() -> list[str]:
    """The models of all packages, installed or not."""
    from potential_cases import CASES
    from potential_jax_cases import JAX_CASES

    return [case.title for case in (*CASES, *JAX_CASES)]


def known(journal: Path) -> dict[str, Record]:
    """The last record of each model, dtype and engine."""
    lines = journal.read_text().splitlines() if journal.exists() else []
    return {f"{each['title']} {each['dtype']} {each['engine']}": each for each in map(json.loads, lines)}


def run(given: argparse.Namespace) -> list[Record]:
    """Records the models that the journal lacks."""
    found = []
    worker = Worker([sys.executable, __file__, "--worker"])
    for title, dtype, engine in product(titles(), given.dtypes.split(","), given.engines.split(",")):
        if not re.search(given.only, title):
            continue
        before = known(given.journal).get(f"{title} {dtype} {engine}")
        if before is not None:
            found.append(before)
            continue
        began = time.monotonic()
        got = worker.asked([title, dtype, engine], given.limit)
        record = {"outcome": got, "why": f"limit: {given.limit} s"} if isinstance(got, str) else got
        seconds = round(time.monotonic() - began)
        record = {"title": title, "dtype": dtype, "engine": engine, **record, "seconds": seconds}
        with given.journal.open("a") as file:
            file.write(f"{json.dumps(record)}\n")
        print(f"{record['outcome']:12} {title} {dtype} {engine} {described(record)} {seconds} s", flush=True)
        found.append(record)
    worker.close()
    return found


def described(record: Record) -> str:
    errors = (f"{name} {error:.0e}" for name, error in record.get("errors", {}).items())
    return "; ".join([*errors, *([record["why"][:300]] if record["why"] else [])])


def write_page(records: dict[str, Record]) -> None:
    """Replaces the table of docs/potentials.md."""
    head = "package", "model", "sizes", "dtype", "engine", *COLUMNS
    lines, reasons = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"], []
    for title, dtype, engine in product(titles(), DTYPES, ENGINES):
        record = records.get(f"{title} {dtype} {engine}")
        if record is None:
            continue
        if record["outcome"] != "ok":
            why = re.sub(r"/\S*/site-packages/", "", record["why"])  # folders differ between machines
            reasons.append(f"- {title}, {dtype}, {engine}: {record['outcome']}. {why}")
        errors = record.get("errors", {})
        if not errors:
            continue
        package, _, model = title.partition(": ")
        sizes = "dynamic" if record.get("dynamic") else "static"
        cells = [f"{errors[name]:.0e}" if name in errors else "" for name in COLUMNS]
        lines.append(f"| {' | '.join([package, model, sizes, dtype, engine, *cells])} |")
    text = "\n".join([*lines, *(["", *reasons] if reasons else [])])
    PAGE.write_text(TABLE.sub(lambda at: f"{at[1]}\n{text}\n\n{at[2]}", PAGE.read_text()))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("journal", type=Path)
    parser.add_argument("--only", default="", help="only models whose titles match this regular expression")
    parser.add_argument("--engines", default="xla,iree")
    parser.add_argument("--dtypes", default="f64,f32")
    parser.add_argument("--limit", type=float, default=3600, help="time limit of a model in seconds")
    parser.add_argument("--page", action="store_true", help="write the table from the journal")
    given = parser.parse_args()
    if given.page:
        write_page(known(given.journal))
        return 0
    counts = Counter(record["outcome"] for record in run(given))
    print(summary(counts))
    return int(total(counts, WRONG) > 0)


if __name__ == "__main__":
    if sys.argv[1:] == ["--worker"]:
        resource.setrlimit(resource.RLIMIT_DATA, (MEBIBYTES * 2**20,) * 2)
        warnings.simplefilter("ignore")
        answer_requests(answer)
    else:
        sys.exit(main())
