"""Products of eager values, with NumPy's shapes and types."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.graph import Value
from tiduc.dialect.shapes.types import shape
from tiduc.eager.elementwise import broadcast, convert, converted
from tiduc.eager.record import EagerInput
from tiduc.eager.session import apply


def matmul(x: EagerInput, y: EagerInput) -> EagerInput:
    """`np.matmul`; raises `ValueError` if shapes do not fit."""
    a, c = x.data.shape, y.data.shape
    if not a or not c:
        raise ValueError("matmul of a scalar: use multiply")
    if a[-1] != c[-2 if len(c) > 1 else 0]:
        raise ValueError(f"matmul of shapes {a} and {c}: {a[-1]} is not {c[-2 if len(c) > 1 else 0]}")
    batch = np.broadcast_shapes(a[:-2], c[:-2])
    dtype = np.matmul.resolve_dtypes((x.data.dtype, y.data.dtype, None))[-1]

    def emit(b: StablehloBuilder, x: Value, y: Value) -> list[Value]:
        x, y = converted(b, x, dtype), converted(b, y, dtype)
        x = broadcast(b, x, [*batch, *shape(x)[-2:]]) if len(shape(x)) > 1 else x
        y = broadcast(b, y, [*batch, *shape(y)[-2:]]) if len(shape(y)) > 1 else y
        n, rank_x, rank_y = len(batch), len(shape(x)), len(shape(y))
        if n and min(rank_x, rank_y) == 1:  # a vector has no batch dimensions
            n = 0
        contracting = [rank_x - 1], [rank_y - 2 if rank_y > 1 else 0]
        return [b.dot_general(x, y, (range(n), range(n)), contracting, {})]

    if dtype.kind == "b":
        return convert(matmul(convert(x, np.dtype("i4")), convert(y, np.dtype("i4"))), dtype)
    return apply(("matmul", dtype), emit, x, y)


def tensordot(x: EagerInput, y: EagerInput, axes: tuple[Sequence[int], Sequence[int]]) -> EagerInput:
    """`np.tensordot`, over pairs of axes; raises `ValueError` if sizes differ."""
    dtype = np.matmul.resolve_dtypes((x.data.dtype, y.data.dtype, None))[-1]
    pairs = tuple(
        tuple(normalize_axis_index(d, value.data.ndim) for d in of)
        for value, of in zip((x, y), axes, strict=True)
    )
    if [x.data.shape[d] for d in pairs[0]] != [y.data.shape[d] for d in pairs[1]]:
        raise ValueError(f"tensordot of shapes {x.data.shape} and {y.data.shape} over {axes}: sizes differ")

    def emit(b: StablehloBuilder, x: Value, y: Value) -> list[Value]:
        x, y = converted(b, x, dtype), converted(b, y, dtype)
        return [b.dot_general(x, y, ([], []), pairs, {})]

    return apply(("tensordot", dtype, pairs), emit, x, y)


def einsum(spelled: str, values: Sequence[EagerInput]) -> EagerInput:
    """`np.einsum` with distinct letters per operand, contracted from left to right. `ValueError` for other specs."""
    labels, result = _labels(spelled, [x.data.ndim for x in values])
    sizes: dict[str, int] = {}
    for x, of in zip(values, labels, strict=True):
        for letter, n in zip(of, x.data.shape, strict=True):
            if sizes.setdefault(letter, n) != n:
                raise ValueError(f"einsum {spelled!r}: {letter} is {sizes[letter]}, and {n}")
    dtype = np.result_type(*[x.data.dtype for x in values])
    return apply(
        ("einsum", labels, result, dtype), lambda b, *xs: [_contracted(b, xs, labels, result, dtype)], *values
    )


def _labels(spelled: str, ranks: Sequence[int]) -> tuple[tuple[str, ...], str]:
    """The letters of the operands, and of the result."""
    left, arrow, result = spelled.replace(" ", "").partition("->")
    labels = tuple(left.split(","))
    if not arrow:
        result = "".join(sorted(letter for letter in set(left) - {","} if left.count(letter) == 1))
    distinct = all(len(set(of)) == len(of) and (of.isalpha() or not of) for of in (*labels, result))
    if [len(of) for of in labels] != list(ranks) or not distinct or not set(result) <= set(left):
        raise ValueError(
            f"einsum {spelled!r} of operands of {list(ranks)} dimensions: only distinct letters, one each"
        )
    return labels, result


def _contracted(
    b: StablehloBuilder, xs: Sequence[Value], labels: Sequence[str], result: str, dtype: "np.dtype[Any]"
) -> Value:
    x, of = converted(b, xs[0], dtype), labels[0]
    for i in range(1, len(xs) + 1):
        later = set(result).union(*labels[i:])
        x, of = _sum_of_others(b, x, of, later)
        if i < len(xs):
            kept = set(result).union(*labels[i + 1 :])
            y, other = _sum_of_others(b, converted(b, xs[i], dtype), labels[i], kept | set(of))
            shared = [letter for letter in of if letter in other]
            batch = [letter for letter in shared if letter in kept]
            summed = [letter for letter in shared if letter not in kept]
            pairs = [
                ([of.index(c) for c in group], [other.index(c) for c in group]) for group in (batch, summed)
            ]
            x = b.dot_general(x, y, pairs[0], pairs[1], {})
            of = "".join(
                [*batch, *(c for c in of if c not in shared), *(c for c in other if c not in shared)]
            )
    return b.transpose(x, [of.index(letter) for letter in result])


def _sum_of_others(b: StablehloBuilder, x: Value, of: str, kept: set[str]) -> tuple[Value, str]:
    """The sum over the letters that are not in `kept`, and the letters that remain."""
    x = b.reduce_sum(x, [d for d, letter in enumerate(of) if letter not in kept])
    return x, "".join(letter for letter in of if letter in kept)
