"""Sparse Jacobians by colouring. Columns of one colour share a seed, because no row has nonzeros in two such columns.

    J is 1000 x 1000 and tridiagonal; seeds: x0 + x3 + x6 + ..., x1 + x4 + ..., x2 + x5 + ...

The user gives the sparsity pattern, or it is derived from the graph (`passes/batching/patterns.py`). Forward mode
colours columns, and reverse mode colours rows. The Hessian with respect to one input is symmetric, so an entry may be
read from the transposed entry (star colouring).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch_mlir import ir

from tiduc.backends.reference.interpreter import evaluate
from tiduc.derivatives.blocks import Block, Nonzeros, linear_in, with_seeds
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.graph import Value
from tiduc.dialect.shapes.types import element, shape, with_shape
from tiduc.passes.batching.colouring import Entries, Numbers, column_colours, is_alone, star_colours
from tiduc.passes.batching.patterns import patterns
from tiduc.passes.batching.places import Places, TooManyPlaces
from tiduc.passes.linear_transpose import linear_transpose
from tiduc.passes.linearize import linearize
from tiduc.passes.materialize_merge import Zero
from tiduc.ports import Function, InputPort, OutputPort, Port

KnownPatterns = Mapping[tuple[str, str], NDArray[np.bool_]]
"""Maps the names of an output and an input to the pattern of their block, an array of shape [output..., input...]."""

KnownEntries = Mapping[tuple[str, str], Entries | None]
"""Maps the names of an output and an input to the rows and columns of the nonzeros of their block.

The value None means that the nonzeros are unknown.
"""

_NONE: Entries = np.zeros(0, np.int64), np.zeros(0, np.int64)

_MOST_PAIRS = 10**7
"""The largest number of pairs of nonzeros in a common row, over all rows, in a pattern that is coloured."""


@dataclass(frozen=True)
class Coloured:
    """Blocks of one input, whose columns share seeds by colour, or blocks of one output, whose rows share seeds by
    colour.

    `colours` has a colour for each element of that input or output. `entries` has the rows and columns of each block's
    nonzeros. `transposed_entries` flags the nonzeros that are read from the transposed entry.
    """

    blocks: tuple[Block, ...]
    entries: tuple[Entries, ...]
    colours: Numbers
    transposed_entries: NDArray[np.bool_] | None = None

    @property
    def count(self) -> int:
        """The number of seeds."""
        return int(self.colours.max(initial=-1)) + 1


def found_entries(
    program: Function, inputs: Sequence[InputPort], outputs: Sequence[OutputPort], given: KnownPatterns
) -> dict[tuple[str, str], Entries | None]:
    """Finds the rows and columns of each block's nonzeros, by the names of its output and input.

    The entry of a block with too many nonzeros is None.
    """
    return {
        (y.name, x.name): entries
        for x in inputs
        for y, entries in zip(outputs, _entries_of(program, outputs, x, given), strict=True)
    }


def _entries_of(
    program: Function, outputs: Sequence[OutputPort], x: InputPort, given: KnownPatterns
) -> list[Entries | None]:
    """Returns, for each output, the rows and columns of the nonzeros of its block with `x`.

    The entry of a block with too many nonzeros is None.
    """
    if all((y.name, x.name) in given for y in outputs):
        return [_of_array(y, x, given) for y in outputs]
    linear, tangents = linear_in(program, outputs, x)
    (dx,) = linear.inputs.values()
    found = _patterns(program, [dy for dy in dict.fromkeys(tangents.values()) if dy is not None], dx)
    of_outputs = [_NONE if (dy := tangents[y.name]) is None else found[dy] for y in outputs]
    return [
        _of_array(y, x, given) if (y.name, x.name) in given else known
        for y, known in zip(outputs, of_outputs, strict=True)
    ]


def _patterns(program: Function, wanted: Sequence[Value], dx: Value) -> dict[Value, Entries | None]:
    """Finds the nonzeros of the derivative of each value with respect to dx. The entry of a value with too many is
    None.

    If all values together have too many nonzeros, their patterns are computed one by one.
    """
    try:
        found = patterns(program.view, wanted, dx, _Indices(program))
    except TooManyPlaces:
        if len(wanted) == 1:
            return {wanted[0]: None}
        return {dy: _patterns(program, [dy], dx)[dy] for dy in wanted}
    return {dy: _of_pattern(pattern) for dy, pattern in zip(wanted, found, strict=True)}


def _of_array(y: Port, x: Port, given: KnownPatterns) -> Entries:
    rows, columns = np.nonzero(given[y.name, x.name].reshape(prod(shape(y)), prod(shape(x))))
    return rows, columns


def _of_pattern(pattern: Places | None) -> Entries:
    if pattern is None:
        return _NONE
    rows, at = np.nonzero(pattern >= 0)
    return rows, pattern[rows, at]


class _Indices:
    """A function from a value of integers to its elements. The reference interpreter computes the elements once.

    Returns None for a value that depends on an input or on a stateful op.
    """

    def __init__(self, program: Function) -> None:
        self._program, self._values = program, dict[Value, Any]()

    def __call__(self, x: Value) -> NDArray[Any] | None:
        if x not in self._values:
            self._values[x] = self._computed(x)
        return self._values[x]  # type: ignore[no-any-return]

    def _computed(self, x: Value) -> NDArray[Any] | None:
        free: set[Value] = set()
        order = self._program.view.schedule([x], inputs=free)
        is_input = x.definition is None or bool(free)
        if is_input or any(op.name in self._program.opset.stateful for op in order):
            return None
        program: Any = self._program
        constant = replace(program, inputs=(), outputs=(OutputPort("indices", x.type, x),), memory="")
        return evaluate(str(constant.module), [])[0]


# ---- colours -----------------------------------------------------------------------------------------------


def coloured(
    blocks: Sequence[Block], entries: Sequence[Entries], seeded: Port, least: float, symmetric: bool = False
) -> Coloured | None:
    """Colours the elements of the port `seeded`. Returns None if the colouring needs at least `least` seeds.

    Also returns None if the pattern has too many nonzeros in its rows. The second array of each pair in `entries` has
    indices into the seeded port. With `symmetric`, the only block is a symmetric matrix, whose entries are those of
    `symmetrized`.
    """
    starts = np.cumsum([0, *(int(rows.max(initial=-1)) + 1 for rows, _ in entries)])
    rows = np.concatenate([r + first for (r, _), first in zip(entries, starts, strict=False)])
    columns = np.concatenate([c for _, c in entries])
    in_row = np.bincount(rows) if len(rows) else np.zeros(1, np.int64)
    if np.sum(in_row.astype(np.float64) ** 2) > _MOST_PAIRS:
        return None
    count, best = prod(shape(seeded)), None
    if in_row.max(initial=0) < least:
        best = Coloured(tuple(blocks), tuple(entries), column_colours((rows, columns), count))
    if symmetric:
        best = _symmetric(blocks, (rows, columns), count, best)
    return best if best is not None and best.count < least else None


def symmetrized(entries: Entries, count: int) -> Entries:
    """Returns the entries of a square matrix and the transposed entries, without duplicates, row by row."""
    rows, columns = entries
    keys = np.unique(np.concatenate([rows * count + columns, columns * count + rows]))
    return keys // max(count, 1), keys % max(count, 1)


def _symmetric(
    blocks: Sequence[Block], entries: Entries, count: int, other: Coloured | None
) -> Coloured | None:
    """Returns the block with a star colouring of its symmetric pattern.

    Returns `other` if the star colouring does not need fewer colours than `other`, or does not determine all entries.
    """
    rows, columns = entries
    keys = rows * count + columns
    colours = star_colours(entries, count)
    own = is_alone(entries, colours)
    place = np.searchsorted(keys, columns * count + rows)
    star = Coloured(tuple(blocks), (entries,), colours, ~own)
    if not (own | own[place]).all() or (other is not None and other.count <= star.count):
        return other
    return star


# ---- blocks ------------------------------------------------------------------------------------------------


def forward_coloured(program: Function, group: Coloured) -> list[Block]:
    """Computes the blocks of one input by forward mode, with one seed for each colour of the input's elements."""
    x = group.blocks[0].input
    linear, tangents = linear_in(program, [block.output for block in group.blocks], x)
    seed = _seed(group, x)
    b, of_seeds = with_seeds(program, linear.keys, seed, group.count, list(tangents.values()))
    blocks = []
    for block, (rows, columns), dy in zip(group.blocks, group.entries, of_seeds, strict=True):
        seeded, read = columns, rows
        if group.transposed_entries is not None:
            seeded, read = (
                np.where(group.transposed_entries, rows, columns),
                np.where(group.transposed_entries, columns, rows),
            )
        nonzeros = _nonzeros(group, (rows, columns), seeded, read, prod(shape(block.output)))
        blocks.append(replace(block, value=dy, nonzeros=nonzeros))
    b.finish([])
    return blocks


