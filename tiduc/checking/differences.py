"""Central differences with an error estimate.

    D(h) = (f(h) - f(-h)) / 2h          R(h) = D(h) + (D(h) - D(4h)) / 15 = f'(0) + O(h^4)        (Richardson)

The step h shrinks by factors of four. With a long step, curvature and kinks cause errors; with a short step, rounding
does. The difference of two successive values R is an estimate of the error. Each element of each array therefore uses
the step for which this difference is smallest.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tiduc.runtime.arrays import Array


@dataclass(frozen=True)
class DifferenceEstimate:
    """The derivative of an array along a line, and a bound on the error of each element."""

    value: Array
    uncertainty: Array


def derivatives(
    function: Callable[[float], Sequence[Array]], epsilon: float, enough: float
) -> list[DifferenceEstimate]:
    """Estimates the derivatives at 0 of the arrays that `function` returns for a real number.

    `epsilon` is the relative rounding error of the arrays. Shorter steps are tried until the uncertainty of each
    element is at most `enough` times the largest element of its array, or until rounding outweighs the step.
    """
    step, shortest = 8 * epsilon ** (1 / 5), epsilon ** (1 / 2)
    with np.errstate(all="ignore"):
        differences, _ = _differences(function, step, epsilon)
        extrapolated, best = (
            differences,
            [DifferenceEstimate(d, np.full(d.shape, np.inf)) for d in differences],
        )
        while step > shortest and not all(_is_certain(known, enough) for known in best):
            step /= 4
            longer, before = differences, extrapolated
            differences, rounding = _differences(function, step, epsilon)
            extrapolated = [d + (d - e) / 15 for d, e in zip(differences, longer, strict=True)]
            changes = (np.abs(r - s) for r, s in zip(extrapolated, before, strict=True))
            estimates = map(
                DifferenceEstimate, extrapolated, [c + e for c, e in zip(changes, rounding, strict=True)]
            )
            best = [_better(old, new) for old, new in zip(best, estimates, strict=True)]
    return best


def _differences(
    function: Callable[[float], Sequence[Array]], step: float, epsilon: float
) -> tuple[list[Array], list[Array]]:
    """Returns central differences and their rounding errors."""
    pairs = list(zip(function(step), function(-step), strict=True))
    values = [(after - before) / (2 * step) for after, before in pairs]
    return values, [epsilon * np.maximum(np.abs(y), np.abs(z)) / step for y, z in pairs]


def _is_certain(known: DifferenceEstimate, enough: float) -> bool:
    return bool(np.all(known.uncertainty <= enough * np.max(np.abs(known.value), initial=0.0)))


def _better(old: DifferenceEstimate, new: DifferenceEstimate) -> DifferenceEstimate:
    """Returns the more certain of two estimates, element by element."""
    chosen = ~(old.uncertainty <= new.uncertainty) & ~np.isnan(new.uncertainty)
    return DifferenceEstimate(
        np.where(chosen, new.value, old.value), np.where(chosen, new.uncertainty, old.uncertainty)
    )
