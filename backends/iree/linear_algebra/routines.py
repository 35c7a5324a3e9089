"""Registers patterns for calls of linear algebra: they work on batches, and need not care for empty matrices."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.emitter import Emitter, legalize_call
from tiduc.backends.iree.refused import refused
from tiduc.dialect.lapack import ROUTINES, CallSettings
from tiduc.dialect.types import element, is_dynamic, is_empty, shape

Computed = Callable[..., Sequence[Any]]
"""Gives an op's results, batched, from an emitter, the op and the op's operands, batched."""

Empty = Callable[[Emitter, Any], Sequence[Any]]
"""Gives the results of an op whose first operand is empty."""


def zeros(b: Emitter, op: Any) -> Sequence[Any]:
    """Zeros as all results."""
    return [b.zero(y.type) for y in op.results]


def in_order(place: int, first: int) -> Empty:
    """Zeros as all results but the one at `place`, which has the numbers from `first` on: rows in their order."""

    def results(b: Emitter, op: Any) -> Sequence[Any]:
        values = [*zeros(b, op)]
        order = op.results[place].type
        values[place] = b.add(b.iota(order.rank - 1, order), b.constant(first, order))
        return values

    return results


def routine(*names: str, empty: Empty = zeros) -> Callable[[Computed], Computed]:
    """Registers a function for the call targets of routines (dialect/lapack.py).

    The operands that the function takes have one batch dimension before the dimensions of the routine's signature. If
    the first operand is empty, then the results are those of `empty`.
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
    b: Emitter, op: Any, dimensions: Sequence[int], function: Computed, empty: Empty = zeros
) -> Sequence[Any]:
    """The results that a function computes for each batch element; `dimensions` counts each operand's other dimensions.

    The function computes in f32 instead of f16 and bf16, which would lose too much. Raises `Unsupported` if an operand
    has a dynamic shape.
    """
    if any(is_dynamic(x.type) for x in op.operands):
        raise refused(op, "its sizes are open")
    if is_empty(op.operands[0]):
        return empty(b, op)
    values = []
    for x, count in zip(op.operands, dimensions, strict=True):
        is_short = isinstance(element(x), ir.FloatType) and element(x).width < 32
        x, at = b.convert(x, ir.F32Type.get()) if is_short else x, len(shape(x)) - count
        values.append(b.reshape(x, [math.prod(shape(x)[:at]), *shape(x)[at:]]))
    pairs = zip(function(*values), op.results, strict=True)
    return [b.convert(b.reshape(x, y.type.shape), element(y)) for x, y in pairs]


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
    return bool(given["lower"]) if "lower" in given else chr(given["uplo"]) == "L"
