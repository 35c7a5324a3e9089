"""Measures the models of the zoo: python test/zoo/run.py [--only TEXT] [--size small|real] [--journal FILE] [--write]

Each model is measured in a forked process (`measure.py`), with limits of time and memory. A journal keeps the
figures, one line of JSON for each model and engine, and later runs skip the models that it has. `--engine none` stops
after the derivative. `--write` writes the table in docs/zoo.md from the journal.
"""

import argparse
import json
import os
import resource
import select
import signal
import sys
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

sys.path.insert(0, str(Path(__file__).parent))
from measure import MARK, report  # noqa: E402

Figures = dict[str, Any]


def measured(name: str, engine: str, seconds: float, mebibytes: int) -> Figures:
    """The figures of a model, from a forked process; "failed" says why no more could be measured."""
    with tempfile.TemporaryFile("w+") as output:
        child = os.fork()
        if not child:
            _run_child(name, engine, mebibytes, output.fileno())
        code = _waited(child, seconds)
        output.seek(0)
        lines = output.read().splitlines()
    figures = [line for line in lines if line.startswith(MARK)] or [MARK + "{}"]
    found: Figures = json.loads(figures[-1].removeprefix(MARK))
    if code:
        last = lines[-1] if lines and not lines[-1].startswith(MARK) else ""
        found["failed"] = f"no result in {seconds} s" if code == -signal.SIGALRM else f"exit {code}: {last}"
    return found


def _run_child(name: str, engine: str, mebibytes: int, output: int) -> NoReturn:
    code = 1
    try:
        resource.setrlimit(resource.RLIMIT_DATA, (mebibytes * 2**20,) * 2)
        os.dup2(output, 1)
        os.dup2(output, 2)
        sys.stdout = sys.stderr = open(output, "w", closefd=False)
        report(name, engine, seconds=2)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


def _waited(child: int, seconds: float) -> int:
    """The exit code of a child, negative for a signal; SIGALRM ends a child that takes longer."""
    handle = os.pidfd_open(child)
    try:
        if not select.select([handle], [], [], seconds)[0]:
            os.kill(child, signal.SIGALRM)
    finally:
        os.close(handle)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def prepare() -> None:
    """Imports a module once, so that forked processes share the packages that an import needs."""
    import torch

    import tiduc

    torch.set_num_threads(1)
    tiduc.from_torch(torch.nn.Linear(2, 2), (torch.zeros(2),))


def known(journal: Path) -> dict[tuple[str, str], Figures]:
    """The last figures of each model and engine in a journal."""
    lines = journal.read_text().splitlines() if journal.exists() else []
    return {(name, engine): found for name, engine, found in map(json.loads, lines)}


def chosen(only: str, size: str | None) -> Iterator[str]:
    from models import ENTRIES

    for entry in ENTRIES:
        if only in entry.name and size in (None, entry.size):
            yield entry.name


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="models whose names have this text")
    parser.add_argument("--size", choices=("small", "real"), help="models of this size")
    parser.add_argument("--engine", choices=("iree", "xla", "none"), default="iree")
    parser.add_argument("--seconds", type=int, default=1800, help="time limit of a model")
    parser.add_argument("--mebibytes", type=int, default=6000, help="memory limit of a model")
    parser.add_argument("--journal", type=Path, default=Path("zoo.jsonl"), help="file of figures")
    parser.add_argument(
        "--again", action="store_true", help="measure models that failed or were refused again"
    )
    parser.add_argument(
        "--write", action="store_true", help="write the table in docs/zoo.md and measure nothing"
    )
    given = parser.parse_args()
    found = known(given.journal)
    if given.write:
        from table import write

        write(found)
        return
    prepare()
    with given.journal.open("a") as journal:
        for name in chosen(given.only, given.size):
            before = found.get((name, given.engine))
            if before is None or (given.again and before.keys() & {"failed", "refused"}):
                figures = measured(name, given.engine, given.seconds, given.mebibytes)
                print(json.dumps([name, given.engine, figures]), file=journal, flush=True)
                print(name, json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
