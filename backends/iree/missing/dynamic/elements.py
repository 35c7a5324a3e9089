"""gather, pad, reshape, concatenate and dynamic_update_slice of dynamic shapes, computed element by element."""

from collections.abc import Sequence
from typing import Any

from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.backends.iree.emitter import DYNAMIC, Emitter, is_unsigned, legalize, signless
from tiduc.backends.iree.fast.kernels import Kernel
from tiduc.backends.iree.fault import Fault
from tiduc.backends.iree.missing.dynamic.arrays import (
    computed,
    in_shape_of,
    inside,
    known,
    larger,
    minus,
    number,
    over,
    plus,
    sizes_of,
    smaller,
    times,
    wide,
)
from tiduc.dialect.types import element


@legalize(
    "stablehlo.dynamic_reshape",
    fault=Fault(
        "missing",
        "Does not compile with dynamic dimensions; emits `tensor.reshape`.",
        witness="dynamic/reshape",
    ),
)
def dynamic_reshape(b: Emitter, op: Any) -> Sequence[Any] | None:
    """`tensor.reshape`."""
    x, sizes = op.operands
    return [in_shape_of(b, x, sizes, op.results[0].type)]


@legalize(
    "stablehlo.dynamic_update_slice",
    fault=Fault(
        "missing",
        "Does not compile with dynamic dimensions; computes the result element by element.",
        witness="dynamic/update",
    ),
    where=DYNAMIC,
)
def dynamic_update_slice(b: Emitter, op: Any) -> Sequence[Any] | None:
    """The result, element by element."""
    x, update, *starts = op.operands
    sizes, own = sizes_of(b, x), sizes_of(b, update)
    at = [
        larger(b, smaller(b, number(b, start), minus(b, n, m)), 0)
        for start, n, m in zip(starts, sizes, own, strict=True)
    ]

    def fill(k: Kernel, places: Sequence[Any], x: Any, update: Any) -> Any:
        within = [minus(k, place, start) for place, start in zip(places, at, strict=True)]
        return _either(k, update, within, own, k.element(x, *places))

    return [computed(b, sizes, element(x), [x, update], fill)]


@legalize(
    "stablehlo.dynamic_pad",
    fault=Fault(
        "missing",
        "Does not compile with dynamic dimensions; computes the result element by element.",
        witness="dynamic/dynamic_pad",
    ),
)
def dynamic_pad(b: Emitter, op: Any) -> Sequence[Any] | None:
    """The result, element by element."""
    low, high, interior = (
        [number(b, padding, d) for d in range(padding.type.shape[0])] for padding in op.operands[2:]
    )
    return [_padded(b, op, low, high, interior)]


@legalize(
    "stablehlo.pad",
    fault=Fault(
        "missing",
        "Does not compile with negative padding or computed operands; computes the result element by element.",
        witness="dynamic/pad_cutting",
    ),
    where=DYNAMIC,
)
def pad(b: Emitter, op: Any) -> Sequence[Any] | None:
    """The result, element by element."""
    names = "edge_padding_low", "edge_padding_high", "interior_padding"
    return [_padded(b, op, *(list(op.attributes[name]) for name in names))]


def _padded(b: Emitter, op: Any, low: Sequence[Any], high: Sequence[Any], interior: Sequence[Any]) -> Any:
    x, value = op.operands[:2]
    own = sizes_of(b, x)
    gaps = [times(b, larger(b, minus(b, n, 1), 0), i) for n, i in zip(own, interior, strict=True)]
    ends = [plus(b, m, n) for m, n in zip(low, high, strict=True)]
    sizes = [plus(b, plus(b, n, gap), end) for n, gap, end in zip(own, gaps, ends, strict=True)]
    sizes = known(op.results[0].type, sizes)

    def fill(k: Kernel, places: Sequence[Any], x: Any, value: Any) -> Any:
        moved = [minus(k, place, n) for place, n in zip(places, low, strict=True)]
        steps = [plus(k, i, 1) for i in interior]
        within = [over(k, place, step) for place, step in zip(moved, steps, strict=True)]
        met = None
        for place, at, step in zip(moved, within, steps, strict=True):
            if step != 1:
                even = k.equal(place, times(k, at, step))
                met = even if met is None else k.arith("andi", met, even)
        return _either(k, x, within, own, k.element(value), met)

    return computed(b, sizes, element(x), [x, value], fill)


def _either(
    k: Kernel, x: Any, place: Sequence[Any], sizes: Sequence[Any], other: Any, met: Any = None
) -> Any:
    """The element of x, of these sizes, at `place` if that is within x and `met` holds; else `other`.

    Code for GPUs takes a branch for several places at once, decided by one of them. There, an element is read
    in any case, at a clamped place, and selected.
    """
    inside_ = inside(k, place, sizes)
    met = inside_ if met is None else k.arith("andi", inside_, met)
    if k.cpu:
        return k.choice(met, other.type, lambda k: [k.element(x, *place)], lambda k: [other])
    near = [larger(k, smaller(k, i, minus(k, n, 1)), 0) for i, n in zip(place, sizes, strict=True)]
    return k.either(met, k.element(x, *map(k.index, near)), other)


