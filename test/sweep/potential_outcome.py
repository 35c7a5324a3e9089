"""The outcome of a model of interatomic potentials: programs of its energy against the package's own derivatives."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import tiduc

TOLERANCE = {"f64": 1e-10, "f32": 1e-6}
"""Of the largest error of an array, relative to the array's largest entry: in f32, 8 units in the last place."""
TIMES = 10
"""An f32 result is right, too, if its error is at most this many times that of the package's f32 result."""
Record = dict[str, Any]
Parts = Mapping[str, Mapping[str, Sequence[Any]]]


def why(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".split("\n")[0][:400]


def error_of(found: Sequence[Any], wanted: Sequence[Any]) -> float:
    """The largest error of several arrays, relative to the largest entry among them; infinite if shapes differ."""
    found, wanted = [np.asarray(x, np.float64) for x in found], [np.asarray(y) for y in wanted]
    if [x.shape for x in found] != [y.shape for y in wanted]:
        return float("inf")
    largest = max((float(np.abs(y).max(initial=0)) for y in wanted), default=0.0)
    worst = [float(np.abs(x - y).max(initial=0)) for x, y in zip(found, wanted, strict=True)]
    return max(worst, default=0.0) / (largest or 1.0) if np.isfinite(worst).all() else float("inf")


def judged(
    programs: Mapping[str, Callable[[], Mapping[str, Sequence[Any]]]],
    exact: Parts,
    narrow: Parts | None,
    dtype: str,
) -> Record:
    """Runs programs and compares their results. The first failure decides the outcome.

    `programs` and `exact` have the parts "first", "hvp" and "training", and for each part arrays by name. `narrow` has
    the package's own results in f32, if the programs are in f32.
    """
    errors: dict[str, float] = {}
    outcome, reason = "ok", ""
    for part, run in programs.items():
        try:
            results = run()
        except tiduc.TiducError as error:
            outcome, reason = ("refused", f"{part}: {why(error)}") if outcome == "ok" else (outcome, reason)
            continue
        for name, wanted in exact[part].items():
            if not all(np.isfinite(np.asarray(y)).all() for y in wanted):
                outcome = "not comparable" if outcome == "ok" else outcome
                reason = reason or f"{name}: the package's own result is not finite"
                continue
            errors[name] = error_of(results[name], wanted)
            own = error_of(narrow[part][name], wanted) if narrow else 0.0
            allowed = max(TOLERANCE[dtype], TIMES * own)
            if not errors[name] <= allowed:
                outcome, reason = "wrong", f"{name}: error {errors[name]:.1e}, allowed {allowed:.1e}"
    return {"outcome": outcome, "why": reason, "errors": errors}
