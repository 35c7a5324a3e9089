"""A pytest plugin that checks jets of the programs in the tests of rules, instead of their derivatives.

    PYTHONPATH=test/py:test/sweep python -m pytest -p jet_rules test/py/rules

Each program's jet of order 3 is compared with JVPs of JVPs of JVPs along one random curve, in each input alone and in
all inputs. The coefficient y_k of a curve x(t) is the k-th derivative of y(x(t)) over k!.
"""

from typing import Any

import numpy as np
from harness import check_rule
from harness.check_rule import active, like, run
from harness.compare import compare

from tiduc.program import load

ORDER = 3


def jet_instead(text: str, *arguments: Any, rtol: float = 1e-7, seed: int = 0, **options: Any) -> None:
    """Replaces `check_rule`."""
    given = {"opset": options["opset"]} if "opset" in options else {}
    program, point = load(text, **given), [np.asarray(x) for x in arguments]
    everything = active(point)
    axis = point[0].ndim - len(program.inputs[0].type.shape) if point else 0  # 1: one row for each process
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
        compare(
            [np.take(y, -1, axis) for y in found[count:]], expected[-len(floats) :], rtol, f"jet, wrt {wrt}"
        )


def by_nested_jvps(program: Any, point: Any, wrt: Any, series: Any) -> Any:
    """The coefficients of order 3 of the differentiable outputs."""
    x = [
        [point[i], *(factor * c for factor, c in zip((1, 2, 6), s, strict=True))]
        for i, s in zip(wrt, series, strict=True)
    ]
    names = [program.inputs[i].name for i in wrt]
    # Derivatives of the curve (x), (x, x'), (x, x', x', x''): each JVP appends those of all its active inputs.
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