def reverse_coloured(program: Function, group: Coloured) -> list[Block]:
    """Computes the blocks of one output by reverse mode, with one seed for each colour of the output's elements."""
    y = group.blocks[0].output
    if isinstance(y.value, Zero):
        return list(group.blocks)
    wrt = [block.input.key for block in group.blocks]
    linear = linearize(program.view, [y.value], wrt, program.opset)
    transposed = linear_transpose(program.view, linear, program.opset)
    b, of_seeds = with_seeds(program, transposed.keys, _seed(group, y), group.count, list(transposed.outputs))
    blocks = []
    for block, (columns, rows), cx in zip(group.blocks, group.entries, of_seeds, strict=True):
        nonzeros = _nonzeros(group, (rows, columns), rows, columns, prod(shape(block.input)))
        blocks.append(replace(block, value=cx, nonzeros=nonzeros))
    b.finish([])
    return blocks


def _nonzeros(group: Coloured, entries: Entries, seeded: Numbers, read: Numbers, size: int) -> Nonzeros:
    """Returns where a block's entries are stored: entry k is element `read[k]` of the result for the seed of
    `seeded[k]`.

    The result for each seed has `size` elements.
    """
    return Nonzeros(*entries, group.colours[seeded] * size + read)


def _seed(group: Coloured, port: Port) -> Callable[[StablehloBuilder], Value]:
    """Returns a function that emits the seeds. Seed c is 1 at the elements of colour c, and 0 elsewhere."""
    sizes, count = shape(port), group.count

    def emit(b: StablehloBuilder) -> Value:
        numbers = ir.RankedTensorType.get([count, *sizes], ir.IntegerType.get_signless(32))
        colours = b.constant(group.colours.reshape(sizes), with_shape(numbers, sizes))
        spread = b.broadcast_in_dim(colours, range(1, 1 + len(sizes)), numbers)
        seeds = b.convert(b.compare(b.iota(0, numbers), spread, "EQ"), element(port))
        return seeds if count > 1 else b.reshape(seeds, sizes)

    return emit
