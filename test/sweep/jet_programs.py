"""Compares the Taylor coefficients of jets of order 4 with nested JVPs.

    PYTHONPATH=test/py python test/sweep/jet_programs.py [--order 4] [--only TEXT] [--first SEED] [--random COUNT]

The programs are the examples, the programs with control flow of the tests, and random loop programs. The latter are the
smooth programs of `loop_programs.py`, whose loops have up to five iterations. The coefficients are compared along one
random line in all float inputs. XLA runs the examples. The reference interpreter runs the other programs, because XLA
needs minutes to compile some nested JVPs. Each line of the output has a program and its category: `ok`, `refused` if
tiduc refuses the jet or a JVP, or `wrong`. The exit status is 1 if a program is wrong.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import cases.control_flow_calls  # noqa: F401 (its programs join the table)
import numpy as np
from cases.control_flow_programs import LONG, PROGRAMS, UNBOUNDED
from cases.control_flow_texts import TEXTS, UNBOUNDED_TEXTS
from counts import summary
from harness.example_files import EXAMPLES
from harness.exports import exported
from harness.nested_jvps import check_against_nested_jvps
from loop_programs import Program as LoopProgram
from random_arguments import arguments_of

import tiduc
from tiduc.dialect.errors import TiducError

IN_FILES = ("mlp_f64", "convnet_f64", "transformer_f64")
"""The names of the examples, without the suffix `.mlir`."""

Case = tuple[str, str, Sequence[Any]]


def written_cases() -> Iterator[Case]:
    """Yields the name, text and arguments of each program that is not random."""
    for name in IN_FILES:
        program = tiduc.load(EXAMPLES / f"{name}.mlir")
        with np.load(EXAMPLES / f"{name}.npz") as stored:
            yield name, program.text, [stored[f"input.{i}"] for i in range(len(program.inputs))]
    for name, (function, arguments) in (PROGRAMS | UNBOUNDED).items():
        if name not in LONG:
            yield name, exported(function, *arguments), arguments
    for name, (text, arguments) in (TEXTS | UNBOUNDED_TEXTS).items():
        yield name, text, arguments


def random_cases(first: int, count: int) -> Iterator[Case]:
    """Yields random programs with loops, branches and calls, and their arguments."""
    for seed in range(first, first + count):
        text = LoopProgram(seed, smooth=True).text
        yield f"random {seed}", text, arguments_of(tiduc.load(text).signature, "smooth")[-1]


def category(text: str, arguments: Sequence[Any], order: int, compiled: bool = False) -> tuple[str, str]:
    """Returns the category of a program, and the reason if the category is not `ok`."""
    try:
        check_against_nested_jvps(tiduc.load(text), arguments, order, 1e-6, compiled)
    except TiducError as error:
        return "refused", str(error)
    except AssertionError as error:
        return "wrong", str(error)
    return "ok", ""


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--order", type=int, default=4)
    parser.add_argument("--only", default="")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--random", type=int, default=100)
    given = parser.parse_args()
    found: Counter[str] = Counter()
    for table in (written_cases(), random_cases(given.first, given.random)):
        for name, text, arguments in table:
            if given.only in name:
                kind, reason = category(text, arguments, given.order, name in IN_FILES)
                found[kind] += 1
                print(f"{name}: {kind} {reason.partition(chr(10))[0]}".rstrip(), flush=True)
    print(summary(found))
    return int(found["wrong"] > 0)


if __name__ == "__main__":
    sys.exit(main())
