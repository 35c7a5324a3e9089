"""Reductions of eager values, with NumPy's shapes and types."""

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple
from numpy.typing import DTypeLike
from torch_mlir import ir

from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.graph import Value
from tiduc.dialect.shapes.types import element, shape
from tiduc.eager.elementwise import broadcast, converted
from tiduc.eager.record import EagerInput
from tiduc.eager.session import apply

Axes = int | tuple[int, ...] | None
BY_UFUNC = {
    "add": "sum",
    "multiply": "prod",
    "maximum": "max",
    "minimum": "min",
    "logical_or": "any",
    "logical_and": "all",
}
"""Maps the name of a binary function to the name of NumPy's reduction that applies the function."""


def reduce(
    name: str, x: EagerInput, axis: Axes = None, keepdims: bool = False, dtype: DTypeLike | None = None
) -> EagerInput:
    """`np.sum`, `prod`, `max`, `min`, `any`, `all` or `mean` along axes. By default, reduces all axes."""
    axes = normalize_axis_tuple(range(x.data.ndim) if axis is None else axis, x.data.ndim)
    if name in ("max", "min"):
        if any(x.data.shape[d] == 0 for d in axes):
            raise ValueError(f"np.{name} of an empty array")
        if x.data.dtype.kind == "c":
            raise TypeError("complex values are not ordered: compare their parts")
    result_type = np.dtype(dtype) if dtype is not None else _reduced_type(name, x.data.dtype)
    kind = "reduce", name, axes, keepdims, result_type
    return apply(kind, functools.partial(_reduce, name, axes, keepdims, result_type), x)


def variance(
    x: EagerInput, axis: Axes = None, keepdims: bool = False, ddof: float = 0, root: bool = False
) -> EagerInput:
    """`np.var`, or `np.std` if `root`. For complex values, it averages the squares of absolute deviations."""
    axes = normalize_axis_tuple(range(x.data.ndim) if axis is None else axis, x.data.ndim)
    result_type = _reduced_type("mean", x.data.dtype)

    def emit(b: StablehloBuilder, x: Value) -> list[Value]:
        x = converted(b, x, result_type)
        (mean,) = _reduce("mean", axes, True, result_type, b, x)
        deviation = b.subtract(x, broadcast(b, mean, shape(x)))
        square = b.real(b.multiply(deviation, b.conj(deviation)))
        total = b.reduce_sum(square, axes)
        count = max(math.prod(shape(x)[d] for d in axes) - ddof, 0)
        mean_square = b.divide(total, b.constant(count, total))
        return [_with_kept_dimensions(b, b.sqrt(mean_square) if root else mean_square, x, axes, keepdims)]

    return apply(("variance", axes, keepdims, float(ddof), root), emit, x)


@functools.cache
def _reduced_type(name: str, dtype: "np.dtype[Any]") -> "np.dtype[Any]":
    """The element type of NumPy's result for operands of type `dtype`."""
    result_type: np.dtype[Any] = getattr(np, name)(np.ones(1, dtype)).dtype
    return result_type


_REDUCERS = {
    "sum": ("stablehlo.add", 0),
    "prod": ("stablehlo.multiply", 1),
    "any": ("stablehlo.or", 0),
    "all": ("stablehlo.and", 1),
}


def _reduce(
    name: str, axes: tuple[int, ...], keepdims: bool, dtype: "np.dtype[Any]", b: StablehloBuilder, x: Value
) -> list[Value]:
    wide = converted(b, x, dtype)
    # Emits no `stablehlo.reduce` over no dimensions, because the interpreter and IREE give different results for it.
    if not axes:
        return [wide]
    if name in ("max", "min"):
        reducer, first = f"stablehlo.{name}imum", _lowest(dtype, name == "min")
    else:
        reducer, first = _REDUCERS["sum" if name == "mean" else name]
    result = b.reduce(wide, b.constant(first, _scalar(wide)), axes, reducer)
    if name == "mean":
        result = b.divide(result, b.constant(math.prod(shape(x)[d] for d in axes), result))
    return [_with_kept_dimensions(b, result, x, axes, keepdims)]


def _scalar(x: Value) -> ir.RankedTensorType:
    return ir.RankedTensorType.get([], element(x))


def _lowest(dtype: "np.dtype[Any]", negated: bool) -> float:
    """The least value of a type. If `negated`, the greatest value."""
    if dtype.kind == "b":
        return int(negated)
    if dtype.kind in "iu":
        return int(np.iinfo(dtype).max if negated else np.iinfo(dtype).min)
    return math.inf if negated else -math.inf


def _with_kept_dimensions(
    b: StablehloBuilder, result: Value, x: Value, axes: Sequence[int], keepdims: bool
) -> Value:
    """Returns the result of a reduction of x. If `keepdims`, each reduced dimension has size 1."""
    return b.reshape(result, [1 if d in axes else n for d, n in enumerate(shape(x))]) if keepdims else result


def cumulated(name: str, x: EagerInput, axis: int, dtype: DTypeLike | None = None) -> EagerInput:
    """`np.cumsum` if `name` is "sum", or `np.cumprod` if it is "prod".

    An axis of size n takes about log2 n steps. Each step combines the array with a copy shifted along the axis.
    """
    result_type = np.dtype(dtype) if dtype is not None else _reduced_type(name, x.data.dtype)
    count = x.data.shape[axis]

    def emit(b: StablehloBuilder, x: Value) -> list[Value]:
        x, step = converted(b, x, result_type), 1
        combined, first = (b.add, 0) if name == "sum" else (b.multiply, 1)
        start = b.constant(first, _scalar(x))
        while step < count:
            low = [step if d == axis else 0 for d in range(len(shape(x)))]
            x = combined(x, b.pad(x, start, low, [-n for n in low], [0] * len(low)))
            step *= 2
        return [x]

    return apply(("cumulated", name, axis, result_type), emit, x)
