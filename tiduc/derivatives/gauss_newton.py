"""Gauss-Newton matrices G = J' W J, dense or compressed, for each pair of inputs.

    G[x, z] = sum over outputs y of J[y, x]' W[y] J[y, z]

An entry of a compressed matrix is a sum of products of two nonzeros in the same row of J. The pattern of G follows from
the pattern of J. If J has many nonzeros in a row, the dense product is computed, and the nonzeros of G are read from
it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.derivatives.blocks import Block
from tiduc.derivatives.coloured import KnownEntries
from tiduc.derivatives.jacobians import Sparsity, given_patterns, jacobian_blocks
from tiduc.derivatives.results import (
    MOST_NONZEROS,
    elements,
    entries_at,
    in_order,
    indices_of,
    places,
    result_of,
    with_pattern,
)
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.errors import RequestError
from tiduc.dialect.graph.graph import Value
from tiduc.dialect.ops.compressed import CSR, compressed
from tiduc.dialect.shapes.types import element, rank, shape, with_shape
from tiduc.passes.batching.colouring import Entries, Numbers
from tiduc.passes.materialize_merge import Zero
from tiduc.ports import Function, InputPort, OutputPort

_MOST_PAIRS = 2**22
"""The largest number of pairs of nonzeros in a common row, over all rows, that are multiplied pair by pair.

