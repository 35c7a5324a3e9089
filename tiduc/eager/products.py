"""Products of eager values, with NumPy's shapes and types."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from tiduc.dialect.types import shape
from tiduc.eager.elementwise import broadcast, convert, converted
from tiduc.eager.record import EagerInput
from tiduc.eager.session import apply


def matmul(x: EagerInput, y: EagerInput) -> EagerInput:
    """`np.matmul`; `ValueError` where shapes do not fit."""
    a, c = x.data.shape, y.data.shape
    if not a or not c:
        raise ValueError("matmul of a scalar: use multiply")
    if a[-1] != c[-2 if len(c) > 1 else 0]:
        raise ValueError(f"matmul of shapes {a} and {c}: {a[-1]} is not {c[-2 if len(c) > 1 else 0]}")
    batch = np.broadcast_shapes(a[:-2], c[:-2])
    dtype = np.matmul.resolve_dtypes((x.data.dtype, y.data.dtype, None))[-1]

    def emit(b: Any, x: Any, y: Any) -> list[Any]:
        x, y = converted(b, x, dtype), converted(b, y, dtype)
        x = broadcast(b, x, [*batch, *shape(x)[-2:]]) if len(shape(x)) > 1 else x
        y = broadcast(b, y, [*batch, *shape(y)[-2:]]) if len(shape(y)) > 1 else y
        n, rank_x, rank_y = len(batch), len(shape(x)), len(shape(y))
        if n and min(rank_x, rank_y) == 1:  # a vector takes part in no batch
            n = 0
        contracting = [rank_x - 1], [rank_y - 2 if rank_y > 1 else 0]
        return [b.dot_general(x, y, (range(n), range(n)), contracting, {})]

    if dtype.kind == "b":
        return convert(matmul(convert(x, np.dtype("i4")), convert(y, np.dtype("i4"))), dtype)
    return apply(("matmul", dtype), emit, x, y)


def tensordot(x: EagerInput, y: EagerInput, axes: tuple[Sequence[int], Sequence[int]]) -> EagerInput:
    """`np.tensordot`, over pairs of axes; `ValueError` where sizes differ."""
    dtype = np.matmul.resolve_dtypes((x.data.dtype, y.data.dtype, None))[-1]
    pairs = tuple(
        tuple(normalize_axis_index(d, value.data.ndim) for d in of)
        for value, of in zip((x, y), axes, strict=True)
    )
    if [x.data.shape[d] for d in pairs[0]] != [y.data.shape[d] for d in pairs[1]]:
        raise ValueError(f"tensordot of shapes {x.data.shape} and {y.data.shape} over {axes}: sizes differ")

    def emit(b: Any, x: Any, y: Any) -> list[Any]:
        x, y = converted(b, x, dtype), converted(b, y, dtype)
        return [b.dot_general(x, y, ([], []), pairs, {})]

    return apply(("tensordot", dtype, pairs), emit, x, y)
