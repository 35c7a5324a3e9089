"""widen_sums: accumulates sums and products of f16 and bf16 in f32.

    %y = reduce add %x : bf16    ->    %w = convert %x : f32    %s = reduce add %w : f32    %y = convert %s : bf16

IREE adds in the type of the result. A bf16 sum of equal terms stops growing at 256 terms, so that the sum of 4,096 ones
is 256; an f16 sum stops at 2,048 terms. StableHLO leaves the type of intermediate sums open; XLA uses f32.

Matrix products and convolutions keep the types of their operands and compute a result in f32, which is then rounded.
The pass does not change scatters, which round after each update. Nor does it change reductions and windows that neither
add nor multiply.
"""

from collections.abc import Sequence

from torch_mlir import ir

from tiduc.backends.iree.emit.emitter import Emitter, rewrite
from tiduc.backends.iree.fault import wrong
from tiduc.dialect.emitters.bodies import reducer
from tiduc.dialect.emitters.stablehlo_ops import combiner
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.shapes.types import element, with_element

_CONTRACTIONS = "stablehlo.dot_general", "stablehlo.convolution"
_REDUCTIONS = "stablehlo.reduce", "stablehlo.reduce_window"
_ROUNDED = "stablehlo.add", "stablehlo.multiply"


@wrong(
    "IREE adds f16 and bf16 in their own type, so that long sums stop growing; tiduc adds in f32.",
    "half_sum",
    upstream="https://github.com/iree-org/iree/issues/12606",
)
@wrong(
    "IREE adds products of f16 and bf16 in their own type; tiduc computes the result in f32.",
    "half_product",
    upstream="https://github.com/iree-org/iree/issues/19347",
)
@wrong(
    "IREE adds the products of convolutions of f16 and bf16 in their own type; tiduc adds in f32.",
    "half_convolution",
)
@wrong(
    "IREE adds the elements of windows of f16 and bf16 in their own type; tiduc adds in f32.", "half_window"
)
def widen_sums(module: ir.Module | IrOp) -> None:
    """Makes a module's sums and products of f16 and bf16 accumulate in f32, in place."""
    rewrite(module, dict.fromkeys((*_CONTRACTIONS, *_REDUCTIONS), _wide))


def _wide(b: Emitter, op: ir.Operation) -> Sequence[IrValue] | None:
    """Computes an op in f32, and rounds the result to its former type. Returns None for ops that stay unchanged."""
    if len(op.results) != 1 or not isinstance(element(op.results[0]), ir.F16Type | ir.BF16Type):
        return None
    f32 = ir.F32Type.get()
    if op.name in _CONTRACTIONS:
        wide = b.clone(op, {}, [with_element(op.results[0].type, f32)])
    elif (name := reducer(op)) in _ROUNDED:
        operands = [b.convert(x, f32) for x in op.operands]
        attributes = {each: op.attributes[each] for each in op.attributes}
        type_ = with_element(op.results[0].type, f32)
        wide = b.emit_all(op.name, operands, [type_], attributes, [combiner(str(name), f32)])
    else:
        return None
    return [b.convert(wide[0], element(op.results[0]))]
