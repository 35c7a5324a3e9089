"""A sample of random programs and their derivatives. test/fuzz/evaluate.py checks any number of such programs."""

import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from comparison import case_of, verdict
from composer import composed
from engines import COMPILERS
from evaluate import attempted, known, table
from families import FAMILIES
from programs import program

import tiduc
from tiduc.passes.rules import OPSET
from tiduc.passes.rules.registry import OpSet

EVALUATE = Path(__file__).parents[1] / "fuzz" / "evaluate.py"


def test_programs_are_valid_and_reproducible() -> None:
    for seed in range(60):
        tiduc.load(program(seed))
        assert program(seed) == program(seed)


@pytest.mark.parametrize("family", dict.fromkeys(FAMILIES), ids=lambda family: family.__name__)
def test_programs_of_a_family_are_valid(family: Any) -> None:
    for seed in range(5):
        tiduc.load(composed(Random(seed), [family], 3))


def test_most_ops_occur() -> None:
    ops = set(re.findall(r"\b(?:stablehlo|chlo)\.\w+", "".join(map(program, range(1500)))))
    assert len(ops) > 110, len(ops)


def test_a_sample_is_right() -> None:
    """`test/fuzz/evaluate.py` finds no error in two random programs on XLA, with XLA flags for fast compilation."""
    arguments = ["--engine", "xla", "--count", "2"]
    ended = subprocess.run([sys.executable, EVALUATE, *arguments], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert re.search(r"^ok +2$", ended.stdout, re.MULTILINE), ended.stdout


@pytest.mark.more
@pytest.mark.parametrize(
    ("engine", "seeds", "order"),
    [("reference", (201, 203, 207), 2), ("reference", (208,), 3), ("iree", (107,), 1)],
)
def test_other_engines_and_order_three(engine: str, seeds: Sequence[int], order: int) -> None:
    actual = attempted([(seed, program(seed)) for seed in seeds], engine, order)
    assert actual == [("ok", "")] * len(seeds)


# ---- errors that are put into derivatives ------------------------------------------------------------------


def unary(op: str, *more: str) -> str:
    """The text of a scalar function. It applies the op to %x, or to %y if `more` has lines that compute %y."""
    body = "\n".join([*more, f"%z = stablehlo.{op} {'%y' if more else '%x'} : tensor<f64>"])
    return f"func.func @main(%x: tensor<f64>) -> tensor<f64> {{\n{body}\nreturn %z : tensor<f64>\n}}\n"


def judged(text: str, order: int = 2, opset: OpSet = OPSET, at: float | None = None) -> tuple[str, str]:
    case = case_of(text, 1, order, opset)
    if at is not None:
        case.point[0][...] = at
    call = COMPILERS["reference"](case.texts, case.arguments(0))
    return verdict(case, [call(case.arguments(distance)) for distance in case.distances])


def test_an_error_of_a_millionth_is_seen() -> None:
    def cosine(b: Any, x: Any, y: Any) -> Any:
        return b.multiply(b.constant(1 + 1e-6, x.type), b.cosine(x))

    wrong = OPSET.extended()
    wrong.elementwise("stablehlo.sine", cosine)
    assert judged(unary("sine")) == ("ok", "")
    category, detail = judged(unary("sine"), opset=wrong)
    assert category == "wrong" and detail.startswith("JVP, result 0")


def test_an_error_of_the_second_order_is_seen() -> None:
    wrong = OPSET.extended()
    wrong.inactive("stablehlo.cosine")
    assert judged(unary("sine"), 1, wrong) == ("ok", "")
    category, detail = judged(unary("sine"), 2, wrong)
    assert category == "wrong" and detail.startswith("JVP of the VJP")


def test_an_error_of_a_transpose_is_seen() -> None:
    """The comparison reports a VJP that is wrong by a factor of 1 + 1e-6."""
    case = case_of(unary("sine"), 0)
    call = COMPILERS["reference"](case.texts, case.arguments(0))
    results = [call(case.arguments(distance)) for distance in case.distances]
    assert verdict(case, results) == ("ok", "")
    for k, message in ((2, "the VJP is not the adjoint of the JVP"), (4, "VJP of the JVP")):
        changed = [[list(map(np.copy, each)) for each in some] for some in results]
        changed[0][k][-1] *= 1 + 1e-6
        category, detail = verdict(case, changed)
        assert category == "wrong" and message in detail


@pytest.mark.parametrize("at", [None, 0.0])
def test_a_kink_is_not_an_error(at: float | None) -> None:
    """A function with a kink at the point, or near it, is reported as not comparable, not as wrong."""
    scaled = (
        "%c = stablehlo.constant dense<1000.0> : tensor<f64>",
        "%y = stablehlo.multiply %c, %x : tensor<f64>",
    )
    text = unary("floor", *scaled) if at is None else unary("abs")
    category, detail = judged(text, at=at)
    assert category == "not comparable" and ("disagree" in detail if at is None else "kink" in detail)


def test_a_refusal_is_an_outcome_and_spoils_no_other() -> None:
    bad = (
        unary("sine")
        .replace("stablehlo.sine %x", "stablehlo.custom_call @none(%x)")
        .replace(": tensor<f64>\n", ": (tensor<f64>) -> tensor<f64>\n")
    )
    actual = attempted([(0, unary("sine")), (1, bad), (2, "func.func @main() {")], "reference", 2)
    assert [category for category, _ in actual] == ["ok", "refused", "refused"]
    assert re.search(r"ok +1\n.*refused +2\n", table(actual), re.DOTALL)


# ---- workers -----------------------------------------------------------------------------------------------


def test_the_end_of_a_worker_is_an_outcome() -> None:
    """If a worker exits, takes too long, or needs too much memory, this is the outcome of its item, and other items are
    evaluated.

    The test needs a new process, because a process with threads must not fork.
    """
    code = f"""
import os, sys, time
sys.path.insert(0, {str(EVALUATE.parent)!r})
from workers import forked
def work(item):
    if item == 1: os._exit(7)
    if item == 3: time.sleep(60)
    if item == 5: return bytearray(2 << 30) and 0
    return item * 10
print([(i, type(x).__name__ if isinstance(x, Exception) else x) for i, x in forked(work, range(7), 2, 1000)])
"""
    begun = time.monotonic()
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    expected = [(0, 0), (1, "EOFError"), (2, 20), (3, "TimeoutError"), (4, 40), (5, "EOFError"), (6, 60)]
    assert ended.stdout.strip() == str(expected), ended.stderr
    assert time.monotonic() - begun < 20


def test_a_journal_resumes(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    journal.write_text('[1, "wrong", "x"]\n[2, "ok", ""]\n[1, "ok", ""]\n')
    assert known(journal) == {1: ("ok", ""), 2: ("ok", "")}
    assert known(None) == {}
