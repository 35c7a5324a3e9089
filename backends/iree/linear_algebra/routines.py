"""`routine` registers a pattern for linear-algebra calls. The pattern receives batches of nonempty matrices."""

import math
from collections.abc import Callable, Sequence
from functools import partial

from torch_mlir import ir

from tiduc.backends.iree.emit.emitter import Emitter, legalize_call
from tiduc.backends.iree.emit.refused import refused
from tiduc.dialect.facts.lapack import ROUTINES, CallSettings
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.shapes.types import element, is_dynamic, is_empty, shape

OnBatches = Callable[..., Sequence[IrValue]]
"""Computes the results of an op, as batches. The arguments are an emitter, the op, and its operands as batches."""

Empty = Callable[[Emitter, IrOp], Sequence[IrValue]]
"""Computes the results of an op whose first operand is empty."""


def zeros(b: Emitter, op: IrOp) -> Sequence[IrValue]:
    """Zeros for all results."""
    return [b.zero(y.type) for y in op.results]


def in_order(place: int, first: int) -> Empty:
    """Zeros for all results except result `place`, which is an identity permutation counted from `first`."""

    def results(b: Emitter, op: IrOp) -> Sequence[IrValue]:
        values = [*zeros(b, op)]
        order = op.results[place].type
        values[place] = b.add(b.iota(order.rank - 1, order), b.constant(first, order))
        return values

    return results


def routine(*names: str, empty: Empty = zeros) -> Callable[[OnBatches], OnBatches]:
    """Registers a function as the pattern for calls of routines (dialect/facts/lapack.py).

    The function's operands have one batch dimension before the dimensions in the routine's signature. If the first
    operand of a call is empty, `empty` computes the results instead.
    """

    def register(function: OnBatches) -> OnBatches:
        for name in names:
            dimensions = ROUTINES[name].dimensions

            def pattern(b: Emitter, op: IrOp, dimensions: Sequence[int] = dimensions) -> Sequence[IrValue]:
                return on_batches(b, op, dimensions, partial(function, b, op), empty)

            legalize_call(*ROUTINES[name].targets)(pattern)
        return function

    return register


def on_batches(
    b: Emitter, op: IrOp, dimensions: Sequence[int], function: OnBatches, empty: Empty = zeros
) -> Sequence[IrValue]:
    """Applies a function of batches to an op; returns the op's results.

    `dimensions` has each operand's number of unbatched dimensions. All batch dimensions become one. f16 and bf16 are
    computed in f32, because they would lose too many digits. Raises `Unsupported` if an operand has a dynamic shape.
    """
    if any(is_dynamic(x.type) for x in op.operands):
        raise refused(op, "its shapes are dynamic")
    if is_empty(op.operands[0]):
        return empty(b, op)
    values = []
    for x, count in zip(op.operands, dimensions, strict=True):
        is_short = isinstance(element(x), ir.FloatType) and element(x).width < 32
        x, at = b.convert(x, ir.F32Type.get()) if is_short else x, len(shape(x)) - count
        values.append(b.reshape(x, [math.prod(shape(x)[:at]), *shape(x)[at:]]))
    pairs = zip(function(*values), op.results, strict=True)
    return [b.convert(b.reshape(x, y.type.shape), element(y)) for x, y in pairs]


def settings(op: IrOp) -> CallSettings:
    """The settings of a call, by name, as plain values. A character is its integer code.

    Raises `Unsupported` for a call without settings.
    """
    given = CallSettings(op.attributes, partial(refused, op))
    if not given:
        raise refused(op, "its backend_config is not a dictionary")
    return given


def is_lower(op: IrOp) -> bool:
    """Whether the call reads the lower triangle. LAPACK's calls have a letter for it, other calls a flag."""
    given = settings(op)
    return bool(given["lower"]) if "lower" in given else chr(given["uplo"]) == "L"
