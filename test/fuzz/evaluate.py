"""Checks derivatives of random programs, of orders one to three, on XLA, IREE or the reference interpreter.

    python test/fuzz/evaluate.py [--count N] [--seed S] [--engine xla|iree|reference] [--orders 1|1,2|1,2,3]
        [--batch K] [--journal FILE]
    python test/fuzz/evaluate.py --seed S --show
    python test/fuzz/evaluate.py --seed S --reduce SECONDS

Worker processes draw the programs with the seeds S to S + N - 1 (`programs.py`) and check them (`comparison.py`). The
engine compiles K programs as one module. Verdicts are written to the journal, and programs in it are not checked again.
With `--show`, a program and its derivatives are printed. With `--reduce`, a program is reduced to a smaller program
with the same category. Order three means derivatives of order two of the program's JVP or VJP. The categories:

    ok              the derivatives pass all checks
    not comparable  the function is not smooth or not finite at the point
    refused         tiduc raises an error during differentiation or compilation
    rejected        the compiler of the engine rejects the program or crashes
    wrong           a value differs
    crash           the process dies, or raises another exception
    hang            there is no verdict within the time limit
"""

import argparse
import json
import os
import sys
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

for folder in ("py", "sweep", "fuzz"):
    sys.path.insert(0, str(Path(__file__).parents[1] / folder))

from counts import summary  # noqa: E402
from xla_flags import XLA_FLAGS  # noqa: E402

os.environ.setdefault("XLA_FLAGS", XLA_FLAGS)

from comparison import Case, Verdict, case_of, each_text, verdict  # noqa: E402
from engines import COMPILERS  # noqa: E402
from programs import program  # noqa: E402
from workers import forked  # noqa: E402

from tiduc.dialect.errors import CompileError, TiducError  # noqa: E402

CATEGORIES = ("ok", "not comparable", "refused", "rejected", "wrong", "crash", "hang")
ORDERS = ("1", "1,2", "1,2,3")
BATCH = {"xla": 8, "iree": 8, "reference": 1}
SECONDS = 120.0  # the time limit of a program
MEBIBYTES = 6000  # the memory limit of a worker


def evaluated(cases: Sequence[Case], engine: str) -> list[Verdict]:
    """Returns the verdicts on cases, which the engine compiles together."""
    texts = [text for case in cases for text in case.texts]
    first = [x for case in cases for x in case.arguments(0)]
    call = COMPILERS[engine](texts, first)
    outcomes: list[list[list[Any]]] = [[] for _ in cases]
    for n in range(len(cases[0].distances)):
        results = iter(call([x for case in cases for x in case.arguments(case.distances[n])]))
        for case, each in zip(cases, outcomes, strict=True):
            each.append([next(results) for _ in case.texts])
    return [verdict(case, each) for case, each in zip(cases, outcomes, strict=True)]


def attempted(texts: Sequence[tuple[int, str]], engine: str, order: int) -> list[Verdict]:
    """Returns the verdicts on programs. `texts` are pairs of a seed and a program.

    If the programs fail together, each is checked separately.
    """
    verdicts: list[Verdict | None] = []
    cases: list[Case] = []
    for seed, text in texts:
        try:
            cases.append(case_of(text, seed, order))
            verdicts.append(None)
        except TiducError as error:
            verdicts.append(("refused", _line(error)))
        except Exception:
            verdicts.append(("crash", traceback.format_exc()))
    try:
        rest = iter(evaluated(cases, engine) if cases else [])
        return [known or next(rest) for known in verdicts]
    except Exception as error:
        if len(texts) > 1:
            return [attempted([each], engine, order)[0] for each in texts]
        compiler = isinstance(error, CompileError) or type(error).__name__ == "JaxRuntimeError"
        if isinstance(error, TiducError) and not compiler:
            return [("refused", _line(error))]
        return [("rejected", _line(error))] if compiler else [("crash", traceback.format_exc())]


def _line(error: Exception) -> str:
    return str(error).split("error: ", 1)[-1].split("\n")[0]


