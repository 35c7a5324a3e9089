"""Schedules: functions from the number of a training step to its learning rate.

    constant(r)                            r
    cosine(r, steps, end)                  end + (r - end) (1 + cos(pi min(n / steps, 1))) / 2
    step_decay(r, every, factor)           r factor^(n // every)
    warm_up(schedule, steps)               schedule(0) (n + 1) / steps for n < steps, then schedule(n - steps)

Here, n is the number of the step, from 0. The formulas are those of PyTorch's `StepLR`, and of its `CosineAnnealingLR`
up to the last step.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import cos, inf, pi
from typing import Any

import numpy as np

from tiduc.dialect.errors import RequestError


@dataclass(frozen=True)
class Schedule:
    """A function from the number of a step to its learning rate."""

    value: Callable[[int], float]

    def __call__(self, step: int) -> Any:
        """The learning rate of a step as an f32 scalar. Steps are numbered from 0."""
        return np.float32(self.value(step))


def constant(rate: float) -> Schedule:
    """Returns a schedule with the learning rate `rate` in all steps."""
    _check("rate", rate, 0)
    return Schedule(lambda step: rate)


def cosine(rate: float, steps: int, end: float = 0.0) -> Schedule:
    """Returns a schedule that decreases from `rate` to `end` as half a cosine wave.

    After `steps` steps, the learning rate stays at `end`.
    """
    _check("rate", rate, 0)
    _check("steps", steps, 1)
    return Schedule(lambda step: end + (rate - end) * (1 + cos(pi * min(step / steps, 1))) / 2)


def step_decay(rate: float, every: int, factor: float = 0.1) -> Schedule:
    """Returns a schedule that begins with `rate` and multiplies it by `factor` after every `every` steps."""
    _check("rate", rate, 0)
    _check("every", every, 1)
    return Schedule(lambda step: rate * factor ** (step // every))


def warm_up(schedule: Schedule, steps: int) -> Schedule:
    """Returns a schedule that increases linearly to the initial rate of `schedule`, and then follows `schedule`.

    The increase ends after `steps` steps.
    """
    _check("steps", steps, 1)
    first = schedule.value(0)
    return Schedule(lambda step: first * (step + 1) / steps if step < steps else schedule.value(step - steps))


SCHEDULES = ("constant", "cosine")
"""The names of schedules that `for_run` accepts."""


def for_run(name: str, rate: float, steps: int, rising: int = 0, end: float = 0.0) -> Schedule:
    """Returns the schedule `name` for a run of `steps` steps, which begins with a warm-up of `rising` steps.

    The schedule "cosine" falls to `end` at the end of the run. Raises `RequestError` for an unknown name.
    """
    if name not in SCHEDULES:
        raise RequestError(f"unknown schedule {name!r}; there are {', '.join(SCHEDULES)}")
    chosen = constant(rate) if name == "constant" else cosine(rate, max(1, steps - rising), end)
    return warm_up(chosen, rising) if rising else chosen


def _check(name: str, value: float, least: float) -> None:
    if not least <= value < inf:
        raise RequestError(f"{name} must be at least {least}, not {value}")
