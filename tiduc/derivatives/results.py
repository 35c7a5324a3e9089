"""The forms of a derivative: the whole array, its diagonal, diagonal blocks, or the nonzeros of a sparse matrix.

J = [[a, 0], [b, c]]        whole: 2x2        csr: [a, b, c], with the pattern as an attribute of the result
"""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.derivatives.blocks import MOST_SEEDS, Block, Nonzeros, blocks_of
from tiduc.derivatives.coloured import KnownEntries, KnownPatterns, found_entries
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.errors import RequestError
from tiduc.dialect.graph.graph import Value
from tiduc.dialect.ops.compressed import COMPRESSED, CSC, CSR, Compressed, compressed
from tiduc.dialect.shapes.types import element, rank, shape, with_element, with_shape
from tiduc.passes.batching.colouring import Entries, Numbers
from tiduc.passes.materialize_merge import Zero
from tiduc.ports import Function, InputPort, OutputPort, with_attributes

_MOST_ELEMENTS = 2**63 - 1
"""The largest number of elements of one derivative. MLIR counts elements in 64-bit integers."""

MOST_NONZEROS = 2**26
"""The largest number of nonzeros of one compressed derivative. Their pattern is a constant in the program."""


def result_of(program: Function, block: Block, sparsity: str | None) -> OutputPort:
    """Emits a block in the requested form: the whole derivative, its diagonal, or its diagonal blocks.

    Raises `RequestError` if the block is not known to have this form, or has too many elements.
    """
    x, y = block.input, block.output
    name = f"{y.name}.jacobian.{x.name}"
    free = [shape(x)[d] for d in block.free]
    if sparsity == "diagonal" and block.aligned is not None and prod(free) != 1:
        raise RequestError(f"{name} is not known to be diagonal; use sparsity auto for the full Jacobian")
    if sparsity == "block-diagonal" and not block.aligned:
        raise RequestError(
            f"{name} is not known to be block-diagonal; use sparsity auto for the full Jacobian"
        )
    sizes = {"diagonal": shape(y), "block-diagonal": [*shape(y), *free]}.get(
        sparsity or "", [*shape(y), *shape(x)]
    )
    aligned = max((shape(x)[d] for d in block.aligned or {}), default=0)
    if prod(sizes) > _MOST_ELEMENTS or aligned > MOST_SEEDS and prod(sizes) > prod(shape(y)):
        raise RequestError(
            f"{name} would have {prod(sizes)} elements; choose fewer inputs, or use a JVP or a VJP"
        )
    type_ = with_shape(y.type, sizes)
    if block.value is None or block.nonzeros is not None and not len(block.nonzeros.at):
        return OutputPort(name, type_, Zero(type_))
    b: Any = program.opset.builder(program.view, program.view.fresh("J"))
    if block.nonzeros is not None:
        array = scattered(b, block.value, block.nonzeros, prod(shape(x)), type_)
    else:
        is_whole = sparsity in (None, "auto")
        array = _dense(b, block, block.value, type_) if is_whole else b.reshape(block.value, sizes)
    b.finish([array])
    return OutputPort(name, type_, array)


def _dense(b: StablehloBuilder, block: Block, value: Value, type_: ir.RankedTensorType) -> Value:
    """Emits the whole derivative: the block's values, and zeros where the indices of aligned dimensions differ."""
    first = rank(block.output)
    places = [*range(first), *(first + d for d in block.free)]
    spread = b.broadcast_in_dim(value, places, type_) if block.aligned else value
    numbers = with_element(type_, ir.IntegerType.get_signless(32))
    for d, e in (block.aligned or {}).items():
        same = b.compare(b.iota(e, numbers), b.iota(first + d, numbers), "EQ")
        spread = b.select(same, spread, b.constant(0, type_))
    return spread


def scattered(
    b: StablehloBuilder, value: Value, nonzeros: Nonzeros, columns: int, type_: ir.RankedTensorType
) -> Value:
    """Scatters the nonzeros of a matrix into an array of zeros. `columns` is the number of columns of the matrix."""
    size = prod(type_.shape)
    zeros = b.zero(with_shape(type_, [size]))
    into = hlo.ScatterDimensionNumbers.get([], [0], [], [], [0], 1)
    places = indices_of(b, nonzeros.rows * columns + nonzeros.columns, size)
    taken = b.convert(elements(b, value, nonzeros.at), type_.element_type)
    return b.reshape(b.scatter(zeros, places, taken, into, None, unique=True), type_.shape)


def elements(b: StablehloBuilder, value: Value, at: Numbers) -> Value:
    """Emits the elements of a value at these flat indices, as a vector."""
    total = prod(shape(value))
    flat = b.reshape(value, [total])
    if len(at) == total and (at == np.arange(total)).all():
        return flat
    numbers = hlo.GatherDimensionNumbers.get([], [0], [], [], [0], 1)
    return b.gather(flat, indices_of(b, at, total), numbers, [1], with_shape(value.type, [len(at)]))