def sweep(
    seeds: Sequence[int], engine: str, order: int = 2, batch: int | None = None
) -> Iterator[tuple[int, Verdict]]:
    """Yields each seed and the verdict on its program.

    If a group of programs ends a worker, each program of the group is checked separately.
    """
    size = batch or BATCH[engine]
    groups = [tuple(seeds[i : i + size]) for i in range(0, len(seeds), size)]

    def work(group: Sequence[int]) -> list[Verdict]:
        return attempted([(seed, program(seed)) for seed in group], engine, order)

    for group, answer in forked(work, groups, SECONDS * (1 + size / 4), MEBIBYTES):
        if not isinstance(answer, EOFError | TimeoutError):
            yield from zip(group, answer, strict=True)
        elif len(group) > 1:
            yield from sweep(group, engine, order, 1)
        else:
            yield group[0], ("hang" if isinstance(answer, TimeoutError) else "crash", str(answer))


def reduced(seed: int, engine: str, order: int, seconds: float) -> str:
    """Returns a smaller program whose verdict has the category of the program of a seed."""
    from loop_reducer import reduced as smaller

    def judged(text: str) -> str:
        ((_, answer),) = forked(lambda _: attempted([(seed, text)], engine, order), [0], SECONDS, MEBIBYTES)
        return str(answer[0][0]) if isinstance(answer, list) else type(answer).__name__

    category = judged(program(seed))
    return smaller(program(seed), lambda text: judged(text) == category, seconds)


def table(verdicts: Sequence[Verdict]) -> str:
    """Returns the number of programs in each category, and then the reasons for refusals and rejections."""
    counts = Counter(category for category, _ in verdicts)
    lines = [f"{name:16}{counts[name]:>7}" for name in CATEGORIES] + [f"{'all':16}{len(verdicts):>7}"]
    for (category, detail), count in Counter(v for v in verdicts if v[0] in ("refused", "rejected")).items():
        lines.append(f"{category} {count}: {detail}")
    return "\n".join(lines)


def known(journal: Path | None) -> dict[int, Verdict]:
    """Maps each seed in a journal to the last verdict on it."""
    if journal is None or not journal.exists():
        return {}
    rows = map(json.loads, journal.read_text().splitlines())
    return {int(seed): (category, detail) for seed, category, detail in rows}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--count", type=int, default=100, help="number of programs")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first program")
    parser.add_argument("--engine", choices=COMPILERS, default="xla", help="engine that runs the programs")
    parser.add_argument("--orders", choices=ORDERS, default="1,2", help="orders of the derivatives")
    parser.add_argument("--batch", type=int, help="number of programs in one module")
    parser.add_argument("--journal", type=Path, help="file for verdicts, one per line")
    parser.add_argument("--show", action="store_true", help="print the program of the seed")
    parser.add_argument(
        "--reduce", type=float, metavar="SECONDS", help="shrink the program of the seed for at most this time"
    )
    options = parser.parse_args()
    order = ORDERS.index(options.orders) + 1
    if options.show:
        print(program(options.seed))
        for name, text in list(each_text(case_of(program(options.seed), options.seed, order)))[1:]:
            print(f"// {name}\n{text}")
        return 0
    if options.reduce:
        print(reduced(options.seed, options.engine, order, options.reduce))
        return 0
    before = known(options.journal)
    seeds = range(options.seed, options.seed + options.count)
    verdicts = {seed: before[seed] for seed in seeds if seed in before}
    left = [seed for seed in seeds if seed not in before]
    with open(options.journal or "/dev/null", "a") as journal:
        for seed, (category, detail) in sweep(left, options.engine, order, options.batch):
            verdicts[seed] = category, detail
            print(json.dumps([seed, category, detail]), file=journal, flush=True)
            if category in ("wrong", "crash", "hang"):
                print(f"{category} {seed}: {detail}", flush=True)
    print(table(list(verdicts.values())))
    print(summary(Counter(category for category, _ in verdicts.values())))
    return int(any(category in ("wrong", "crash", "hang") for category, _ in verdicts.values()))


if __name__ == "__main__":
    sys.exit(main())
