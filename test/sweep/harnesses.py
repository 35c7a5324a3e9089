"""Compares tiduc's derivatives with JAX's derivatives, for the test cases (harnesses) of primitives in JAX's package.

    python test/sweep/harnesses.py [--filter NAME] [--sample N] [--order N] [--json OUT]

JAX exports each harness to StableHLO. tiduc derives the JVP and the VJP of the program, XLA runs them, and the results
are compared with `jax.jvp` and `jax.vjp` for random tangents and cotangents. Derivatives that JAX does not have are
checked by central differences and the adjoint identity. In bf16 and f16, tiduc's errors may be at most about twice as
large as JAX's. Harnesses run in a worker process, which is replaced if it dies or exceeds the time limit. With
`--sample N`, N harnesses of each primitive and element type run. With `--order 2`, the JVP and the VJP of the VJP are
checked. The categories:

    ok          both derivatives agree
    expected    a derivative differs, and EXPECTED or SINGULAR has the reason
    wrong       a derivative differs for an unknown reason
    refused     tiduc raises a `TiducError`
    crash       another exception is raised, or the worker dies
    undecided   JAX has no derivative, and finite differences are inconclusive
    n/a         the function has no float input or no float output, or JAX does not run it on the CPU
"""

import argparse
import json
import os
import re
import select
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from typing import Any

import numpy as np
from counts import summary
from harness_outcome import Outcome, check
from xla_flags import XLA_FLAGS

CATEGORIES = ("ok", "expected", "wrong", "refused", "crash", "undecided", "n/a")
SECONDS = 90  # the time limit of a harness
LIFE = 250  # the number of harnesses that one worker runs


@cache
def harnesses() -> dict[str, Any]:
    """Maps names to harnesses, in the order of JAX."""
    import jax

    jax.config.update("jax_enable_x64", True)
    from jax._src.internal_test_util.test_harnesses import all_harnesses

    return {harness.fullname: harness for harness in all_harnesses}


def selected(pattern: str = "", sample: int | None = None) -> list[str]:
    """Returns the names of the harnesses that match a pattern.

    With `sample`, at most this number of names for each primitive and element type, evenly spaced.
    """
    groups: dict[Any, list[str]] = {}
    for name, harness in harnesses().items():
        if re.search(pattern, name):
            groups.setdefault((harness.group_name, np.dtype(harness.dtype).name), []).append(name)
    names = []
    for group in groups.values():
        count = len(group) if sample is None else min(sample, len(group))
        names += [group[i * len(group) // count] for i in range(count)]
    return names


def work(order: int) -> None:
    """The main function of a worker: reads a line for each harness, its name, and writes a line for its outcome."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # libraries that print to stdout now print to stderr
    for line in sys.stdin:
        print(json.dumps(asdict(check(harnesses()[line.strip()], order))), file=out, flush=True)


def sweep(names: Sequence[str], seconds: float = SECONDS, order: int = 1) -> Iterator[Outcome]:
    """Checks harnesses in worker processes, one after another, and yields their outcomes."""
    worker: Any = None
    for i, name in enumerate(names):
        if worker is None or i % LIFE == 0:
            stop(worker)
            worker = start(order)
        with suppress(BrokenPipeError):
            worker.stdin.write(name + "\n")
            worker.stdin.flush()
        ready, _, _ = select.select([worker.stdout], [], [], seconds)
        line = worker.stdout.readline() if ready else ""
        if line:
            yield Outcome(**json.loads(line))
            continue
        harness = harnesses()[name]
        stop(worker)
        how = f"the process died: {worker.returncode}" if ready else f"more than {seconds} s"
        yield Outcome(name, harness.group_name, np.dtype(harness.dtype).name, "crash", how)
        worker = None
    stop(worker)


def start(order: int) -> Any:
    """Starts a worker process, with flags that reduce XLA's compile time."""
    return subprocess.Popen(
        [sys.executable, __file__, "--worker", "--order", str(order)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "XLA_FLAGS": XLA_FLAGS},
    )


def stop(worker: Any) -> None:
    if worker is not None:
        try:
            worker.stdin.close()
            worker.wait(1)
        except (OSError, subprocess.TimeoutExpired):
            worker.kill()
            worker.wait()


def table(outcomes: Iterable[Outcome]) -> str:
    """Returns a table with a row for each primitive and a column for each category."""
    rows: dict[str, Counter[str]] = {}
    for outcome in outcomes:
        rows.setdefault(outcome.group, Counter())[outcome.category] += 1
    rows = dict(sorted(rows.items())) | {"all": sum(rows.values(), Counter())}
    lines = [" ".join([f"{'':28}", *(f"{name:>11}" for name in CATEGORIES)])]
    for group, counts in rows.items():
        lines.append(" ".join([f"{group:28}", *(f"{counts[name] or '':>11}" for name in CATEGORIES)]))
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--filter", default="", help="only harnesses whose names match this pattern")
    parser.add_argument("--sample", type=int, help="this many harnesses for each primitive and element type")
    parser.add_argument("--order", type=int, choices=(1, 2), default=1, help="of the derivatives")
    parser.add_argument("--json", help="file for outcomes, written immediately, one per line")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.order)
        return 0
    outcomes = []
    with open(options.json or os.devnull, "w") as file:
        for outcome in sweep(selected(options.filter, options.sample), order=options.order):
            outcomes.append(outcome)
            print(json.dumps(asdict(outcome)), file=file, flush=True)
            if outcome.category in ("wrong", "crash"):
                print(f"{outcome.category}: {outcome.name}\n    {outcome.detail}", flush=True)
    print(table(outcomes))
    for (reason, of_jax), count in Counter(
        (o.detail, o.jax) for o in outcomes if o.category == "refused"
    ).items():
        print(f"refused {count}: {reason}" + f" (JAX has {of_jax})")
    print(summary(Counter(o.category for o in outcomes)))
    return int(any(o.category in ("wrong", "crash") for o in outcomes))


if __name__ == "__main__":
    sys.exit(main())