def indices_of(b: StablehloBuilder, at: Numbers, size: int) -> Value:
    """Returns flat indices into an array of `size` elements as the constant operand of a gather or scatter.

    The constant has a row for each index.
    """
    integer = ir.IntegerType.get_signless(32 if size < 2**31 else 64)
    return b.constant(at[:, None], ir.RankedTensorType.get([len(at), 1], integer))


# ---- compressed --------------------------------------------------------------------------------------------


def compressed_result(program: Function, block: Block, entries: KnownEntries, format: str) -> OutputPort:
    """Emits the nonzeros of a block as a vector, in the order of `format`. Their pattern is an attribute of the port.

    The block has no aligned dimensions. The matrix has a row for each element of the output, and a column for each
    element of the input.
    """
    y, x = block.output, block.input
    rows, columns = in_order(entries_at(entries, block), format)
    count = prod(shape(x))
    pattern = compressed(format, (prod(shape(y)), count), rows, columns)
    type_ = with_shape(y.type, [len(rows)])
    value: Value | Zero = Zero(type_)
    if block.value is not None and len(rows):
        b: Any = program.opset.builder(program.view, program.view.fresh("J"))
        value = b.convert(_taken(b, block, rows * count + columns, format), element(y))
        b.finish([value])
    return with_pattern(OutputPort(f"{y.name}.jacobian.{x.name}", type_, value), pattern)


def entries_at(entries: KnownEntries, block: Block) -> Entries:
    """Returns the nonzeros of a block, which must be known."""
    known = entries[block.output.name, block.input.name]
    assert known is not None
    return known


def _taken(b: StablehloBuilder, block: Block, keys: Numbers, format: str) -> Value:
    """Emits the elements of a block's derivative at `keys`, which are flat indices into the whole derivative."""
    assert block.value is not None
    sizes = prod(shape(block.output)), prod(shape(block.input))
    if block.nonzeros is None and format == CSC and len(keys) == prod(sizes):
        return b.reshape(b.transpose(b.reshape(block.value, sizes), [1, 0]), [prod(sizes)])
    return elements(
        b, block.value, keys if block.nonzeros is None else places(block.nonzeros, keys, sizes[1])
    )


def places(nonzeros: Nonzeros, keys: Numbers, columns: int) -> Numbers:
    """Returns, for each key, the index of its entry in the flattened value.

    The key of the entry (row, column) is row * columns + column. Each key must be the key of a nonzero.
    """
    own = nonzeros.rows * columns + nonzeros.columns
    order = np.argsort(own)
    return np.asarray(nonzeros.at[order[np.searchsorted(own[order], keys)]])


def in_order(entries: Entries, format: str) -> Entries:
    """Sorts the entries row by row (csr) or column by column (csc)."""
    rows, columns = entries
    order = np.lexsort((columns, rows) if format == CSR else (rows, columns))
    return rows[order], columns[order]


def with_pattern(port: OutputPort, pattern: Compressed) -> OutputPort:
    """Adds the pattern of a sparse matrix to the port of the matrix's nonzeros."""
    return with_attributes(port, {COMPRESSED: pattern.attribute()})


def known_entries(
    program: Function, inputs: Sequence[InputPort], outputs: Sequence[OutputPort], given: KnownPatterns
) -> dict[tuple[str, str], Entries]:
    """Returns the nonzeros of all blocks.

    If the nonzeros of a block are unknown, returns all its entries that may be nonzero according to its aligned
    dimensions. Raises `RequestError` if such a block has more than `MOST_NONZEROS` entries.
    """
    found = found_entries(program, inputs, outputs, given)
    unknown = [x for x in inputs if any(found[y.name, x.name] is None for y in outputs)]
    blocks = {
        (block.output.name, block.input.name): block for block in blocks_of(program, unknown, outputs, True)
    }
    return {key: _possible(blocks[key]) if known is None else known for key, known in found.items()}


def _possible(block: Block) -> Entries:
    """Returns the entries of a block that may be nonzero according to its aligned dimensions."""
    if block.aligned is None:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    y, x = block.output, block.input
    sizes = [*shape(y), *(shape(x)[d] for d in block.free)]
    if prod(sizes) > MOST_NONZEROS:
        raise RequestError(
            f"{y.name}.jacobian.{x.name} may have {prod(sizes)} nonzeros; specify fewer by sparsity, an array that is "
            "nonzero where the derivative may be nonzero"
        )
    at = np.indices(sizes).reshape(len(sizes), prod(sizes))
    of_free = {d: rank(y) + i for i, d in enumerate(block.free)}
    columns = np.zeros(prod(sizes), np.int64)
    for d, size in enumerate(shape(x)):
        columns = columns * size + at[of_free[d] if d in of_free else block.aligned[d]]
    return np.arange(prod(sizes)) // max(prod(sizes[rank(y) :]), 1), columns
