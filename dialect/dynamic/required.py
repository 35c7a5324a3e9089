"""The relations between dynamic dimensions that each op requires.

    stablehlo.add %x, %y : tensor<?xf32>              size of %x = size of %y
    stablehlo.slice %x [1:3] : tensor<?xf32>          3 <= size of %x

`requirements(op)` derives most relations from the table `ORIGINS`, which has formulas for the sizes of results. If the
result's type has a static size, the formula must give the same size. A dynamic size must not be negative. The table
`EQUAL_OPERANDS` gives pairs of dimensions whose sizes must be equal. `BOUNDS`, in `dialect/dynamic/bounds.py`, gives
the other relations: those of slices, indices, paddings, broadcasts and reshapes.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.dialect.dynamic.bounds import AT_MOST, BOUNDS, COUNT, EQUAL, MOST_ELEMENTS, Requirement, all_sizes
from tiduc.dialect.dynamic.results import ORIGINS, Dimension, rank_of
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.ops.contractions import Contraction
from tiduc.dialect.ops.traits import TRAITS
from tiduc.dialect.shapes.origins import DYNAMIC, size_of, sizes_in
from tiduc.dialect.shapes.sizes import Size, known_equal


def requirements(op: Definition) -> Iterator[Requirement]:
    """Yields the relations between sizes that an op requires. Some of them may hold trivially."""
    rule = ORIGINS.get(op.name)
    for number, y in enumerate(op.results):
        if not is_ranked(y):
            continue
        for d, n in enumerate(sizes_in(y.type)):
            origin = rule(op, number, d) if rule is not None and n != DYNAMIC else None
            if origin is not None:
                size = origin.combine(*(size_of(*place) for place in origin.places))
                yield Requirement(EQUAL, size, n)
        if DYNAMIC in sizes_in(y.type):
            yield from _exists(op, [size_of(y, d) for d in range(len(sizes_in(y.type)))])
    if op.name in EQUAL_OPERANDS:
        yield from (Requirement(EQUAL, size_of(*p), size_of(*q)) for p, q in EQUAL_OPERANDS[op.name](op))
    if op.name in BOUNDS:
        yield from BOUNDS[op.name](op)


def is_understood(name: str) -> bool:
    """Whether it is known what the ops of this name require of sizes."""
    return name in ORIGINS or name in EQUAL_OPERANDS or name in BOUNDS or name in _FREE


def is_ranked(x: Value) -> bool:
    """Whether a value is a ranked tensor."""
    return isinstance(x.type, ir.RankedTensorType)


def _exists(op: Definition, sizes: list[int | Size]) -> Iterator[Requirement]:
    """Yields the requirements that a result has no negative size, and at most `MOST_ELEMENTS` elements.

    Omits the second requirement if an operand has the same shape.
    """
    for n in sizes:
        yield Requirement(AT_MOST, 0, n)
    for x in op.operands:
        if is_ranked(x) and rank_of(x) == len(sizes) and all(map(known_equal, all_sizes(x), sizes)):
            return
    yield Requirement(COUNT, sizes, MOST_ELEMENTS)


_FREE = {name for name, row in TRAITS.items() if row.sizes == "static"} | set(
    "arith.constant arith.index_cast arith.addi arith.subi arith.muli func.return shape.assuming_yield "
    "shape.shape_of tensor.dim tensor.from_elements".split()
)
"""Ops that require nothing of the sizes of their operands."""


# ---- these functions yield pairs of dimensions whose sizes must be equal ---------------------------------------


def _like_result(op: Definition) -> Iterator[tuple[Dimension, Dimension]]:
    """Each operand that has the same rank as a result must have the sizes of this result."""
    for y in op.results:
        for x in op.operands:
            if is_ranked(x) and rank_of(x) == rank_of(y):
                yield from (((x, d), (y, d)) for d in range(rank_of(y)))


def _arrays(op: Definition) -> Iterator[tuple[Dimension, Dimension]]:
    """The arrays that an op reduces, the first half of its operands, must have equal sizes."""
    first, *others = op.operands[: len(op.operands) // 2]
    yield from (((x, d), (first, d)) for x in others for d in range(rank_of(x)))


def _sort(op: Definition) -> Iterator[tuple[Dimension, Dimension]]:
    x = op.operands[0]
    yield from (((y, d), (x, d)) for y in op.operands[1:] for d in range(rank_of(x)))


def _concatenate(op: Definition) -> Iterator[tuple[Dimension, Dimension]]:
    along = op.attributes["dimension"].value
    yield from (pair for pair in _sort(op) if pair[0][1] != along)


def _dot_general(op: Definition) -> Iterator[tuple[Dimension, Dimension]]:
    x, y = op.operands
    of = Contraction.of(op)
    of_x, of_y = map(chain, of.batches, of.summed)
    yield from (((x, i), (y, j)) for i, j in zip(of_x, of_y, strict=True))


def _cholesky(op: Definition) -> Iterator[tuple[Dimension, Dimension]]:
    x = op.operands[0]
    yield (x, rank_of(x) - 1), (x, rank_of(x) - 2)


def _triangular_solve(op: Definition) -> Iterator[tuple[Dimension, Dimension]]:
    x, y = op.operands
    rows = rank_of(x) - 2
    yield (x, rows), (x, rows + 1)
    yield (x, rows), (y, rows if op.attributes["left_side"].value else rows + 1)
    yield from (((x, d), (y, d)) for d in range(rows))


def _features(op: Definition) -> Iterator[tuple[Dimension, Dimension]]:
    feature = op.attributes["feature_index"].value
    for x in op.operands[1:]:
        if rank_of(x) == 1:
            yield (x, 0), (op.operands[0], feature)
        else:  # x is the last operand of `batch_norm_grad`, the gradient of the result
            yield from (((x, d), (op.operands[0], d)) for d in range(rank_of(x)))


def _gather(op: Definition) -> Iterator[tuple[Dimension, Dimension]]:
    x, indices = op.operands[:2]
    n = hlo.GatherDimensionNumbers(op.attributes["dimension_numbers"])
    batching = zip(n.operand_batching_dims, n.start_indices_batching_dims, strict=True)
    yield from (((x, i), (indices, j)) for i, j in batching)


def _scatter(op: Definition) -> Iterator[tuple[Dimension, Dimension]]:
    count = len(op.results)
    inputs, indices, updates = op.operands[:count], op.operands[count], op.operands[count + 1 :]
    n = hlo.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"])
    for alike in (inputs, updates):
        yield from (((x, d), (alike[0], d)) for x in alike[1:] for d in range(rank_of(x)))
    batching = zip(n.input_batching_dims, n.scatter_indices_batching_dims, strict=True)
    yield from (((inputs[0], i), (indices, j)) for i, j in batching)
    places = [d for d in range(rank_of(updates[0])) if d not in list(n.update_window_dims)]
    of_indices = [d for d in range(rank_of(indices)) if d != n.index_vector_dim]
    yield from (((updates[0], d), (indices, j)) for d, j in zip(places, of_indices, strict=True))


EQUAL_OPERANDS: dict[str, Callable[[Definition], Iterable[tuple[Dimension, Dimension]]]] = {
    **{name: _like_result for name, row in TRAITS.items() if row.sizes == "alike"},
    **dict.fromkeys(("stablehlo.reduce", "stablehlo.reduce_window"), _arrays),
    "stablehlo.batch_norm_grad": _features,
    "stablehlo.batch_norm_inference": _features,
    "stablehlo.batch_norm_training": _features,
    "stablehlo.cholesky": _cholesky,
    "stablehlo.concatenate": _concatenate,
    "stablehlo.dot": _dot_general,
    "stablehlo.dot_general": _dot_general,
    "stablehlo.dynamic_gather": _gather,
    "stablehlo.gather": _gather,
    "stablehlo.scatter": _scatter,
    "stablehlo.sort": _sort,
    "stablehlo.triangular_solve": _triangular_solve,
}
"""Maps an op name to a function that yields pairs of dimensions whose sizes must be equal.

They are dimensions of operands or results of the op.
"""
