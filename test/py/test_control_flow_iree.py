"""Compares IREE with XLA on all programs of the control-flow tests, random programs, and their derivatives.

`test_control_flow.py` compares the derivatives with JAX's. In this file, IREE and XLA run the text that tiduc emits.
All tests take a quarter of an hour: `pytest -m slow test/py/test_control_flow_iree.py`.
"""

import random
from collections.abc import Sequence
from typing import Any

import cases.control_flow_calls  # noqa: F401 (its programs join the table)
import numpy as np
import pytest
from cases.control_flow_programs import PROGRAMS, UNBOUNDED
from cases.control_flow_random import program as random_program
from cases.control_flow_texts import COUNTERS, TEXTS, UNBOUNDED_TEXTS, counter
from harness import xla
from harness.check_rule import like
from harness.compare import compare
from harness.exports import exported, flat, floats

import tiduc

WRITTEN = TEXTS | UNBOUNDED_TEXTS
FAST = ("float_counter", "call_in_loop_in_call")
SAMPLE = (*FAST, "cond_nested", "nested_unbounded")
"""Programs on which IREE once failed. The last two are slow, also in `test_all`."""


def compared(text: str, given: Sequence[Any], kinds: str = "primal jvp vjp for rof") -> None:
    """Compares IREE's and XLA's results of a program and its derivatives.

    The derivatives are the JVP, the VJP, forward over reverse ("for"), and reverse over forward ("rof").
    """
    program, rng = tiduc.load(text), np.random.default_rng(0)
    point, wrt = [np.asarray(x) for x in given], floats(given)
    outputs = [y for y in xla.by_xla(program.text, point) if y.dtype.kind in "fc"]
    dx, ct, dct = [like(point[i], rng) for i in wrt], *([like(y, rng) for y in outputs] for _ in range(2))
    for kind in kinds.split():
        try:
            derived, more = _derived(program, kind, wrt, dx, ct, dct)
            text = derived.text
        except tiduc.Unsupported as error:
            assert "unknown length" in error.message
            continue
        got = derived.compile(cached=False)(*point, *more)
        compare(got if isinstance(got, tuple | list) else (got,), xla.by_xla(text, [*point, *more]))


def _derived(program: Any, kind: str, wrt: Any, dx: Any, ct: Any, dct: Any) -> tuple[Any, list[Any]]:
    match kind:
        case "primal":
            return program, []
        case "jvp":
            return program.jvp(wrt), dx
        case "vjp":
            return program.vjp(wrt), ct
        case "for":
            return program.vjp(wrt).jvp(wrt), [*ct, *dx]
        case _:
            return program.jvp(wrt).vjp(wrt), [*dx, *ct, *dct]


def named(name: str) -> tuple[str, Sequence[Any]]:
    """The text and the arguments of the program with this name."""
    if name in WRITTEN:
        return WRITTEN[name]
    function, given = (PROGRAMS | UNBOUNDED)[name]
    return exported(flat(function), *given), given


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in FAST else pytest.mark.slow) for n in SAMPLE]
)
def test_sample(name: str) -> None:
    compared(*named(name), kinds="jvp" if name == "call_in_loop_in_call" else "rof")


@pytest.mark.slow
@pytest.mark.parametrize("name", [*PROGRAMS, *UNBOUNDED, *WRITTEN])
def test_all(name: str) -> None:
    compared(*named(name))


COUNTED = (("i8", 100, 9, 126, "LT", 3), ("i32", 0, 1, 0, "LT", 0), ("i64", 3, 1, 4, "LT", 1))
"""Parameters of loops that count: an i8 counter, which IREE cannot convert on the host, and trip counts 0 and 1."""


@pytest.mark.parametrize("case", COUNTED, ids=str)
def test_counters(case: tuple[Any, ...]) -> None:
    assert case in COUNTERS
    compared(counter(*case[:-1], "swapped"), (0.4, 0.7), "vjp")


@pytest.mark.slow
@pytest.mark.parametrize("case", COUNTERS, ids=str)
def test_all_counters(case: tuple[Any, ...]) -> None:
    *parts, _ = case
    for where in ("inside", "outside", "swapped"):
        compared(counter(*parts, where), (0.4, 0.7))
    limit = np.asarray(parts[3], parts[0].replace("i", "int"))
    compared(counter(*parts, "argument"), (0.4, 0.7, limit))


QUICK = (48, 30)
"""Seeds of programs for which IREE takes all memory if tiduc does not rewrite them."""


@pytest.mark.parametrize(
    "seed",
    [
        48,
        pytest.param(30, marks=pytest.mark.slow),
        *(pytest.param(n, marks=pytest.mark.slow) for n in range(40)),
    ],
)
def test_random(seed: int) -> None:
    draw = random.Random(seed)
    text = random_program(lambda count: draw.randrange(count))
    kinds = ("primal" if seed == 48 else "vjp") if seed in QUICK else "primal jvp vjp for"
    compared(text, (0.43, np.array([0.71, 0.38]), np.int32(seed % 5)), kinds)
