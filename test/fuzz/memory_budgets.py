"""Compares derivatives of random programs that are rematerialized for memory budgets with those without a budget.

    PYTHONPATH=test/py:test/fuzz python test/fuzz/memory_budgets.py --count 300 [--first 0]

For each seed, the VJP of a random program and the VJP of its VJP are evaluated without a budget and for four budgets:

- the lowest feasible budget;
- two random fractions of the memory peak, or the least feasible budget if a fraction is infeasible;
- the memory peak, where all cheap values are recomputed, regardless of their size and gain.

StableHLO's reference interpreter evaluates the programs, or XLA if the interpreter cannot run an op. Since the
interpreter runs op by op, the values of programs without loops should be equal bit for bit. Equal values and close
values are counted separately. Neither is an error.
"""

import argparse
import math
import re
from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
from comparison import point_of
from composer import composed
from counts import summary
from families import FAMILIES
from harness.check_rule import like, run
from numpy.typing import NDArray

from tiduc.dialect.errors import CompileError, RequestError
from tiduc.loading import load
from tiduc.passes.rematerialize import cheap
from tiduc.program import Program

_LEAST = re.compile(r"the least budget that it fits is (\S+)")


def within(program: Program, random: Random) -> dict[str, Program]:
    """Maps a description of each of the four budgets to the program that is rematerialized for it."""
    found = {}
    for budget in ("min", f"{random.uniform(0.3, 1):.3f}x", f"{random.uniform(0.3, 0.9):.3f}x"):
        fitted = program.rematerialize(budget)
        try:
            _ = fitted.module
        except RequestError as error:
            named = _LEAST.search(error.message)
            if named is None:
                raise
            fitted = program.rematerialize(named[1])
        found[fitted.text] = fitted
    with patch.multiple(cheap, SMALL=0, _GAIN=math.inf, _SHARE=math.inf):
        recomputed = program.rematerialize("1x")
        found[recomputed.text] = recomputed
    return found


def verdict(actual: Sequence[NDArray[Any]], wanted: Sequence[NDArray[Any]]) -> str:
    """Compares results. Returns "equal" (bit for bit), "close" (up to rounding), or "wrong"."""
    pairs = list(zip(actual, wanted, strict=True))
    if all(np.array_equal(x, y, equal_nan=x.dtype.kind in "fc") for x, y in pairs):
        return "equal"
    scale = max(float(np.max(np.abs(y), initial=1e-300, where=np.isfinite(y))) for y in wanted)
    near = (np.allclose(x, y, 1e-10, 1e-11 * scale, equal_nan=True) for x, y in pairs)
    return "close" if all(near) else "wrong"


def evaluated(program: Program, point: list[NDArray[Any]]) -> Sequence[NDArray[Any]] | None:
    """Returns the results of a program. Returns None if the engine cannot compile it."""
    try:
        return run(program, point)
    except (CompileError, RuntimeError):  # XLA raises RuntimeError
        return None


def check(seed: int, counts: Counter[str]) -> None:
    random, rng = Random(seed), np.random.default_rng(seed)
    program = load(composed(random, FAMILIES))
    point = list(point_of(program, rng))
    for order in (1, 2):
        program = program.vjp()
        point += [like(np.zeros(port.type.shape, _dtype(port)), rng) for port in program.inputs[len(point) :]]
        fitted = within(program, random)
        counts[f"order {order}: unchanged"] += fitted.pop(program.text, None) is not None
        wanted = evaluated(program, point) if fitted else ()
        if wanted is None:
            counts[f"order {order}: no engine runs it"] += 1
            continue
        for one in fitted.values():
            actual = evaluated(one, point)
            said = "wrong" if actual is None else verdict(actual, wanted)
            counts[f"order {order}: {said}"] += 1
            if said == "wrong":
                print(f"seed {seed}, order {order}, memory {one.memory}: wrong", flush=True)


def _dtype(port: Any) -> str:
    return "complex128" if "complex" in str(port.type) else "float64"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    for seed in range(options.first, options.first + options.count):
        if seed > options.first and seed % 50 == 0:
            print(seed, dict(counts), flush=True)
        try:
            check(seed, counts)
            counts["programs"] += 1
        except RequestError as error:
            counts[f"refused: {error.message[:60]}"] += 1
    judged: Counter[str] = Counter()
    for name, count in sorted(counts.items()):
        judged[name.partition(": ")[0 if name.startswith("refused") else 2] or name] += count
        print(f"{name:40} {count}")
    print(summary(judged))
    raise SystemExit(any("wrong" in name for name in counts))


if __name__ == "__main__":
    main()