The indices of the nonzeros are constants in the program, so their number must be limited.
"""

_GATHERED = 8
"""The number of terms of a dense product that take about as long as a product of two gathered nonzeros."""

Factors = Mapping[str, Value]
"""Maps the name of each output to its weights. The map is empty if all weights are 1."""

Rows = Sequence[tuple[Block, Block]]
"""For each output, its blocks with respect to two inputs."""


def matrices(
    program: Function,
    inputs: Sequence[InputPort],
    outputs: Sequence[OutputPort],
    factors: Factors,
    sparsity: Sparsity,
    format: str | None,
) -> list[OutputPort]:
    """Returns the matrix of each pair of inputs. The matrix of (z, x) is the transpose of the matrix of (x, z)."""
    kind, given = given_patterns(sparsity, inputs, outputs)
    if kind not in (None, "auto"):
        raise RequestError(f"the sparsity of gauss_newton is auto or a pattern of the Jacobian, not {kind!r}")
    blocks, entries = jacobian_blocks(program, inputs, outputs, "auto", kind, given, format)
    found: dict[tuple[str, str], OutputPort] = {}
    for i, x in enumerate(inputs):
        for z in inputs[i:]:
            rows = [(blocks[y.name, x.name], blocks[y.name, z.name]) for y in outputs]
            if format is None:
                both = _whole(program, x, z, rows, factors)
            else:
                both = _compressed(program, x, z, rows, factors, entries, format)
            found[x.name, z.name] = both[0]
            found.setdefault((z.name, x.name), both[1])
    return [found[x.name, z.name] for x in inputs for z in inputs]


# ---- whole -------------------------------------------------------------------------------------------------


def _whole(
    program: Function, x: InputPort, z: InputPort, rows: Rows, factors: Factors
) -> tuple[OutputPort, OutputPort]:
    """Computes the matrix of x and z as a whole array, and its transpose."""
    b: Any = program.opset.builder(program.view, program.view.fresh("G"))
    value, n = _product(program, b, rows, factors), rank(x)
    if value is None:
        b.finish([])
        types = (with_shape(x.type, [*shape(p), *shape(q)]) for p, q in ((x, z), (z, x)))
        one, other = (OutputPort("", type_, Zero(type_)) for type_ in types)
    else:
        turned = b.transpose(value, [*range(n, rank(value)), *range(n)])
        b.finish([value, turned])
        one, other = (OutputPort("", each.type, each) for each in (value, turned))
    return _named(one, x, z), _named(other, z, x)


def _named(port: OutputPort, x: InputPort, z: InputPort) -> OutputPort:
    return replace(port, name=f"gauss_newton.{x.name}.{z.name}")


def _product(program: Function, b: StablehloBuilder, rows: Rows, factors: Factors) -> Value | None:
    """Emits the dense products of the blocks, summed over the outputs. The sum has the shape [x..., z...].

    Returns None if the sum is zero.
    """
    terms: list[Value] = []
    for one, other in rows:
        jx, jz = (result_of(program, block, "auto").value for block in (one, other))
        if isinstance(jx, Zero) or isinstance(jz, Zero):
            continue
        along = list(range(rank(one.output)))
        if one.output.name in factors:
            jx = b.multiply(jx, b.broadcast_in_dim(factors[one.output.name], along, jx.type))
        precision = {"precision_config": ir.ArrayAttr.get([hlo.PrecisionAttr.get("HIGHEST")] * 2)}
        term = b.dot_general(jx, jz, ([], []), (along, along), precision)
        terms.append(b.convert(term, element(rows[0][0].output)))
    return b.sum(terms) if terms else None


# ---- compressed --------------------------------------------------------------------------------------------


def _compressed(
    program: Function,
    x: InputPort,
    z: InputPort,
    rows: Rows,
    factors: Factors,
    entries: KnownEntries,
    format: str,
) -> tuple[OutputPort, OutputPort]:
    """Computes the nonzeros of the matrix of x and z, and the nonzeros of the transposed matrix."""
    sizes = prod(shape(x)), prod(shape(z))
    terms = _terms(rows, entries)
    keys = _keys(rows, terms, sizes)
    order = in_order((keys // max(sizes[1], 1), keys % max(sizes[1], 1)), format)
    wanted = order[0] * sizes[1] + order[1]
    b: Any = program.opset.builder(program.view, program.view.fresh("G"))
    value = _nonzeros(program, b, rows, factors, terms, wanted, sizes) if len(wanted) else None
    turned_order = np.lexsort(order if format == CSR else order[::-1])
    turned = None if value is None else elements(b, value, turned_order)
    b.finish([y for y in (value, turned) if y is not None])
    type_ = with_shape(rows[0][0].output.type if rows else x.type, [len(wanted)])
    one, other = (OutputPort("", type_, Zero(type_) if y is None else y) for y in (value, turned))
    pattern = compressed(format, sizes, *order)
    transposed = compressed(format, sizes[::-1], order[1][turned_order], order[0][turned_order])
    return _named(with_pattern(one, pattern), x, z), _named(with_pattern(other, transposed), z, x)


def _terms(rows: Rows, entries: KnownEntries) -> list[tuple[Entries, Entries]] | None:
    """Returns, for each output, the pairs of nonzeros that are multiplied. Returns None if there are too many pairs.

    A pair is a nonzero of the first block and a nonzero of the second block in the same row. For each output, the
    result has two arrays of entries (rows and columns): the first and the second members of the pairs.
    """
    terms, left = [], _MOST_PAIRS
    for one, other in rows:
        of_x, of_z = (in_order(entries_at(entries, block), CSR) for block in (one, other))
        count = prod(shape(one.output))
        in_row = np.bincount(of_z[0], minlength=count)[of_x[0]]
        left -= int(in_row.sum())
        if left < 0:
            return None
        first = np.searchsorted(of_z[0], of_x[0])
        p = np.repeat(np.arange(len(in_row)), in_row)
        q = np.arange(len(p)) - np.repeat(np.cumsum(in_row) - in_row, in_row) + np.repeat(first, in_row)
        terms.append(((of_x[0][p], of_x[1][p]), (of_z[0][q], of_z[1][q])))
    return terms


def _keys(rows: Rows, terms: Sequence[tuple[Entries, Entries]] | None, sizes: tuple[int, int]) -> Numbers:
    """Returns the sorted flat indices of the nonzeros in a matrix of these sizes, or all indices if `terms` is None."""
    if terms is not None:
        keys = [of_x[1] * sizes[1] + of_z[1] for of_x, of_z in terms]
        return np.unique(np.concatenate([np.zeros(0, np.int64), *keys]))
    if prod(sizes) > MOST_NONZEROS:
        x, z = rows[0][0].input, rows[0][1].input
        raise RequestError(f"gauss_newton.{x.name}.{z.name} has too many nonzeros; use product instead")
    return np.arange(prod(sizes))


def _nonzeros(
    program: Function,
    b: StablehloBuilder,
    rows: Rows,
    factors: Factors,
    terms: Sequence[tuple[Entries, Entries]] | None,
    wanted: Numbers,
    sizes: tuple[int, int],
) -> Value | None:
    """Emits the elements of the matrix at the flat indices `wanted`, as a vector. Returns None if all are zero."""
    dense = prod(sizes) * sum(prod(shape(one.output)) for one, _ in rows)
    if terms is None or sum(len(of_x[0]) for of_x, _ in terms) * _GATHERED > dense:
        whole = _product(program, b, rows, factors)
        return None if whole is None else elements(b, whole, wanted)
    order = np.argsort(wanted)
    products, at = [], []
    for (one, other), (of_x, of_z) in zip(rows, terms, strict=True):
        if one.value is None or other.value is None or not len(of_x[0]):
            continue
        key = of_x[1] * sizes[1] + of_z[1]
        jx, jz = _entries(b, one, of_x), _entries(b, other, of_z)
        if one.output.name in factors:
            jx = b.multiply(jx, elements(b, factors[one.output.name], of_x[0]))
        products.append(b.convert(b.multiply(jx, jz), element(rows[0][0].output)))
        at.append(order[np.searchsorted(wanted, key, sorter=order)])
    if not products:
        return None
    joined = products[0] if len(products) == 1 else b.concatenate(products, 0)
    return _summed(b, joined, np.concatenate(at), len(wanted))


def _entries(b: StablehloBuilder, block: Block, entries: Entries) -> Value:
    """Emits the elements of a block's derivative at these entries, converted to the element type of its output."""
    columns = prod(shape(block.input))
    keys = entries[0] * columns + entries[1]
    assert block.value is not None
    at = keys if block.nonzeros is None else places(block.nonzeros, keys, columns)
    return b.convert(elements(b, block.value, at), element(block.output))


def _summed(b: StablehloBuilder, x: Value, at: Numbers, count: int) -> Value:
    """Emits a vector of `count` sums. Element k of `x` is a term of the sum with the index `at[k]`."""
    order = np.argsort(at, kind="stable")
    each = np.bincount(at, minlength=count)
    if (each == each[0]).all():
        x = elements(b, x, order)
        return x if each[0] == 1 else b.reduce_sum(b.reshape(x, [count, int(each[0])]), [1])
    zeros = b.zero(with_shape(x.type, [count]))
    into = hlo.ScatterDimensionNumbers.get([], [0], [], [], [0], 1)
    return b.scatter(zeros, indices_of(b, at, count), x, into)
