"""Finds aligned dimensions of an input and a value: the value's Jacobian is block-diagonal along these dimensions.

Dimension e of a value y is aligned with dimension d of an input x if y[j] depends on x[i] only for j_e = i_d. For an
elementwise op, each dimension of the result is aligned with the same dimension of the operand. For a contraction, free
and batching dimensions are aligned. If an op has no rule in this file, its dimensions are taken not to be aligned. So
some alignments are missed, but all alignments that are found exist.
"""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.graph.view import BINDING
from tiduc.dialect.ops.contractions import Contraction
from tiduc.dialect.ops.ir_types import AnyOp
from tiduc.dialect.ops.verify import STOP_GRADIENT
from tiduc.dialect.shapes.types import rank, shape
from tiduc.passes.batching.table import BATCHING

Alignment = dict[int, int]
"""Maps dimensions of the input to the dimensions of a value that are aligned with them."""

DimensionRule = Callable[[AnyOp, int], dict[int, int]]
"""Maps an op and an operand's index to a map: dimension of the operand -> the aligned dimension of each result."""


def alignments(order: Iterable[Definition], x: Value) -> dict[Value, Alignment]:
    """Maps x, and each value that the ops compute from x, to its alignment with x.

    `order` lists the ops such that each follows the ops whose results it reads.
    """
    aligned: dict[Value, Alignment] = {}
    if isinstance(x.type, ir.RankedTensorType):
        aligned[x] = {d: d for d in range(rank(x))}
    for op in order:
        reached = [i for i, v in enumerate(op.operands) if v in aligned]
        if not reached and aligned.keys().isdisjoint(op.captures):
            continue
        joint = None
        for i in reached:
            mapped = aligned_dimensions(op, i) if aligned.keys().isdisjoint(op.captures) else {}
            through = {d: mapped[e] for d, e in aligned[op.operands[i]].items() if e in mapped}
            joint = through if joint is None else {d: e for d, e in joint.items() if through.get(d) == e}
        aligned.update((y, dict(joint or {})) for y in op.results)
    return aligned


def aligned_dimensions(op: AnyOp, i: int) -> dict[int, int]:
    """Maps dimensions of operand i to the dimensions of each result that are aligned with them."""
    if not all(isinstance(v.type, ir.RankedTensorType) for v in (*op.operands, *op.results)):
        return {}
    rule = _RULES.get(op.name)
    if rule is not None:
        return rule(op, i)
    return _in_place(op, i) if BATCHING.forms.get(op.name) == "elementwise" else {}


def _identity(n: int) -> dict[int, int]:
    return {d: d for d in range(n)}


def _in_place(op: AnyOp, i: int) -> dict[int, int]:
    n = rank(op.operands[i])
    return _identity(n) if all(rank(y) == n for y in op.results) else {}


def _barrier(op: AnyOp, i: int) -> dict[int, int]:
    """Returns {} if a barrier has several operands, because a returned dimension must be aligned for all results, but
    operand i is aligned only with result i.
    """
    return _in_place(op, i) if len(op.operands) == 1 else {}


def _broadcast_in_dim(op: AnyOp, i: int) -> dict[int, int]:
    places, sizes = list(op.attributes["broadcast_dimensions"]), shape(op.result)
    return {d: places[d] for d, n in enumerate(shape(op.operands[0])) if n == sizes[places[d]]}


def _composite(op: AnyOp, i: int) -> dict[int, int]:
    return _in_place(op, i) if op.attributes["name"].value == STOP_GRADIENT else {}


def _reshape(op: AnyOp, i: int) -> dict[int, int]:
    """Maps the dimensions that a reshape keeps. Such a dimension has the same size in operand and result, and the sizes
    before it have the same product.
    """
    before = [_with_entries_in_front(shape(v)) for v in (op.operands[0], op.result)]
    places = {at: e for e, at in enumerate(before[1]) if at[1] > 1}
    return {d: places[at] for d, at in enumerate(before[0]) if at in places}


def _with_entries_in_front(sizes: Sequence[int]) -> list[tuple[int, int]]:
    return [(int(np.prod(sizes[:d], dtype=np.int64)), n) for d, n in enumerate(sizes)]


def _transpose(op: AnyOp, i: int) -> dict[int, int]:
    return {d: e for e, d in enumerate(op.attributes["permutation"])}


def _reverse(op: AnyOp, i: int) -> dict[int, int]:
    turned = list(op.attributes["dimensions"])
    return {d: d for d in range(rank(op.result)) if d not in turned}


def _unchanged_sizes(op: AnyOp, i: int) -> dict[int, int]:
    """The dimensions along which a slice reads, or an update writes, the whole array."""
    whole, part = shape(op.operands[0]), shape(op.operands[i])
    return {d: d for d, n in enumerate(shape(op.result)) if whole[d] == part[d] == n}


def _slice(op: AnyOp, i: int) -> dict[int, int]:
    return _unchanged_sizes(op, 0) if i == 0 else {}


def _dynamic_update_slice(op: AnyOp, i: int) -> dict[int, int]:
    return _unchanged_sizes(op, i) if i < 2 else {}


def _pad(op: AnyOp, i: int) -> dict[int, int]:
    names = "edge_padding_low", "edge_padding_high", "interior_padding"
    changed = np.any([list(op.attributes[name]) for name in names], axis=0)
    return {d: d for d in range(rank(op.result)) if i == 0 and not changed[d]}


