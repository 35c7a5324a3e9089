"""Rules of ops whose shapes are operands. They use the formulas of the static ops, with sizes known at run time."""

from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.facts.windows import padding
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.ops.attributes import without
from tiduc.dialect.ops.verify import ACTIVE
from tiduc.dialect.shapes.origins import entries, sizes_in
from tiduc.dialect.shapes.sizes import any_dynamic
from tiduc.dialect.shapes.types import shape
from tiduc.passes.rules.expansion import expanded
from tiduc.passes.rules.opset import inactive, linear, linearize, unsupported
from tiduc.passes.rules.registry import Tangents
from tiduc.passes.rules.shape import unbroadcast, unpadded, unsliced

# These ops compute shapes in programs of some exporters. The other ops of their dialects take only integers.
inactive("shape.shape_of", "tensor.dim")


@linear("stablehlo.dynamic_broadcast_in_dim", [0])
def dynamic_broadcast_in_dim(b: StablehloBuilder, op: Definition, ct: Value) -> list[Value | None]:
    """Sums over the dimensions that are new or had size 1, then permutes the others to the operand's order."""
    still, more = (
        list(op.attributes[name]) if name in op.attributes else []
        for name in ("known_nonexpanding_dimensions", "known_expanding_dimensions")
    )
    return [
        unbroadcast(b, ct, op.operands[0], list(op.attributes["broadcast_dimensions"]), still, more),
        None,
    ]


@linearize("stablehlo.dynamic_conv")
def dynamic_conv(b: StablehloBuilder, op: Definition, dx: Tangents) -> list[Value | None]:
    """Linearizes the op as a static convolution. Raises `Unsupported` if the padding is not constant."""
    ends = entries(b.reshape(op.operands[2], [2 * sizes_in(op.operands[2].type)[0]]))
    if any_dynamic(ends):
        raise unsupported(
            "jvp",
            op,
            "its padding is known only at run time; make shapes static with stablehlo-refine-shapes",
        )
    attributes = without(op.attributes, ACTIVE) | {"padding": padding(ends[::2], ends[1::2])}

    def plain(x: Value, w: Value) -> list[Value]:
        return [b.emit("stablehlo.convolution", (x, w), op.result.type, attributes)]

    return expanded(b, op.operands[:2], dx[:2], plain)


@linear("stablehlo.dynamic_reshape", [0])
def dynamic_reshape(b: StablehloBuilder, op: Definition, ct: Value) -> list[Value | None]:
    return [b.reshape(ct, shape(op.operands[0])), None]


@linear("stablehlo.dynamic_pad", [0, 1])
def dynamic_pad(b: StablehloBuilder, op: Definition, ct: Value) -> list[Value | None]:
    return [*unpadded(b, op, ct, *map(entries, op.operands[2:])), None, None, None]


@linear("stablehlo.real_dynamic_slice", [0])
def real_dynamic_slice(b: StablehloBuilder, op: Definition, ct: Value) -> list[Value | None]:
    x, start, _, strides = op.operands
    return [unsliced(b, x, ct, entries(start), entries(strides)), None, None, None]


@linear("stablehlo.set_dimension_size", [0])
def set_dimension_size(b: StablehloBuilder, op: Definition, ct: Value) -> list[Value | None]:
    """Appends zeros for the elements that the op cut off, then slices. Fewer targets would support a dynamic pad."""
    x, d = op.operands[0], op.attributes["dimension"].value
    sizes = shape(x)
    if any_dynamic([sizes[d]]):
        raise unsupported(
            "transpose", op, "its operand has a dynamic dimension there, which the new size may exceed"
        )
    both = b.concatenate([ct, b.zeros_like(x)], d)
    return [b.slice(both, [0] * len(sizes), sizes, [1] * len(sizes)), None]
