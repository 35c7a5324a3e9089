"""Products of eager values, with NumPy's shapes and types."""

import functools
from collections.abc import Callable, Mapping, Sequence
from string import ascii_letters
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index
from opt_einsum import contract_path

from tiduc.dialect.emitters.einsum import along_path
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.graph import Value
from tiduc.dialect.shapes.types import shape, with_shape
from tiduc.eager.elementwise import broadcast, convert, converted
from tiduc.eager.record import EagerInput
from tiduc.eager.session import apply


def matmul(x: EagerInput, y: EagerInput) -> EagerInput:
    """`np.matmul`. Raises `ValueError` if an operand is a scalar, or if the contracted sizes differ."""
    a, c = x.data.shape, y.data.shape
    if not a or not c:
        raise ValueError("matmul of a scalar: use multiply")
    if a[-1] != c[-2 if len(c) > 1 else 0]:
        raise ValueError(f"matmul of shapes {a} and {c}: {a[-1]} is not {c[-2 if len(c) > 1 else 0]}")
    batch = np.broadcast_shapes(a[:-2], c[:-2]) if len(a) > 2 or len(c) > 2 else ()
    dtype = _product_type(x.data.dtype, y.data.dtype)

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


@functools.cache
def _product_type(x: "np.dtype[Any]", y: "np.dtype[Any]") -> "np.dtype[Any]":
    dtype: np.dtype[Any] = np.matmul.resolve_dtypes((x, y, None))[-1]
    return dtype


def tensordot(x: EagerInput, y: EagerInput, axes: tuple[Sequence[int], Sequence[int]]) -> EagerInput:
    """`np.tensordot` over pairs of axes. Raises `ValueError` if the two sizes of a pair differ."""
    dtype = _product_type(x.data.dtype, y.data.dtype)
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


def vecdot(x: EagerInput, y: EagerInput) -> EagerInput:
    """`np.vecdot` over the last axis."""
    return einsum("...i,...i->...", [_conjugate(x), y], True)


def _conjugate(x: EagerInput) -> EagerInput:
    if x.data.dtype.kind != "c":
        return x
    return apply(("conjugate",), lambda b, x: [b.conj(x)], x)


GENERALIZED: dict[str, Callable[[EagerInput, EagerInput], EagerInput]] = {
    "matmul": matmul,
    "matvec": lambda x, y: einsum("...ij,...j->...i", [x, y], True),
    "vecdot": vecdot,
    "vecmat": lambda x, y: einsum("...i,...ij->...j", [_conjugate(x), y], True),
}
"""NumPy's universal functions that multiply vectors and matrices along the last axes, by name."""


# ---- einsum ------------------------------------------------------------------------------------------------

Optimize = bool | str | Sequence[str | tuple[int, ...]]
"""The order of contractions: a strategy of opt_einsum, a path of `np.einsum_path`, or False for left to right."""


def einsum(spelled: str, values: Sequence[EagerInput], optimize: Optimize) -> EagerInput:
    """`np.einsum`. Raises `ValueError` if the equation `spelled` is malformed, or if the operands do not fit it."""
    labels, result = _labels(spelled, [x.data.ndim for x in values])
    sizes: dict[str, int] = {}
    for x, of in zip(values, labels, strict=True):
        for letter, n in zip(of, x.data.shape, strict=True):
            known = sizes.get(letter, 1)
            if 1 not in (n, known) and n != known:
                raise ValueError(f"einsum {spelled!r}: dimensions {letter!r} have the sizes {known} and {n}")
            sizes[letter] = n if known == 1 else known
    dtype = np.result_type(*[x.data.dtype for x in values])
    path = _path(labels, result, sizes, optimize)
    key = "einsum", labels, result, tuple(sizes.items()), dtype, path

    def emit(b: StablehloBuilder, *xs: Value) -> list[Value]:
        terms = [_distinct(b, converted(b, x, dtype), of, sizes) for x, of in zip(xs, labels, strict=True)]
        x, of = along_path(
            b, terms, [letter for letter in result if any(letter in own for _, own in terms)], path, {}
        )
        places = [result.index(letter) for letter in of]
        x = b.transpose(x, sorted(range(len(of)), key=lambda d: places[d]))
        whole = with_shape(x.type, [sizes[letter] for letter in result])
        return [x if len(of) == len(result) else b.broadcast_in_dim(x, sorted(places), whole)]

    return apply(key, emit, *values)


