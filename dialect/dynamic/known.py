"""Finds and copies known relations between sizes: a dynamic size of one value in terms of sizes of other values."""

from collections.abc import Iterator, Mapping, Sequence

from torch_mlir import ir

from tiduc.dialect.graph.graph import Value
from tiduc.dialect.shapes.origins import DYNAMIC, size_of, sizes_in
from tiduc.dialect.shapes.sizes import Size, atom


def carry_sizes(pairs: Mapping[Value, Value]) -> None:
    """Copies the known relations between the dynamic sizes of the keys of `pairs` to the values of `pairs`.

    In a copied relation, each key is replaced by its value. A relation is copied only if all sizes in it are sizes of
    keys.
    """
    for x, y in pairs.items():
        for d, size in _dynamic_sizes(x):
            terms, constant = size.key
            if all(kind == "dimension" and of in pairs for (kind, of, _), _ in terms):
                terms = tuple(((kind, pairs[of], i), factor) for (kind, of, i), factor in terms)
                y.graph.sizes[y, d] = Size((terms, constant))


def known_sizes(values: Sequence[Value]) -> Iterator[tuple[int, int, int, tuple[tuple[int, int, int], ...]]]:
    """Yields the dynamic dimensions of `values` whose size other dimensions of `values` determine.

    Yields each as a tuple: the index of a value, the index of a dimension, a constant, and terms `(factor, value index,
    dimension)`. The size of the dimension is the constant plus the sum of factor * size over the terms.
    """
    number = {x: i for i, x in enumerate(values)}
    for i, x in enumerate(values):
        for d, size in _dynamic_sizes(x):
            terms, constant = size.key
            follows = all(kind == "dimension" and of in number for (kind, of, _), _ in terms)
            if follows and size.key != atom("dimension", x, d).key:
                yield i, d, constant, tuple((factor, number[of], e) for (_, of, e), factor in terms)


def _dynamic_sizes(x: Value) -> Iterator[tuple[int, Size]]:
    """Yields the dynamic dimensions of a value with their sizes; yields none if the value is not a ranked tensor."""
    if isinstance(x.type, ir.RankedTensorType):
        for d, n in enumerate(sizes_in(x.type)):
            if n == DYNAMIC:
                size = size_of(x, d)
                yield d, size if isinstance(size, Size) else Size(((), size))