def _without(name: str) -> DimensionRule:
    """Returns a rule that aligns all dimensions except the one in the attribute `name` (if absent, the last one)."""

    def rule(op: AnyOp, i: int) -> dict[int, int]:
        n = rank(op.operands[i])
        d = int(op.attributes[name].value) if name in op.attributes else n - 1
        return {e: e for e in range(n) if e != d % n}

    return rule


def _reduce(op: AnyOp, i: int) -> dict[int, int]:
    gone = list(op.attributes["dimensions"])
    kept = [d for d in range(rank(op.operands[0])) if d not in gone]
    return {d: e for e, d in enumerate(kept)} if i < len(op.results) else {}


def _leading(matrix: int) -> DimensionRule:
    """Returns a rule that aligns all dimensions except the last `matrix` dimensions."""
    return lambda op, i: _identity(max(rank(op.operands[i]) - matrix, 0)) if _in_place(op, i) else {}


def _fft(op: AnyOp, i: int) -> dict[int, int]:
    return _identity(rank(op.operands[0]) - len(op.attributes["fft_length"]))


def _reduce_window(op: AnyOp, i: int) -> dict[int, int]:
    n = rank(op.operands[0])
    plain = np.ones(n, bool)
    for name in ("window_dimensions", "window_strides", "base_dilations", "window_dilations"):
        if name in op.attributes:
            plain &= np.array(list(op.attributes[name])) == 1
    if "padding" in op.attributes:
        plain &= ~np.array(op.attributes["padding"]).reshape(n, 2).any(axis=1)
    return {int(d): int(d) for d in np.flatnonzero(plain)} if rank(op.operands[i]) == n else {}


def _dot_general(op: AnyOp, i: int) -> dict[int, int]:
    of = Contraction.of(op)
    free = [of.kept(side, rank(x)) for side, x in enumerate(op.operands)]
    first = len(of.batches[0]) + (len(free[0]) if i else 0)
    return {d: e for e, d in enumerate(of.batches[i])} | {d: first + e for e, d in enumerate(free[i])}


def _convolution(op: AnyOp, i: int) -> dict[int, int]:
    n = hlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
    if i:
        return {n.kernel_output_feature_dimension: n.output_feature_dimension}
    grouped = int(op.attributes["batch_group_count"].value) > 1
    return {} if grouped else {n.input_batch_dimension: n.output_batch_dimension}


def _gather(op: AnyOp, i: int) -> dict[int, int]:
    if i:
        return {}
    n = hlo.GatherDimensionNumbers(op.attributes["dimension_numbers"])
    sizes, offset = list(op.attributes["slice_sizes"]), list(n.offset_dims)
    gone = (*n.collapsed_slice_dims, *n.operand_batching_dims)
    window = [d for d in range(len(sizes)) if d not in gone]
    whole = {d: offset[at] for at, d in enumerate(window) if sizes[d] == shape(op.operands[0])[d]}
    batch = [e for e in range(rank(op.result)) if e not in offset]
    return whole | _beside(n.operand_batching_dims, n.start_indices_batching_dims, n.index_vector_dim, batch)


def _scatter(op: AnyOp, i: int) -> dict[int, int]:
    if i == 0:
        return _in_place(op, 0)
    if i != 2 or len(op.operands) != 3:
        return {}
    n = hlo.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"])
    windows, own = list(n.update_window_dims), shape(op.operands[2])
    gone = (*n.inserted_window_dims, *n.input_batching_dims)
    window = [d for d in range(rank(op.result)) if d not in gone]
    whole = {e: d for e, d in zip(windows, window, strict=True) if own[e] == shape(op.result)[d]}
    batch = [e for e in range(len(own)) if e not in windows]
    back = _beside(n.input_batching_dims, n.scatter_indices_batching_dims, n.index_vector_dim, batch)
    return whole | {e: d for d, e in back.items()}


def _beside(
    operand: Sequence[int], indices: Sequence[int], vector: int, batch: Sequence[int]
) -> dict[int, int]:
    """Maps the batching dimensions of a gather's operand to dimensions of its result.

    `batch` lists the dimensions of the result that are outside the windows, and `vector` is the index vector dimension.
    For a scatter, `batch` lists dimensions of the updates, and the result maps to these.
    """
    return {d: batch[at - (at > vector)] for d, at in zip(operand, indices, strict=True)}


_RULES: dict[str, DimensionRule] = {
    BINDING: _in_place,
    "stablehlo.bitcast_convert": _in_place,
    "stablehlo.broadcast_in_dim": _broadcast_in_dim,
    "stablehlo.cholesky": _leading(2),
    "stablehlo.clamp": _in_place,
    "stablehlo.composite": _composite,
    "stablehlo.concatenate": _without("dimension"),
    "stablehlo.convolution": _convolution,
    "stablehlo.dot_general": _dot_general,
    "stablehlo.dynamic_slice": _slice,
    "stablehlo.dynamic_update_slice": _dynamic_update_slice,
    "stablehlo.fft": _fft,
    "stablehlo.gather": _gather,
    "stablehlo.optimization_barrier": _barrier,
    "stablehlo.pad": _pad,
    "stablehlo.reduce": _reduce,
    "stablehlo.reduce_window": _reduce_window,
    "stablehlo.reshape": _reshape,
    "stablehlo.reverse": _reverse,
    "stablehlo.scatter": _scatter,
    "stablehlo.select_and_scatter": _reduce_window,
    "stablehlo.slice": _slice,
    "stablehlo.sort": _without("dimension"),
    "stablehlo.transpose": _transpose,
    "stablehlo.triangular_solve": _leading(2),
}
