"""widen_sums: accumulates sums and products of f16 and bf16 in f32.

    %y = reduce add %x : bf16    ->    %w = convert %x : f32    %s = reduce add %w : f32    %y = convert %s : bf16

IREE adds in the type of the result. A sum in bf16 stops growing at 256 times its terms, and one in f16 at 2,048 times:
the sum of 4,096 ones is 256. StableHLO leaves the type of intermediate sums open; XLA uses f32.

Products of matrices and convolutions keep their operands' types, and have a result in f32. Reductions and windows by
functions other than sums and products round after each op, as written, and so do scatters.
"""

from collections.abc import Sequence
from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.emit.emitter import Emitter
from tiduc.backends.iree.fault import wrong
from tiduc.dialect.emitters.bodies import reducer
from tiduc.dialect.emitters.stablehlo_ops import combiner
from tiduc.dialect.graph.functions import replace, within
from tiduc.dialect.ops.ir_types import IrOp
from tiduc.dialect.shapes.types import element, with_element

_CONTRACTIONS = "stablehlo.dot_general", "stablehlo.convolution"
_REDUCTIONS = "stablehlo.reduce", "stablehlo.reduce_window"
_ROUNDED = "stablehlo.add", "stablehlo.multiply"


@wrong(
    "Adds f16 and bf16 in their own type, so that long sums stop growing; adds in f32.",
    "half_sum",
    upstream="https://github.com/iree-org/iree/issues/12606",
)
@wrong(
    "Adds products of f16 and bf16 in their own type; a result in f32 instead.",
    "half_product",
    upstream="https://github.com/iree-org/iree/issues/19347",
)
@wrong("Adds the products of convolutions of f16 and bf16 in their own type, too.", "half_convolution")
@wrong("Adds the elements of windows of f16 and bf16 in their own type, too.", "half_window")
def widen_sums(module: ir.Module | IrOp) -> None:
    """Rewrites a module's sums and products of f16 and bf16, in place."""
    for op in within(module.operation, (*_CONTRACTIONS, *_REDUCTIONS)):
        if len(op.results) != 1 or not isinstance(element(op.results[0]), ir.F16Type | ir.BF16Type):
            continue
        b = Emitter(ir.InsertionPoint(op), op.location)
        if op.name in _CONTRACTIONS:
            wide: Sequence[Any] = b.clone(op, {}, [with_element(op.results[0].type, ir.F32Type.get())])
        elif reducer(op) in _ROUNDED:
            wide = _reduced(b, op)
        else:
            continue
        replace(op, [b.convert(wide[0], element(op.results[0]))])


def _reduced(b: Emitter, op: Any) -> Sequence[Any]:
    """The reduction, or the windows, in f32."""
    f32 = ir.F32Type.get()
    operands = [b.convert(x, f32) for x in op.operands]
    attributes = {name: op.attributes[name] for name in op.attributes}
    type_ = with_element(op.results[0].type, f32)
    return b.emit_all(op.name, operands, [type_], attributes, [combiner(str(reducer(op)), f32)])
