"""Registers patterns for calls of linear algebra: they work on batches, and need not care for empty matrices."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tiduc.backends.iree.calls import legalize_call
from tiduc.backends.iree.emitter import Emitter
from tiduc.backends.iree.linear_algebra.matrices import batched, restored
from tiduc.backends.iree.refused import refused
from tiduc.dialect.lapack import ROUTINES, CallSettings
from tiduc.dialect.types import is_dynamic, is_empty

Computed = Callable[..., Sequence[Any]]
"""Gives an op's results, batched, from an emitter, the op and the op's operands, batched."""


def routine(
    *names: str, empty: Callable[[Emitter, Any], Sequence[Any]] | None = None
) -> Callable[[Computed], Computed]:
    """Registers a function for the call targets of routines (dialect/lapack.py).

    The operands that the function takes have one batch dimension before the dimensions of the routine's signature. If
    the first operand is empty, then the results are those of `empty`, or else zeros.
    """

    def register(function: Computed) -> Computed:
        for name in names:
            dimensions = ROUTINES[name].dimensions

            def pattern(b: Emitter, op: Any, dimensions: Sequence[int] = dimensions) -> Sequence[Any]:
                return on_batches(b, op, dimensions, partial(function, b, op), empty)

            legalize_call(*ROUTINES[name].targets)(pattern)
        return function

    return register


def on_batches(
    b: Emitter,
    op: Any,
    dimensions: Sequence[int],
    function: Computed,
    empty: Callable[[Emitter, Any], Sequence[Any]] | None = None,
) -> Sequence[Any]:
    """An op's results, which a function computes of the operands, whose own dimensions are so many.

    Raises `Unsupported` if an operand has a dynamic shape.
    """
    operands = list(op.operands)
    if any(is_dynamic(x.type) for x in operands):
        raise refused(op, "its sizes are open")
    if is_empty(operands[0]):
        return empty(b, op) if empty else [b.zero(y.type) for y in op.results]
    values = [batched(b, x, count) for x, count in zip(operands, dimensions, strict=True)]
    return restored(b, op, function(*values))


def settings(op: Any) -> CallSettings:
    """The settings of a call by name, as plain values; characters are integers.

    Raises `Unsupported` for a call without settings.
    """
    given = CallSettings(op.attributes, partial(refused, op))
    if not given:
        raise refused(op, "its backend_config is not a dictionary")
    return given


def is_lower(op: Any) -> bool:
    """Whether the call reads the lower triangle: LAPACK's letter, or the flag of other libraries."""
    given = settings(op)
    if "lower" in given:
        return bool(given["lower"])
    if "uplo" in given:
        return chr(given["uplo"]) == "L"
    raise refused(op, "its backend_config has no uplo or lower")
