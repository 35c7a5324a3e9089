"""Batching rules of gathers, scatters and dynamic slices. Dynamic slices with batched start indices become gathers, and
dynamic updates with batched start indices become scatters.
"""

from collections.abc import Sequence

from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.shapes.types import rank, shape
from tiduc.passes.batching.registry import emit_batched, mapped, results_of, spread, spread_all
from tiduc.passes.batching.shape import longer
from tiduc.passes.batching.table import batch
from tiduc.passes.rules.gather import clamp_indices


@batch("stablehlo.gather")
def gather(b: StablehloBuilder, op: Definition, x: Sequence[Value], at: Sequence[bool]) -> Sequence[Value]:
    """Adds a dimension for the batch to a gather:
    - a batching dimension if the operand and the indices are batched;
    - a slice dimension of full size if only the operand is batched;
    - a further dimension of the indices if only the indices are batched.
    """
    d = hlo.GatherDimensionNumbers(op.attributes["dimension_numbers"])
    of_operand, of_indices = at
    offset = [i + 1 for i in d.offset_dims]
    collapsed, batching, mapped_to = (
        [i + of_operand for i in numbers]
        for numbers in (d.collapsed_slice_dims, d.operand_batching_dims, d.start_index_map)
    )
    indices_batching = [i + of_indices for i in d.start_indices_batching_dims]
    sizes = op.attributes["slice_sizes"]
    if of_operand and of_indices:
        batching, indices_batching, sizes = [0, *batching], [0, *indices_batching], longer(sizes, 1)
    elif of_operand:
        offset, sizes = [0, *offset], longer(sizes, b.engine.size)
    numbers = hlo.GatherDimensionNumbers.get(
        offset, collapsed, batching, indices_batching, mapped_to, d.index_vector_dim + of_indices
    )
    sorted_ = {} if not of_indices else {"indices_are_sorted": ir.BoolAttr.get(False)}
    return emit_batched(b, op, x, None, dimension_numbers=numbers, slice_sizes=sizes, **sorted_)


@batch("stablehlo.scatter")
def scatter(b: StablehloBuilder, op: Definition, x: Sequence[Value], at: Sequence[bool]) -> Sequence[Value]:
    """Adds a dimension for the batch to a scatter.

    If the scatter indices are batched, the new dimension is a batching dimension. Otherwise it is an update window
    dimension of full size. If the update body captures batched values, a loop runs the scatter once per example.
    """
    count = len(op.results)
    if any(at[2 * count + 1 :]):
        return mapped(b, op, x, at)
    d = hlo.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"])
    of_indices = at[count]
    operands = spread_all(b, x[:count], at[:count])
    updates = spread_all(b, x[count + 1 : 2 * count + 1], at[count + 1 : 2 * count + 1])
    window, inserted, batching, mapped_to = (
        [i + 1 for i in numbers]
        for numbers in (
            d.update_window_dims,
            d.inserted_window_dims,
            d.input_batching_dims,
            d.scattered_dims_to_operand_dims,
        )
    )
    indices_batching = [i + of_indices for i in d.scatter_indices_batching_dims]
    if of_indices:
        batching, indices_batching = [0, *batching], [0, *indices_batching]
    else:
        window = [0, *window]
    numbers = hlo.ScatterDimensionNumbers.get(
        window, inserted, batching, indices_batching, mapped_to, d.index_vector_dim + of_indices
    )
    sorted_ = {} if not of_indices else {"indices_are_sorted": ir.BoolAttr.get(False)}
    operands = [*operands, x[count], *updates]
    return emit_batched(b, op, operands, None, scatter_dimension_numbers=numbers, **sorted_)


@batch("stablehlo.dynamic_slice")
def dynamic_slice(
    b: StablehloBuilder, op: Definition, x: Sequence[Value], at: Sequence[bool]
) -> Sequence[Value]:
    """Emits a gather if start indices are batched, else a dynamic_slice. Both ops clamp out-of-range start indices."""
    operand, *starts = x
    sizes, n = op.attributes["slice_sizes"], rank(op.operands[0])
    if not any(at[1:]):
        return [b.dynamic_slice(operand, [_zero(b, starts), *starts], [b.engine.size, *sizes])]
    of_operand = int(at[0])
    batching = [0] if of_operand else []
    numbers = hlo.GatherDimensionNumbers.get(
        list(range(1, n + 1)), [], batching, batching, [i + of_operand for i in range(n)], 1
    )
    sizes = [1, *sizes] if of_operand else list(sizes)
    return [b.gather(operand, _vectors(b, starts, at[1:]), numbers, sizes, results_of(b, op)[0])]


@batch("stablehlo.dynamic_update_slice")
def dynamic_update_slice(
    b: StablehloBuilder, op: Definition, x: Sequence[Value], at: Sequence[bool]
) -> Sequence[Value]:
    """Emits a scatter if start indices are batched, else a dynamic_update_slice.

    The start indices of the scatter are clamped explicitly, because a scatter drops out-of-range updates instead.
    """
    operand, update, *starts = x
    n = rank(op.operands[0])
    operand, update = spread_all(b, (operand, update), at[:2])
    if not any(at[2:]):
        return [b.dynamic_update_slice(operand, update, [_zero(b, starts), *starts])]
    last = [whole - part for whole, part in zip(*map(shape, op.operands[:2]), strict=True)]
    vectors = clamp_indices(b, _vectors(b, starts, at[2:]), [0] * n, last, 1)
    numbers = hlo.ScatterDimensionNumbers.get(list(range(1, n + 1)), [], [0], [0], list(range(1, n + 1)), 1)
    return [b.scatter(operand, vectors, update, numbers, None, unique=True)]


def _zero(b: StablehloBuilder, starts: Sequence[Value]) -> Value:
    """The start index 0 for the batch dimension, in the type of `starts`; i32 if `starts` is empty (scalar operand)."""
    type_ = starts[0].type if starts else ir.RankedTensorType.get([], ir.IntegerType.get_signless(32))
    return b.constant(0, type_)


def _vectors(b: StablehloBuilder, starts: Sequence[Value], at: Sequence[bool]) -> Value:
    """An array of shape [k, n], whose row i has the n start indices of example i."""
    columns = [v if flag else spread(b, v) for v, flag in zip(starts, at, strict=True)]
    return b.concatenate([b.reshape(v, [b.engine.size, 1]) for v in columns], 1)
