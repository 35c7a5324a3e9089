"""gather, pad, reshape, concatenate and dynamic_update_slice of dynamic shapes, computed element by element."""

from collections.abc import Sequence

from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.backends.iree.emit import arrays
from tiduc.backends.iree.emit.emitter import DYNAMIC, Emitter, is_unsigned, legalize
from tiduc.backends.iree.emit.kernels import Kernel
from tiduc.backends.iree.emit.places import starts
from tiduc.backends.iree.emit.sizes import (
    RunTimeSize,
    SizeLike,
    are_known,
    clamped,
    padded,
    with_static_sizes,
)
from tiduc.backends.iree.fault import crash, missing, wrong
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.shapes.types import element


@legalize("stablehlo.dynamic_reshape")
@missing(
    "The op does not compile with dynamic dimensions; tiduc emits `tensor.reshape`.",
    "dynamic/reshape",
    upstream="https://github.com/iree-org/iree/pull/24940",
)
@crash(
    "Some dispatches that read sizes of arrays from a vector do not compile; the host reads the sizes.",
    "dynamic/reshape_by_equal_sizes",
    upstream="https://github.com/iree-org/iree/issues/23555",
)
def dynamic_reshape(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Lowers the op to `tensor.reshape`."""
    x, sizes = op.operands
    return [arrays.in_shape_of(b, x, arrays.read_by_host(b, sizes), op.results[0].type)]


@legalize("stablehlo.real_dynamic_slice")
@crash(
    "Some dispatches that read sizes of arrays from a vector do not compile; tiduc reads the sizes of the arrays.",
    "dynamic/sizes_in_vectors",
    upstream="https://github.com/iree-org/iree/issues/23555",
)
def real_dynamic_slice(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Computes the slice if each bound is a constant or the size of an array, and each stride is a constant.

    Otherwise returns None.
    """
    x, *bounds = op.operands
    starts, limits, strides = (arrays.known_sizes(b, bound) for bound in bounds)
    if starts is None or limits is None or strides is None or not are_known(strides):
        return None
    sizes = [
        (end - start + (step - 1)) // step for start, end, step in zip(starts, limits, strides, strict=True)
    ]
    settled = with_static_sizes(op.results[0].type, sizes)
    return [arrays.part(b, x, starts, settled, strides)]


@legalize("stablehlo.dynamic_update_slice", where=DYNAMIC)
@missing(
    "The op does not compile with dynamic dimensions; tiduc computes the result element by element.",
    "dynamic/update",
)
def dynamic_update_slice(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Computes the result element by element."""
    x, update, *starts = op.operands
    sizes, own = arrays.sizes_of(b, x), arrays.sizes_of(b, update)
    at = [clamped(arrays.number(b, start), n - m) for start, n, m in zip(starts, sizes, own, strict=True)]

    def fill(k: Kernel, places: Sequence[RunTimeSize], x: IrValue, update: IrValue) -> IrValue:
        within = [place - start for place, start in zip(places, at, strict=True)]
        return _either(k, update, within, own, k.element(x, *places))

    return [arrays.computed(b, sizes, element(x), [x, update], fill)]


@legalize("stablehlo.dynamic_pad")
@missing(
    "The op does not compile with dynamic dimensions; tiduc computes the result element by element.",
    "dynamic/dynamic_pad",
    upstream="https://github.com/iree-org/iree/pull/24940",
)
def dynamic_pad(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Computes the result element by element."""
    low, high, interior = (
        [arrays.number(b, padding, d) for d in range(padding.type.shape[0])] for padding in op.operands[2:]
    )
    return [_padded(b, op, low, high, interior)]


@legalize("stablehlo.pad", where=DYNAMIC)
@missing(
    "The op does not compile with negative padding or computed operands; tiduc computes the result element by element.",
    "dynamic/pad_cutting",
)
def pad(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Computes the result element by element."""
    names = "edge_padding_low", "edge_padding_high", "interior_padding"
    return [_padded(b, op, *(list(op.attributes[name]) for name in names))]


def _padded(
    b: Emitter,
    op: IrOp,
    low: Sequence[int | RunTimeSize],
    high: Sequence[int | RunTimeSize],
    interior: Sequence[int | RunTimeSize],
) -> IrValue:
    x, value = op.operands[:2]
    own = arrays.sizes_of(b, x)
    sizes = with_static_sizes(op.results[0].type, padded(own, low, high, interior))

    def fill(k: Kernel, places: Sequence[RunTimeSize], x: IrValue, value: IrValue) -> IrValue:
        moved = [place - n for place, n in zip(places, low, strict=True)]
        steps = [n + 1 for n in interior]
        within = [place // step for place, step in zip(moved, steps, strict=True)]
        divided = zip(moved, within, steps, strict=True)
        on_elements = [k.equal(place, at * step) for place, at, step in divided if step != 1]
        return _either(k, x, within, own, k.element(value), on_elements)

    return arrays.computed(b, sizes, element(x), [x, value], fill)


def _either(
    k: Kernel,
    x: IrValue,
    place: Sequence[RunTimeSize],
    sizes: Sequence[int | RunTimeSize],
    other: IrValue,
    conditions: Sequence[IrValue] = (),
) -> IrValue:
    """The element of x at the indices `place` if they are within `sizes` and the conditions hold; else `other`.

    Code for CPUs has a branch. Code for GPUs has none: it always reads the element at clamped indices, and then selects
    the element or `other`. A branch on a GPU would take one side for several elements at once.
    """
    met = k.all([arrays.is_inside(k, place, sizes), *conditions])
    if k.cpu:
        return k.if_(met, [other.type], lambda k: [k.element(x, *place)], lambda k: [other])[0]
    near = [clamped(i, n - 1) for i, n in zip(place, sizes, strict=True)]
    return k.select_scalar(met, k.element(x, *near), other)


@legalize("stablehlo.gather", where=DYNAMIC)
@wrong(
    "Indices are not clamped, and some forms do not compile; tiduc computes the result element by element.",
    "dynamic/gather_unsigned",
)
def gather(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Computes the result element by element."""
    return [_gathered(b, op, list(op.attributes["slice_sizes"]))]


@legalize("stablehlo.dynamic_gather")
@missing(
    "The op does not compile with dynamic dimensions; tiduc computes the result element by element.",
    "dynamic/dynamic_gather",
    upstream="https://github.com/iree-org/iree/issues/14913",
)
def dynamic_gather(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Computes the result element by element."""
    sizes = op.operands[2]
    return [_gathered(b, op, [arrays.number(b, sizes, i) for i in range(len(op.operands[0].type.shape))])]


def _gathered(b: Emitter, op: IrOp, taken: Sequence[int | RunTimeSize]) -> IrValue:
    """Computes a gather element by element. `taken` has the sizes of a gathered slice, one for each dimension of x."""
    x, indices = op.operands[:2]
    d = hlo.GatherDimensionNumbers(op.attributes["dimension_numbers"])
    own, rank = arrays.sizes_of(b, x), len(op.results[0].type.shape)
    fixed = (*d.collapsed_slice_dims, *d.operand_batching_dims)
    windowed = [i for i in range(len(own)) if i not in fixed]
    outer = iter([n for i, n in enumerate(arrays.sizes_of(b, indices)) if i != d.index_vector_dim])
    inner = iter([taken[i] for i in windowed])
    sizes = [next(inner) if j in d.offset_dims else next(outer) for j in range(rank)]
    batching = dict(zip(d.operand_batching_dims, d.start_indices_batching_dims, strict=True))

    def fill(k: Kernel, places: Sequence[RunTimeSize], x: IrValue, indices: IrValue) -> IrValue:
        batch = [places[j] for j in range(rank) if j not in d.offset_dims]
        at = starts(k, indices, d.index_vector_dim, d.start_index_map, batching, batch, len(own))
        for i in d.start_index_map:
            at[i] = clamped(at[i], own[i] - taken[i])
        for i, j in zip(windowed, d.offset_dims, strict=True):
            at[i] += places[j]
        return k.element(x, *at)

    return arrays.computed(
        b, with_static_sizes(op.results[0].type, sizes), element(x), [x, arrays.wide(b, indices)], fill
    )


@legalize("stablehlo.concatenate", where=DYNAMIC)
@wrong(
    "On GPUs, the result may have the first operand twice; tiduc computes the result element by element.",
    "vulkan/dynamic/concatenate",
)
def concatenate(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Computes the result element by element on GPUs. Returns None on CPUs."""
    if b.cpu:
        return None
    d = ir.IntegerAttr(op.attributes["dimension"]).value
    own, first = [arrays.sizes_of(b, x) for x in op.operands], list[SizeLike]([0])
    for sizes in own:
        first.append(first[-1] + sizes[d])
    whole = with_static_sizes(op.results[0].type, [first[-1] if j == d else n for j, n in enumerate(own[0])])

    def fill(k: Kernel, places: Sequence[RunTimeSize], *xs: IrValue) -> IrValue:
        value = k.number(0, xs[0].type.element_type)
        for x, sizes, start in zip(xs, own, first[:-1], strict=True):
            at = [n - start if j == d else n for j, n in enumerate(places)]
            value = _either(k, x, at, sizes, value)
        return value

    return [arrays.computed(b, whole, element(op.results[0]), list(op.operands), fill)]


@legalize("stablehlo.get_dimension_size", where=DYNAMIC)
@crash(
    "The op does not compile for unsigned integers; tiduc bitcasts them to signless ones.", "dynamic/unsigned"
)
def get_dimension_size(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Bitcasts an array of unsigned integers to signless ones before the op. Returns None for other element types."""
    (x,) = op.operands
    return b.clone(op, {0: arrays.as_signless(b, x)}) if is_unsigned(x) else None
