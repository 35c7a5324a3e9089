"""Runs all sweeps: python test/sweep/run_all.py [--full] [--seed N] [--only NAME,...] [--folder FOLDER] [--jobs N]

Without `--full`, a sample of each sweep runs. The seed of random programs is printed, so that a failure can be
repeated. By default, it is the date, such as 20261128. With `--full`, each sweep runs at its full size. A full run
stores the outcome of each sweep in FOLDER (by default `build/sweeps`), and writes a row of docs/sweeps.md. If it is
interrupted, a later full run of the same commit continues. A sweep is skipped if it needs a package or a folder of
programs that is missing.

The exit status is 1 if a sweep fails: it finds a wrong value, crashes, or ends without printing counts.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import date
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "sweeps.md"
sys.path.insert(0, str(Path(__file__).parent))
from counts import REFUSED, RIGHT, WRONG, counts_in, total  # noqa: E402
from sweeps import SWEEPS, Sweep  # noqa: E402

_ROW = re.compile(r"^\| `([^`]+)` \| .*$", re.MULTILINE)


@dataclass(frozen=True)
class Outcome:
    """The outcome of a sweep: its exit status, the counts that it printed, and its wall time in seconds.

    `lines` are the last lines of its output. If the sweep was skipped, `why` is the reason.
    """

    name: str
    commit: str
    day: str
    seconds: int
    status: int
    counts: dict[str, int]
    lines: tuple[str, ...] = ()
    why: str = ""

    @property
    def failed(self) -> bool:
        """Whether the sweep found a wrong value, crashed, or ended without counts. A skipped sweep has not failed."""
        return not self.why and (self.status != 0 or not self.counts or total(self.counts, WRONG) > 0)


def missing(sweep: Sweep) -> str:
    """Returns the reason why a sweep has to be skipped. Returns "" if it can run."""
    packages = [package for package in sweep.needs if find_spec(package) is None]
    if packages:
        return f"needs {', '.join(packages)}"
    if sweep.folder and not os.environ.get(sweep.folder):
        return f"needs a folder of programs, named by {sweep.folder}"
    return ""


def run(sweep: Sweep, full: bool, seed: int, journal: Path) -> Outcome:
    """Runs a sweep in a separate process and returns the outcome."""
    words = {"seed": str(seed), "journal": str(journal), "folder": os.environ.get(sweep.folder, "")}
    command = [word.format_map(words) for word in (sweep.full if full else sweep.sample)]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(str(ROOT / "test" / each) for each in sweep.paths),
    }
    began = time.monotonic()
    ended = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env=environment,
        text=True,
        errors="replace",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    seconds = round(time.monotonic() - began)
    print(f"== {sweep.name}: {' '.join(command)}\n{ended.stdout}", end="", flush=True)
    lines = tuple(ended.stdout.splitlines()[-40:])
    return Outcome(
        sweep.name, commit(), f"{date.today()}", seconds, ended.returncode, counts_in(ended.stdout), lines
    )


def commit() -> str:
    """Returns the commit that is checked out.

    A plus sign follows if tracked files other than docs/sweeps.md differ from it.
    """
    head = ["git", "rev-parse", "--short=10", "HEAD"]
    changed = [
        "git",
        "status",
        "--porcelain",
        "--untracked-files=no",
        "--",
        ".",
        f":!{PAGE.relative_to(ROOT)}",
    ]
    first, second = (
        subprocess.run(each, cwd=ROOT, capture_output=True, text=True).stdout for each in (head, changed)
    )
    return first.strip() + "+" * bool(second.strip())


def known(file: Path) -> dict[str, Outcome]:
    """Maps the name of each sweep that succeeded or was skipped at this commit to its outcome, from a file."""
    here, rows = commit(), file.read_text().splitlines() if file.exists() else []
    outcomes = [Outcome(**json.loads(row)) for row in rows]
    return {each.name: each for each in outcomes if each.commit == here and not each.failed}


def outcomes(
    sweeps: Sequence[Sweep], full: bool, seed: int, folder: Path, jobs: int = 1
) -> Iterator[Outcome]:
    """Runs sweeps in `jobs` threads, and yields the outcome of each in order.

    A full run does not repeat sweeps whose outcome at this commit is in the folder.
    """
    done = known(folder / "outcomes.jsonl") if full else {}

    def outcome(sweep: Sweep) -> Outcome:
        if sweep.name in done:
            return done[sweep.name]
        if why := missing(sweep):
            return Outcome(sweep.name, commit(), f"{date.today()}", 0, 0, {}, (), why)
        journal = folder / f"{re.sub(r'[/ -]+', '-', sweep.name)}.{commit()}.jsonl"
        found = run(sweep, full, seed, journal)
        if full:
            with open(folder / "outcomes.jsonl", "a") as file:
                print(json.dumps(asdict(found)), file=file, flush=True)
        return found

    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(outcome, sweeps)


def row(outcome: Outcome) -> str:
    """Returns the row of docs/sweeps.md for an outcome."""
    if outcome.why:
        return f"| `{outcome.name}` | {outcome.day} | {outcome.commit} | not run: {outcome.why} | | | | |"
    ok, refused, wrong = (total(outcome.counts, each) for each in (RIGHT, REFUSED, WRONG))
    rest = {name: n for name, n in outcome.counts.items() if n and name not in {*RIGHT, *REFUSED, *WRONG}}
    others = ", ".join(f"{n} {name}" for name, n in rest.items())
    numbers = f"{ok:,} | {refused:,} | {wrong:,} | {others} | {outcome.seconds} s"
    return f"| `{outcome.name}` | {outcome.day} | {outcome.commit} | {numbers} |"


def page(done: Sequence[Outcome], before: str) -> str:
    """Returns the text of docs/sweeps.md with new rows for the outcomes `done`.

    The rows of other sweeps, and the sections after the table, are those of the text `before`.
    """
    table, heading, sections = before.partition("\n## ")
    rows = {match[1]: match[0] for match in _ROW.finditer(table)} | {each.name: row(each) for each in done}
    listed = "\n".join(rows.get(each.name, f"| `{each.name}` | | | not run yet | | | | |") for each in SWEEPS)
    return f"""# Sweeps

