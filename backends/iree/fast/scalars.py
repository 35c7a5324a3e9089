"""Scalar arithmetic in `arith` ops, and `linalg.generic` ops that compute arrays with it in kernels.

    %y = linalg.generic ins(%x : tensor<9xf32>) { ... arith.mulf ... linalg.yield %0 } -> tensor<9xf32>

IREE fuses elementwise StableHLO into such ops itself, but not within kernels: each op would need an array.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.emitter import Emitter
from tiduc.backends.iree.fast.kernels import Kernel
from tiduc.dialect.bodies import Fill
from tiduc.dialect.types import element

_FLOATS = {
    "stablehlo.add": "arith.addf",
    "stablehlo.divide": "arith.divf",
    "stablehlo.multiply": "arith.mulf",
    "stablehlo.negate": "arith.negf",
    "stablehlo.subtract": "arith.subf",
}
_INTEGERS = {
    "stablehlo.and": "arith.andi",
    "stablehlo.maximum": "arith.maxsi",
    "stablehlo.shift_left": "arith.shli",
    "stablehlo.xor": "arith.xori",
}


class Numbers(Kernel):
    """Emits on scalars what `Emitter` emits on arrays, for the ops in this file."""

    def emit_all(
        self,
        name: str,
        operands: Sequence[Any],
        types: Sequence[Any],
        attributes: Mapping[str, Any] | None = None,
        regions: Sequence[Fill] = (),
    ) -> tuple[Any, ...]:
        of_numbers = {**_FLOATS, **_INTEGERS}.get(name, name)
        return super().emit_all(of_numbers, operands, types, attributes, regions)

    def like(self, value: Any, x: Any) -> Any:
        return self.number(value, x.type)

    def abs(self, x: Any) -> Any:
        return self.emit("math.absf", (x,), x.type)

    def bitcast(self, x: Any, element_type: Any) -> Any:
        return self.emit("arith.bitcast", (x,), element_type)

    def convert(self, x: Any, element_type: Any) -> Any:
        """A float converted to another float type."""
        if x.type == element_type:
            return x
        return self.emit(
            f"arith.{'ext' if x.type.width < element_type.width else 'trunc'}f", (x,), element_type
        )

    def compare(self, x: Any, y: Any, direction: str) -> Any:
        """A comparison of floats."""
        return self.compared(f"o{direction.lower()}", x, y)

    def select(self, condition: Any, x: Any, y: Any) -> Any:
        return self.either(condition, x, y)


def elementwise(b: Emitter, x: Any, output: Any, fill: Callable[[Numbers, Any], Any]) -> Any:
    """Writes `fill(emitter, element)` for each element of x to `output`; both have one dimension."""
    return _generic(b, x, output, ir.AffineMap.get_identity(1), "parallel", lambda k, x, _: fill(k, x))


def accumulated(b: Emitter, x: Any, start: Any, fill: Callable[[Numbers, Any, Any], Any]) -> Any:
    """A fold of `fill(emitter, element, accumulator)` over a one-dimensional x, from `start`, without dimensions."""
    return _generic(b, x, start, ir.AffineMap.get(1, 0, []), "reduction", fill)


def _generic(b: Emitter, x: Any, output: Any, of_output: Any, iterator: str, fill: Callable[..., Any]) -> Any:
    types = [element(x), element(output)]

    def run(region: Any) -> None:
        block = region.blocks.append(*types, arg_locs=[b.location] * 2)
        inner = Numbers(ir.InsertionPoint(block), b.location)
        inner.emit_all("linalg.yield", (fill(inner, *block.arguments),), ())

    maps = [ir.AffineMapAttr.get(map_) for map_ in (ir.AffineMap.get_identity(1), of_output)]
    attributes = {
        "indexing_maps": ir.ArrayAttr.get(maps),
        "iterator_types": ir.Attribute.parse(f"[#linalg.iterator_type<{iterator}>]"),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 1]),
    }
    return b.emit_all("linalg.generic", (x, output), [output.type], attributes, [run])[0]