@legalize(
    "stablehlo.gather",
    fault=Fault(
        "wrong",
        "Indices are not clamped, and some forms do not compile; computes the result element by element.",
        witness="dynamic/gather_unsigned",
    ),
    where=DYNAMIC,
)
def gather(b: Emitter, op: Any) -> Sequence[Any] | None:
    """The result, element by element."""
    return [_gathered(b, op, list(op.attributes["slice_sizes"]))]


@legalize(
    "stablehlo.dynamic_gather",
    fault=Fault(
        "missing",
        "Does not compile with dynamic dimensions; computes the result element by element.",
        witness="dynamic/dynamic_gather",
    ),
)
def dynamic_gather(b: Emitter, op: Any) -> Sequence[Any] | None:
    """The result, element by element."""
    sizes = op.operands[2]
    return [_gathered(b, op, [number(b, sizes, i) for i in range(len(op.operands[0].type.shape))])]


def _gathered(b: Emitter, op: Any, taken: Sequence[Any]) -> Any:
    """The result of a gather whose slices have the sizes `taken`."""
    x, indices = op.operands[:2]
    d = hlo.GatherDimensionNumbers(op.attributes["dimension_numbers"])
    own, of_indices, rank = sizes_of(b, x), sizes_of(b, indices), len(op.results[0].type.shape)
    vector = d.index_vector_dim
    batch = [j for j in range(rank) if j not in d.offset_dims]
    fixed = (*d.collapsed_slice_dims, *d.operand_batching_dims)
    windowed = [i for i in range(len(own)) if i not in fixed]
    outer = iter([n for i, n in enumerate(of_indices) if i != vector])
    inner = iter([taken[i] for i in windowed])
    sizes = [next(inner) if j in d.offset_dims else next(outer) for j in range(rank)]
    sizes = known(op.results[0].type, sizes)

    def fill(k: Kernel, places: Sequence[Any], x: Any, indices: Any) -> Any:
        of_batch = [places[j] for j in batch]

        def entry(n: int) -> Any:
            at = list(of_batch)
            if vector < len(of_indices):
                at.insert(vector, k.index(n))
            return k.cast(k.element(indices, *at), ir.IndexType.get())

        at: list[Any] = []
        for i, n in enumerate(own):
            start: Any = 0
            if i in d.start_index_map:
                start = entry(list(d.start_index_map).index(i))
                start = larger(k, smaller(k, start, minus(k, n, taken[i])), 0)
            elif i in d.operand_batching_dims:
                position = d.start_indices_batching_dims[list(d.operand_batching_dims).index(i)]
                start = of_batch[position - (position > vector)]
            if i in windowed:
                start = plus(k, start, places[d.offset_dims[windowed.index(i)]])
            at.append(k.index(start))
        return k.element(x, *at)

    return computed(b, sizes, element(x), [x, wide(b, indices)], fill)


@legalize(
    "stablehlo.concatenate",
    fault=Fault(
        "wrong",
        "On GPUs, may repeat the first operand in place of the second; computes the result element by element.",
        witness="vulkan/dynamic/concatenate",
    ),
    where=DYNAMIC,
)
def concatenate(b: Emitter, op: Any) -> Sequence[Any] | None:
    """On GPUs, the result, element by element."""
    if b.cpu:
        return None
    d = ir.IntegerAttr(op.attributes["dimension"]).value
    own, first = [sizes_of(b, x) for x in op.operands], [0]
    for sizes in own:
        first.append(plus(b, first[-1], sizes[d]))
    whole = known(op.results[0].type, [first[-1] if j == d else n for j, n in enumerate(own[0])])

    def fill(k: Kernel, places: Sequence[Any], *xs: Any) -> Any:
        found = k.zero(xs[0].type.element_type)
        for x, sizes, start in zip(xs, own, first[:-1], strict=True):
            at = [minus(k, n, start) if j == d else n for j, n in enumerate(places)]
            found = _either(k, x, at, sizes, found)
        return found

    return [computed(b, whole, element(op.results[0]), list(op.operands), fill)]


@legalize(
    "stablehlo.get_dimension_size",
    fault=Fault(
        "crash",
        "Does not compile for unsigned integers; bitcasts them to signless ones.",
        witness="dynamic/unsigned",
    ),
    where=DYNAMIC,
)
def get_dimension_size(b: Emitter, op: Any) -> Sequence[Any] | None:
    """The size of unsigned integers, as signless ones."""
    (x,) = op.operands
    return b.clone(op, {0: b.bitcast(x, signless(element(x).width))}) if is_unsigned(x) else None
