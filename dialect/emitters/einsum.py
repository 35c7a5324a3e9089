"""Emits sums of products of arrays in a given order. As in `einsum`, letters name the dimensions of the arrays."""

from collections.abc import Iterable, Sequence

from tiduc.dialect.emitters.protocol import N, V
from tiduc.dialect.emitters.stablehlo_ops import StablehloOps
from tiduc.dialect.ops.ir_types import Attributes

Path = Sequence[Sequence[int]]
"""An order in which a list of terms is contracted. Each step is a list of indices of the terms that it contracts.

The step removes these terms from the list, and appends its result. Later indices refer to the changed list.
"""


def along_path(
    b: StablehloOps[V, N],
    terms: Sequence[tuple[V, str]],
    result: Iterable[str],
    path: Path,
    attributes: Attributes,
) -> tuple[V, str]:
    """Contracts `terms` in the order `path`. A term is an array, and a string with a letter for each of its dimensions.

    The result is a term, too. Its letters are those of `result`, perhaps in another order. Each emitted `dot_general`
    gets `attributes`.
    """
    left, wanted = list(terms), set(result)
    for step in path:
        first, *rest = [left[i] for i in sorted(step)]
        left = [term for i, term in enumerate(left) if i not in step]
        for i, term in enumerate(rest, 1):
            first = _product(b, first, term, wanted.union(*(of for _, of in (*left, *rest[i:]))), attributes)
        left.append(_sum_of_others(b, *first, wanted.union(*(of for _, of in left))))
    ((x, of),) = left
    return x, of


def _product(
    b: StablehloOps[V, N], one: tuple[V, str], other: tuple[V, str], kept: set[str], attributes: Attributes
) -> tuple[V, str]:
    """The product of two terms, summed over the letters that are not in `kept`."""
    x, of_x = _sum_of_others(b, *one, kept | set(other[1]))
    y, of_y = _sum_of_others(b, *other, kept | set(of_x))
    shared = [letter for letter in of_x if letter in of_y]
    batch = [letter for letter in shared if letter in kept]
    summed = [letter for letter in shared if letter not in kept]
    pairs = [([of_x.index(c) for c in group], [of_y.index(c) for c in group]) for group in (batch, summed)]
    free = [c for c in of_x + of_y if c not in shared]
    return b.dot_general(x, y, pairs[0], pairs[1], attributes), "".join([*batch, *free])


def _sum_of_others(b: StablehloOps[V, N], x: V, of: str, kept: set[str]) -> tuple[V, str]:
    """Sums x over the dimensions whose letters are not in `kept`. Returns the sum and the remaining letters."""
    x = b.reduce_sum(x, [d for d, letter in enumerate(of) if letter not in kept])
    return x, "".join(letter for letter in of if letter in kept)
