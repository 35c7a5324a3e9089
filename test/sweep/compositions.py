"""Checks the derivatives of random programs, of orders one to three.

    PYTHONPATH=test/py python test/sweep/compositions.py [--examples N] [--seed N] [--order N]

Programs are drawn by hypothesis (`composer.py`, `families.py`), and run by the reference interpreter in f64. Along one
way to the order, such as VJP of JVP of VJP, each program on the way has

- the primal outputs of the one before, in its JVP and its VJP;
- JVP against central differences, of two step lengths: where these disagree, the point is near a kink;
- VJP against JVP by the adjoint identity,

for a random choice of inputs. What fails is made small and printed, and the run ends.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from check_rule import Array, active, inner, like, run
from composer import programs
from families import FAMILIES
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st

from tiduc.dialect.errors import Unsupported
from tiduc.passes.rules import OPSET
from tiduc.passes.rules.registry import OpSet
from tiduc.program import Program, load

STEPS = (1e-3, 2.5e-4)
CLOSE = 1e-5
ORDERS = (1, 2, 3)


def inputs(program: Program, rng: np.random.Generator) -> list[Array]:
    """Arguments in [-1.5, 1.5], away from one another: kinks are seldom met."""
    point = []
    for port in program.inputs:
        shape = tuple(port.type.shape)
        x = rng.uniform(-1.5, 1.5, shape)
        if "complex" in str(port.type):
            x = (x + 1j * rng.uniform(-1.5, 1.5, shape)) / np.sqrt(2)
        point.append(np.asarray(x))
    return point


def check(text: str, modes: Sequence[str], seed: int, opset: OpSet = OPSET) -> Counter[str]:
    """Checks a program, its derivative by the first mode, and so on; how many comparisons were decided."""
    rng = np.random.default_rng(seed)
    program = load(text, opset=opset)
    point = inputs(program, rng)
    counts: Counter[str] = Counter()
    for order, mode in enumerate(modes, 1):
        everything = active(point)
        wrt = [i for i in everything if rng.integers(2)] or everything[:1]
        try:
            jvp, vjp = program.jvp(wrt), program.vjp(wrt)
            _ = jvp.text, vjp.text  # some refusals come late
        except Unsupported:
            counts["refused"] += 1
            return counts
        primal = run(program, point)
        dx = [like(point[i], rng) for i in wrt]
        ct = [like(y, rng) for y in primal]
        what = f"order {order} of {modes}, wrt {wrt}"
        with np.errstate(all="ignore"):
            after, before = run(jvp, [*point, *dx]), run(vjp, [*point, *ct])
            if not all(np.isfinite(y).all() for y in primal):
                counts["infinite"] += 1
                return counts
            counts["checked"] += _compare(program, point, primal, wrt, (dx, ct), (after, before), what)
        counts["compared"] += 1
        program, more = (jvp, dx) if mode == "jvp" else (vjp, ct)
        point = [*point, *more]
    return counts


def _compare(
    program: Program,
    point: Sequence[Array],
    primal: Sequence[Array],
    wrt: Sequence[int],
    given: tuple[Sequence[Array], Sequence[Array]],
    results: tuple[Sequence[Array], Sequence[Array]],
    what: str,
) -> bool:
    """The comparisons of one program; whether differences decided."""
    (dx, ct), (after, before), count = given, results, len(primal)
    for y, other, again in zip(primal, after[:count], before[:count], strict=True):
        _assert_close(other, y, f"primal of jvp, {what}", 1e-12)
        _assert_close(again, y, f"primal of vjp, {what}", 1e-12)
    dy, cx = after[count:], before[count:]
    left, right = inner(ct, dy), inner(cx, dx)
    scale = sum(
        float(np.sum(np.abs(a * b))) for a, b in [*zip(ct, dy, strict=True), *zip(cx, dx, strict=True)]
    )
    assert abs(left - right) <= 1e-10 * max(1.0, scale), f"adjoint, {what}: {left} {right}"
    far, near = (_difference(program, point, wrt, dx, step) for step in STEPS)
    scale = max([1.0, *(float(np.max(np.abs(v))) for v in (*near, *dy) if v.size)])
    if any(np.max(np.abs(a - b), initial=0) > 0.1 * CLOSE * scale for a, b in zip(far, near, strict=True)):
        return False
    for y, expected in zip(dy, near, strict=True):
        _assert_close(y, expected, f"jvp against differences, {what}", CLOSE * scale)
    return True


def _difference(
    program: Program, point: Sequence[Array], wrt: Sequence[int], dx: Sequence[Array], step: float
) -> list[Array]:
    """Central differences of fourth order along dx."""

    def moved(by: float) -> tuple[Array, ...]:
        x = list(point)
        for i, tangent in zip(wrt, dx, strict=True):
            x[i] = x[i] + by * tangent
        return run(program, x)

    ends = [moved(by) for by in (step, -step, 2 * step, -2 * step)]
    return [np.asarray((8 * (a - b) - (c - d)) / (12 * step)) for a, b, c, d in zip(*ends, strict=True)]


def _assert_close(actual: Array, expected: Array, what: str, tolerance: float) -> None:
    limit = tolerance * max(1.0, float(np.max(np.abs(expected), initial=0)))
    np.testing.assert_allclose(actual, expected, rtol=0, atol=limit, err_msg=what)


def cases(orders: Sequence[int] = ORDERS, most: int = 8) -> Any:
    """What `check` takes: programs, the modes on the way to an order, seeds."""
    modes = st.sampled_from(orders).flatmap(lambda n: st.tuples(*[st.sampled_from(("jvp", "vjp"))] * n))
    return st.tuples(programs(FAMILIES, most), modes, st.integers(0, 2**16))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--examples", type=int, default=1000, help="how many programs")
    parser.add_argument("--seed", type=int, default=0, help="what they are drawn from")
    parser.add_argument("--order", type=int, choices=ORDERS, help="this order only")
    options = parser.parse_args()
    total: Counter[str] = Counter()

    @seeded(options.seed)
    @settings(
        max_examples=options.examples,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
    )
    @given(cases((options.order,) if options.order else ORDERS))
    def sweep(case: tuple[str, tuple[str, ...], int]) -> None:
        total.update(check(*case))

    try:
        sweep()
    finally:
        print(dict(total))
    return 0


if __name__ == "__main__":
    sys.exit(main())
