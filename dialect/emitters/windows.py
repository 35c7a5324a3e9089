"""Functions that emit `reduce_window` and `convolution` ops."""

from collections.abc import Sequence

from torch_mlir import ir

from tiduc.dialect.emitters.protocol import Emits, Fill, N, V
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.facts.windows import Layout, Window, padding
from tiduc.dialect.graph.graph import Value
from tiduc.dialect.shapes.types import dims, i64, shape, with_shape


def reduce_window(
    b: Emits[V, N],
    inputs: Sequence[V],
    inits: Sequence[V],
    window: Window,
    fill: Fill,
) -> tuple[V, ...]:
    """Emits a `reduce_window`, and returns its results. `fill` emits the body of the op."""
    sizes, attributes = window.outputs(shape(inputs[0])), window.attributes
    types = [with_shape(x.type, sizes) for x in inputs]
    return b.emit_all("stablehlo.reduce_window", (*inputs, *inits), types, attributes, [fill])


def convolution(
    b: StablehloBuilder,
    x: Value,
    w: Value,
    window: Window,
    layout: Layout,
    groups: tuple[int, int],
    precision: ir.ArrayAttr | None,
) -> Value:
    """x convolved with the kernel w. `groups` are the feature group count and the batch group count."""
    places = window.outputs([shape(x)[d] for d in layout.input[2:]])
    sizes = [shape(x)[layout.input[0]] // groups[1], shape(w)[layout.kernel[1]], *places]
    attributes = {
        "dimension_numbers": layout.attribute,
        "window_strides": dims(window.strides),
        "lhs_dilation": dims(window.base),
        "rhs_dilation": dims(window.dilation),
        "padding": padding(window.low, window.high),
        "feature_group_count": i64(groups[0]),
        "batch_group_count": i64(groups[1]),
    }
    if precision is not None:
        attributes["precision_config"] = precision
    type_ = with_shape(x.type, [sizes[layout.output.index(d)] for d in range(len(sizes))])
    return b.emit("stablehlo.convolution", (x, w), type_, attributes)
