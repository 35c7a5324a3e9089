"""Predicts the cost of a jet of high order, and of as many nested JVPs, without constructing them.

Beyond the first orders, the cost of a jet is a quadratic polynomial of the order, because the coefficient of order k of
a product is a sum of k + 1 products. Each JVP multiplies the cost of a program by a nearly constant factor.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tiduc.derivatives.jets import check_order
from tiduc.explain.costs import Cost, find_cost
from tiduc.program import Program, lowered

SAMPLES = (3, 4, 5)
"""The orders of the jets that are constructed to predict the costs of higher orders."""


@dataclass(frozen=True)
class Prediction:
    """The cost of the jet of order `order`. For comparison, `nested_ops` is the number of ops of as many nested JVPs.

    `is_exact` says that the jet was constructed, so that its cost is exact. Otherwise, the cost is extrapolated.
    """

    order: int
    flops: int
    transcendentals: int
    bytes: int
    ops: int
    nested_ops: int
    is_exact: bool


def predict(program: Program, order: int, wrt: Sequence[str]) -> Prediction:
    """Predicts the cost of `program.jet(order, wrt)`. Raises the errors of `Program.jet`."""
    check_order(order)
    is_exact = order <= SAMPLES[-1]
    orders = (order,) if is_exact else SAMPLES
    costs = [_figures(find_cost(lowered(program.jet(k, wrt)))) for k in orders]
    flops, transcendentals, bytes_, ops = (
        figures[0] if is_exact else _extrapolated(figures, order) for figures in zip(*costs, strict=True)
    )
    once = program.jvp(wrt)
    twice = once.jvp([*wrt, *(port.name for port in once.inputs[len(program.inputs) :])])
    first, second = (len(find_cost(lowered(p)).ops) for p in (once, twice))
    nested = round(first * (second / max(1, first)) ** (order - 1))
    return Prediction(order, flops, transcendentals, bytes_, ops, nested, is_exact)


def _figures(cost: Cost) -> tuple[int, int, int, int]:
    return cost.flops, cost.transcendentals, cost.bytes, len(cost.ops)


def _extrapolated(figures: Sequence[int], order: int) -> int:
    """The value at `order` of the quadratic polynomial through `figures`, which are the values at `SAMPLES`."""
    low, middle, high = figures
    k = order - SAMPLES[0]
    return low + k * (middle - low) + k * (k - 1) // 2 * (high - 2 * middle + low)
