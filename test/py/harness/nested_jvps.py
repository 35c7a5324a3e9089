"""Compares jets along straight lines with nested JVPs.

The coefficient of order k must equal the k-th nested JVP divided by k!.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import factorial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.check_rule import active, like, run
from harness.compare import compare
from harness.xla import by_xla
from tiduc.program import Program

Array = NDArray[Any]


def check_against_nested_jvps(
    program: Program, point: Sequence[Any], order: int, rtol: float = 1e-8, compiled: bool = False
) -> None:
    """Compares the coefficients of the orders 1 to `order` with nested JVPs, along a random line in all float inputs.

    The programs run on the reference interpreter. With `compiled`, they run on XLA.
    """
    arguments, rng = [np.asarray(x) for x in point], np.random.default_rng(0)
    wrt = active(arguments)
    names = [program.inputs[i].name for i in wrt]
    line = [np.asarray(like(arguments[i], rng), arguments[i].dtype) for i in wrt]
    series = [np.stack([v, *([np.zeros_like(v)] * (order - 1))]) for v in line]
    count = len(program.outputs)
    found = _results(program.jet(order, names), [*arguments, *series], compiled)
    nested, given = program, arguments
    for k in range(1, order + 1):
        both = nested.jvp(names)
        nested, given = replace(both, outputs=both.outputs[len(nested.outputs) :]), [*given, *line]
        expected = [y / factorial(k) for y in _results(nested, given, compiled)]
        compare([y[k - 1] for y in found[count:]], expected, rtol, f"order {k}")


def _results(program: Program, arguments: Sequence[Array], compiled: bool) -> tuple[Array, ...]:
    return by_xla(program.text, arguments) if compiled else run(program, arguments)
