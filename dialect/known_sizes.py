"""What is known of the open sizes of values beside those of others: of a tangent those of its primal, and so on."""

from collections.abc import Iterator, Mapping, Sequence

from torch_mlir import ir

from tiduc.dialect.graph import Value
from tiduc.dialect.origins import DYNAMIC, size_of, sizes_in
from tiduc.dialect.sizes import Size, atom


def carry_sizes(pairs: Mapping[Value, Value]) -> None:
    """Lets values know of their sizes, in terms of each other's, what the ones know that they stand for."""
    for x, y in pairs.items():
        for d, size in _open_sizes(x):
            terms, constant = size.key
            if all(kind == "dimension" and of in pairs for (kind, of, _), _ in terms):
                terms = tuple(((kind, pairs[of], i), factor) for (kind, of, i), factor in terms)
                y.graph.sizes[y, d] = Size((terms, constant))


def known_sizes(values: Sequence[Value]) -> Iterator[tuple[int, int, int, tuple[tuple[int, int, int], ...]]]:
    """What is known of open sizes of these values beside those of others of them: the number of a value, that of a
    dimension, a constant, and terms to add to it: factors, numbers of values, numbers of dimensions.
    """
    number = {x: i for i, x in enumerate(values)}
    for i, x in enumerate(values):
        for d, size in _open_sizes(x):
            terms, constant = size.key
            follows = all(kind == "dimension" and of in number for (kind, of, _), _ in terms)
            if follows and size.key != atom("dimension", x, d).key:
                yield i, d, constant, tuple((factor, number[of], e) for (_, of, e), factor in terms)


def _open_sizes(x: Value) -> Iterator[tuple[int, Size]]:
    """The dimensions of a value whose sizes are open, and these; of any other type than ranked tensors none."""
    if isinstance(x.type, ir.RankedTensorType):
        for d, n in enumerate(sizes_in(x.type)):
            if n == DYNAMIC:
                size = size_of(x, d)
                yield d, size if isinstance(size, Size) else Size(((), size))
