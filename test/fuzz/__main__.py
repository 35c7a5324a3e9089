"""Fuzzes tiduc: runs random operations, from Python and from the command line, on random and on damaged inputs.

    python test/fuzz [--kinds programs,text,...] [--count N] [--seconds S] [--seed N] [--workers N] [--keep FOLDER]
    python test/fuzz --kinds text --seed 0 --only 17 [--minimise]

Each input is determined by a kind, a seed and a number. The run of an operation on an input is a finding if

- it raises an exception other than a `TiducError`, a signal ends it, it hangs, or it uses too much memory;
- it does something that is not its task, such as opening another file;
- its result is invalid IR;
- it fails without an error message, or with an error about the input that has no location.

Findings with equal signatures are counted together. The first of them is printed, and its files are written to FOLDER.
The exit status is 1 if there are findings. docs/testing.md lists the kinds of inputs.
"""

import signal
import sys
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1]), *(str(HERE.parent / name) for name in ("py", "sweep", "fuzz"))]

import click  # noqa: E402
from counts import summary  # noqa: E402
from kinds import KINDS, SHARES  # noqa: E402
from minimise import minimised  # noqa: E402
from outcomes import CATEGORIES, table  # noqa: E402
from runs import Run, requests  # noqa: E402


def _kinds(context: click.Context, parameter: click.Parameter, value: str) -> list[str]:
    names = value.split(",")
    if unknown := [name for name in names if name not in KINDS]:
        raise click.BadParameter(f"no kind {unknown[0]!r}; there are {', '.join(KINDS)}")
    return names


@click.command(help=__doc__.partition("\n")[0])
@click.option("--kinds", default=",".join(KINDS), callback=_kinds, show_default=True, help="Kinds of inputs.")
@click.option("--count", default=1000, show_default=True, help="Number of inputs.")
@click.option(
    "--seconds", default=0.0, help="Stop after this time, even if inputs are left; 0 means no limit."
)
@click.option("--seed", default=0, show_default=True)
@click.option("--first", default=0, show_default=True, help="The number of the first input of each kind.")
@click.option("--only", type=int, help="Run the input with this number alone.")
@click.option("--workers", default=1, show_default=True, help="Number of processes that run operations.")
@click.option("--keep", type=click.Path(path_type=Path), help="Write the inputs of findings to this folder.")
@click.option("--minimise", is_flag=True, help="Shrink the file of each finding, and show it.")
def main(
    kinds: list[str],
    count: int,
    seconds: float,
    seed: int,
    first: int,
    only: int | None,
    workers: int,
    keep: Path | None,
    minimise: bool,
) -> None:
    if only is None:
        asked = list(requests({kind: SHARES[kind] for kind in kinds}, count, seed, first))
    else:
        asked = [(kind, seed, only) for kind in kinds]
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    run = Run(asked, workers, seconds, keep)
    run.run()
    print(table(run.counts, run.inputs))
    for finding in sorted(
        run.findings.values(), key=lambda finding: CATEGORIES.index(finding.outcome.category)
    ):
        print(
            f"\n{finding.count} x {finding.outcome.category}: {finding.where}\n{finding.outcome.detail[:1500]}"
        )
        if minimise:
            print(minimised(finding.request, finding.at, finding.outcome.signature).decode(errors="replace"))
    print(summary(sum(run.counts.values(), Counter())))
    sys.exit(bool(run.findings))


if __name__ == "__main__":
    main()
