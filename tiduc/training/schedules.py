"""Schedules: functions from a step's number to its learning rate, an f32 for the input `rate`.

    constant(r)                            r
    cosine(r, steps, end)                  end + (r - end) (1 + cos(pi min(n / steps, 1))) / 2
    step_decay(r, every, factor)           r factor^(n // every)
    warm_up(schedule, steps)               schedule(0) (n + 1) / steps for n < steps, then schedule(n - steps)

Steps count from 0. The formulas are those of PyTorch's `CosineAnnealingLR` up to its last step and of its `StepLR`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import cos, inf, pi
from typing import Any

import numpy as np

from tiduc.dialect.errors import RequestError


@dataclass(frozen=True)
class Schedule:
    """The learning rate as a function of the step number."""

    value: Callable[[int], float]

    def __call__(self, step: int) -> Any:
        """The rate of this step, from 0, as an f32 scalar."""
        return np.float32(self.value(step))


def constant(rate: float) -> Schedule:
    """A rate that never changes."""
    _check("rate", rate, 0)
    return Schedule(lambda step: rate)


def cosine(rate: float, steps: int, end: float = 0.0) -> Schedule:
    """Half a cosine wave from `rate` down to `end`. After `steps` steps, the rate stays at `end`."""
    _check("rate", rate, 0)
    _check("steps", steps, 1)
    return Schedule(lambda step: end + (rate - end) * (1 + cos(pi * min(step / steps, 1))) / 2)


def step_decay(rate: float, every: int, factor: float = 0.1) -> Schedule:
    """A rate that is multiplied by `factor` after each `every` steps."""
    _check("rate", rate, 0)
    _check("every", every, 1)
    return Schedule(lambda step: rate * factor ** (step // every))


def warm_up(schedule: Schedule, steps: int) -> Schedule:
    """A linear rise to the first rate of a schedule during `steps` steps, then the schedule."""
    _check("steps", steps, 1)
    first = schedule.value(0)
    return Schedule(lambda step: first * (step + 1) / steps if step < steps else schedule.value(step - steps))


SCHEDULES = ("constant", "cosine")
"""The schedules that have a name."""


def for_run(name: str, rate: float, steps: int, rising: int = 0, end: float = 0.0) -> Schedule:
    """The schedule named `name` for a run of `steps` steps. The first `rising` steps warm up.

    A cosine wave reaches `end` at the last step.
    """
    if name not in SCHEDULES:
        raise RequestError(f"unknown schedule {name!r}; there are {', '.join(SCHEDULES)}")
    chosen = constant(rate) if name == "constant" else cosine(rate, max(1, steps - rising), end)
    return warm_up(chosen, rising) if rising else chosen


def _check(name: str, value: float, least: float) -> None:
    if not least <= value < inf:
        raise RequestError(f"{name} must be at least {least}, not {value}")