`python test/sweep/run_all.py --full` writes this page. Each row is the last full run of one sweep: its day, its commit,
and the number of programs that were right, refused by tiduc or by an engine's compiler, and wrong.
[Testing](testing.md) says how the sweeps are run, and `test/sweep/README.md` what each one compares.

| sweep | day | commit | ok | refused | wrong | others | time |
|---|---|---|---|---|---|---|---|
{listed}
{heading}{sections}"""


def chosen(only: str, full: bool) -> list[Sweep]:
    """Returns the sweeps whose names `only` lists, or all sweeps.

    Sweeps without a sample are included only in a full run.
    """
    names = only.split(",") if only else [sweep.name for sweep in SWEEPS]
    by_name: Mapping[str, Sweep] = {sweep.name: sweep for sweep in SWEEPS}
    unknown = [name for name in names if name not in by_name]
    if unknown:
        sys.exit(f"unknown sweep {unknown[0]!r}; known: {', '.join(by_name)}")
    return [by_name[name] for name in names if full or by_name[name].sample]


def main() -> int:
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--full", action="store_true", help="each sweep at its full size")
    parser.add_argument("--seed", type=int, default=int(f"{date.today():%Y%m%d}"), help="of random programs")
    parser.add_argument("--only", default="", help="names of sweeps, separated by commas")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "sweeps", help="of the outcomes")
    parser.add_argument("--jobs", type=int, default=2, help="the number of sweeps that run at once")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    print(f"seed {options.seed}", flush=True)
    done = []
    for outcome in outcomes(
        chosen(options.only, options.full), options.full, options.seed, options.folder, options.jobs
    ):
        done.append(outcome)
        if options.full and not outcome.why:
            PAGE.write_text(page([outcome], PAGE.read_text()))
    for outcome in done:
        print(row(outcome))
    failed = [outcome.name for outcome in done if outcome.failed]
    for outcome in done:
        if outcome.failed:
            print(f"\n== {outcome.name} failed:", *outcome.lines[-20:], sep="\n")
    if failed:
        print(f"failed: {', '.join(failed)} (seed {options.seed})")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
