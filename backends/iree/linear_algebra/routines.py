"""`routine` registers a function as the pattern for linear-algebra calls.

The function receives the operands as batches of nonempty matrices.
"""

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
"""A function that computes an op's results as batches, from an emitter, the op, and the op's operands as batches."""

Empty = Callable[[Emitter, IrOp], Sequence[IrValue]]
"""A function that computes the results of an op whose first operand is empty."""


def zeros(b: Emitter, op: IrOp) -> Sequence[IrValue]:
    """Zeros for all results."""
    return [b.zero(y.type) for y in op.results]


def in_order(place: int, first: int) -> Empty:
    """Returns a function that computes the results for an empty operand: zeros, and one identity permutation.

    The permutation `first`, `first` + 1, ... is result number `place`; a negative `place` counts from the end.
    """

    def results(b: Emitter, op: IrOp) -> Sequence[IrValue]:
        values = [*zeros(b, op)]
        order = op.results[place].type
        values[place] = b.add(b.iota(order.rank - 1, order), b.constant(first, order))
        return values

    return results


def routine(*names: str, empty: Empty = zeros) -> Callable[[OnBatches], OnBatches]:
    """Registers a function as the pattern for calls of routines (dialect/facts/lapack.py).

    `names` are keys of `ROUTINES`. The function's operands have one batch dimension before the dimensions in the
    routine's signature. If the first operand of a call is empty, `empty` computes the results instead.
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
    """Applies `function` to the operands of an op, as batches. Returns the op's results.

    `dimensions` has each operand's number of dimensions without batch dimensions. All batch dimensions are merged into
    one. f16 and bf16 are converted to f32, because algorithms would lose too many digits in f16 and bf16. `empty`
    computes the results if the first operand is empty. Raises `Unsupported` if an operand has a dynamic shape.
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
    """Maps the names of a call's settings to their values. A character is given as its integer code.

    Raises `Unsupported` for a call without settings.
    """
    given = CallSettings(op.attributes, partial(refused, op))
    if not given:
        raise refused(op, "its backend_config is not a dictionary")
    return given


def is_lower(op: IrOp) -> bool:
    """Whether the call reads the lower triangle. LAPACK's calls have a letter `uplo`, other calls a flag `lower`."""
    given = settings(op)
    return bool(given["lower"]) if "lower" in given else chr(given["uplo"]) == "L"