def _labels(spelled: str, ranks: Sequence[int]) -> tuple[tuple[str, ...], str]:
    """Returns the letters of each operand, and of the result. Unused letters replace an ellipsis."""
    left, arrow, result = spelled.replace(" ", "").partition("->")
    labels = left.split(",")
    free = [letter for letter in ascii_letters if letter not in spelled]
    widths = [
        n - len(of.replace("...", "", 1)) if "..." in of else 0 for of, n in zip(labels, ranks, strict=False)
    ]
    most = max((0, *widths))
    if len(labels) == len(ranks) and min((0, *widths)) == 0 and most <= len(free):
        ellipsis = "".join(free[:most])
        named = [of.replace("...", ellipsis[most - n :], 1) for of, n in zip(labels, widths, strict=True)]
        if not arrow:
            letters = left.replace(",", "").replace("...", "")
            result = "..." + "".join(sorted(each for each in set(letters) if letters.count(each) == 1))
        is_whole = not most or "..." in result
        result = result.replace("...", ellipsis, 1)
        plain = all(of.isalpha() or not of for of in (*named, result)) and len(set(result)) == len(result)
        if (
            plain
            and is_whole
            and [len(of) for of in named] == list(ranks)
            and set(result) <= set("".join(named))
        ):
            return tuple(named), result
    raise ValueError(f"einsum {spelled!r} does not fit operands of {list(ranks)} dimensions")


def _path(
    labels: Sequence[str], result: str, sizes: Mapping[str, int], optimize: Optimize
) -> tuple[tuple[int, ...], ...]:
    """The order of contractions, as a path of `np.einsum_path`.

    Each step is a tuple of indices in the list of remaining operands. A step removes these operands from the list, and
    appends their contraction.
    """
    if optimize is False:
        return (tuple(range(len(labels))),)
    steps = (
        [step for step in optimize if not isinstance(step, str)] if isinstance(optimize, list | tuple) else []
    )
    shapes = [tuple([sizes[letter] for letter in of]) for of in labels]
    chosen: Any = steps or optimize
    path, _ = contract_path(f"{','.join(labels)}->{result}", *shapes, shapes=True, optimize=chosen)
    return tuple([tuple(step) for step in path])


def _distinct(b: StablehloBuilder, x: Value, of: str, sizes: Mapping[str, int]) -> tuple[Value, str]:
    """Drops the broadcast dimensions of an operand, and takes the diagonal of each pair of dimensions with one letter.

    Returns the resulting array and the letters of its dimensions.
    """
    kept = [d for d, letter in enumerate(of) if not (shape(x)[d] == 1 and sizes[letter] > 1)]
    x, of = b.reshape(x, [shape(x)[d] for d in kept]), "".join(of[d] for d in kept)
    while repeated := next((letter for letter in of if of.count(letter) > 1), ""):
        first, second = [d for d, letter in enumerate(of) if letter == repeated][:2]
        others = [d for d in range(len(of)) if d not in (first, second)]
        n, rest = sizes[repeated], [shape(x)[d] for d in others]
        rows = b.reshape(b.transpose(x, [*others, first, second]), [*rest, n * n])
        none, ones = [0] * len(rest), [1] * len(rest)
        x = b.slice(rows, [*none, 0], [*rest, n * n], [*ones, n + 1])
        of = "".join([*(of[d] for d in others), repeated])
    return x, of
