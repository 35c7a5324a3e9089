"""A pytest plugin for the tests of rules that checks jets of their programs instead of derivatives.

    PYTHONPATH=test/py:test/sweep python -m pytest -p jet_rules test/py/rules

For each input, and for all inputs together, a random curve x(t) is drawn. The Taylor coefficient y_3 of the outputs
y(x(t)) is compared with

- nested JVPs of order 3: y_k is the k-th derivative of y(x(t)) with respect to t, divided by k!;
- central differences of jets of order 2: the derivative of y_2 at x(s) with respect to s is 3 y_3. A test that skips
  finite differences also skips these.

Three tests are expected to fail the comparison with differences. They test projectors at equal eigenvalues or singular
values, where the rules are right only to order one.
"""

from collections.abc import Sequence
from math import comb
from typing import Any

import numpy as np
from harness import check_rule
from harness.check_rule import STEP, active, like, run, run_at
from harness.compare import compare

from tiduc.loading import load
from tiduc.program import Program

Array = np.ndarray[Any, Any]
ORDER = 3


def jet_instead(text: str, *arguments: Any, rtol: float = 1e-7, seed: int = 0, **options: Any) -> None:
    """Checks jets of the program. The tests call this function instead of `check_rule`."""
    rtol = max(rtol, options.get("adjoint_rtol", 0))  # the VJP of reduce_precision rounds tangents
    given = {"opset": options["opset"]} if "opset" in options else {}
    program, point = load(text, **given), [np.asarray(x) for x in arguments]
    everything = active(point)
    # For a program on several processes, the first dimension of each argument has one row for each process.
    axis = point[0].ndim - len(program.inputs[0].type.shape) if point else 0
    rng = np.random.default_rng(seed)
    for wrt in dict.fromkeys([*((i,) for i in everything), tuple(everything)]):
        if not wrt:
            continue
        series = [np.stack([like(point[i], rng) for _ in range(ORDER)], axis) for i in wrt]
        names = [program.inputs[i].name for i in wrt]
        found = run(program.jet(ORDER, names), [*point, *series])
        count = len(program.outputs)
        floats = [y for y in found[:count] if y.dtype.kind in "fc"]
        expected = by_nested_jvps(program, point, wrt, [np.moveaxis(c, axis, 0) for c in series])
        last = [np.take(y, -1, axis) for y in found[count:]]
        compare(last, expected[-len(floats) :], rtol, f"jet, wrt {wrt}")
        if options.get("differences", True):
            expected = by_differences(program, point, wrt, series, axis)
            compare(last, expected, 10 * rtol, f"jet against differences, wrt {wrt}")


def by_differences(
    program: Program, point: Sequence[Array], wrt: Sequence[int], series: Sequence[Array], axis: int
) -> list[Array]:
    """Returns the coefficients of order 3 of the differentiable outputs, from jets of order 2 at four points x(s)."""

    def moved(s: float) -> list[Array]:
        """Returns the arguments of a jet at x(s): x(s), and the coefficients of orders 1 and 2 of x(s + t) in t."""
        arguments, more = list(point), []
        for i, given in zip(wrt, series, strict=True):
            c = [point[i], *np.moveaxis(given, axis, 0)]
            at_s = [sum(comb(m, k) * s ** (m - k) * c[m] for m in range(k, ORDER + 1)) for k in range(ORDER)]
            arguments[i] = np.asarray(at_s[0])
            more.append(np.stack(at_s[1:], axis))
        return [*arguments, *more]

    jet = program.jet(ORDER - 1, [program.inputs[i].name for i in wrt])
    values = run_at(jet, [moved(s) for s in (STEP, -STEP, 2 * STEP, -2 * STEP)])
    seconds = [[np.take(y, -1, axis) for y in results[len(program.outputs) :]] for results in values]
    return [(8 * (a - b) - (c - d)) / (12 * STEP * ORDER) for a, b, c, d in zip(*seconds, strict=True)]


def by_nested_jvps(program: Any, point: Any, wrt: Any, series: Any) -> Any:
    """Returns the coefficients of order 3 of the differentiable outputs, from nested JVPs."""
    x = [
        [point[i], *(factor * c for factor, c in zip((1, 2, 6), s, strict=True))]
        for i, s in zip(wrt, series, strict=True)
    ]
    names = [program.inputs[i].name for i in wrt]
    # Each JVP appends the tangents of all active inputs, which are derivatives of the curve. The active inputs are
    # therefore (x), then (x, x'), then (x, x', x', x'').
    nested, orders, arguments, active_names = program, [0] * len(wrt), list(point), list(names)
    owner = list(range(len(wrt)))
    for _ in range(ORDER):
        before = len(nested.inputs)
        nested = nested.jvp(active_names)
        active_names += [port.name for port in nested.inputs[before:]]
        more = [(of, order + 1) for of, order in zip(owner, orders, strict=True)]
        arguments += [x[of][order] for of, order in more]
        owner += [of for of, _ in more]
        orders += [order for _, order in more]
    return [y / 6 for y in run(nested, arguments) if y.dtype.kind in "fc"]


check_rule.check_rule = jet_instead  # type: ignore[assignment]
