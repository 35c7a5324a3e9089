"""Rules of dynamic_slice and dynamic_update_slice. Both ops clamp indices equally, so each transposes to the other."""

from typing import Any

from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.shapes.types import shape
from tiduc.passes.rules.opset import linear


@linear("stablehlo.dynamic_slice", [0])
def dynamic_slice(b: StablehloBuilder, op: Definition, ct: Value) -> list[Value | None]:
    x, *start = op.operands
    return [b.dynamic_update_slice(b.zeros_like(x), ct, start), *(None for _ in start)]


@linear("stablehlo.dynamic_update_slice", [0, 1])
def dynamic_update_slice(b: StablehloBuilder, op: Definition, ct: Value) -> list[Any]:
    _, update, *start = op.operands
    return [
        lambda: b.dynamic_update_slice(ct, b.zeros_like(update), start),
        lambda: b.dynamic_slice(ct, start, shape(update)),
        *(None for _ in start),
    ]
