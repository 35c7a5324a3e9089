"""Functions that reject tangents of certain arguments, by the composite `tidu.not_differentiable`."""

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from tiduc.models.jax.derivative_functions import Traceable, is_smooth
from tiduc.passes.rules.composite import NOT_DIFFERENTIABLE

if TYPE_CHECKING:
    from jax import Array


def rejecting(jax: ModuleType, function: Traceable, rejected: Mapping[int, str]) -> Traceable:
    """A function like `function` that rejects tangents of certain arguments. `rejected` maps these to reasons."""

    def call(*given: "Array") -> object:
        composite = jax.lax.composite(lambda x, reason: x, NOT_DIFFERENTIABLE)
        return function(
            *(composite(x, reason=rejected[i]) if i in rejected else x for i, x in enumerate(given))
        )

    return call if rejected else function


def rejecting_tangents(
    jax: ModuleType, function: Traceable, rejected: Sequence[int], reason: str
) -> Traceable:
    """A function like `function` that rejects tangents of the `rejected` arguments, even if no op reads them."""

    def call(*given: "Array") -> object:
        composite = jax.lax.composite(lambda *_, reason: jax.numpy.zeros((), np.float32), NOT_DIFFERENTIABLE)
        zero = composite(*[given[i] for i in rejected], reason=reason)
        return [y + zero.astype(y.dtype) if is_smooth(y) else y for y in function(*given)]

    return call if rejected else function
