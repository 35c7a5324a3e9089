"""infer_active: sets the active masks of a linear graph. A mask flags the operands of an op that depend on an input.

    ^bb0(%dx):                                     ^bb0(%dx):
      %a = "tidu.external"() {ref = @F0::@a}         %a = "tidu.external"() {ref = @F0::@a}
      %t = stablehlo.multiply %a, %dx          ->    %t = stablehlo.multiply %a, %dx {tidu.active = [0, 1]}

A native pass such as `canonicalize` may replace an op by one without a mask. This pass computes all masks again.
"""

from torch_mlir import ir

from tiduc.dialect.graph.graph import operations
from tiduc.dialect.mlir.context import stage
from tiduc.dialect.ops.ir_types import IrOp
from tiduc.dialect.ops.verify import ACTIVE, INPUT_OF, TERMINATOR

_UNMASKED = ("tidu.name", TERMINATOR)


@stage
def infer_active(graph: IrOp) -> None:
    """Sets the active masks in a `tidu.graph`, in place. Removes the masks of ops without active operands.

    In a graph that is not linear, no operand is active.
    """
    linear = INPUT_OF in graph.attributes
    active = set(graph.regions[0].blocks[0].arguments) if linear else set()
    for op in operations(graph.regions[0].blocks[0]):
        mask = [x in active for x in op.operands]
        if True in mask and op.name not in _UNMASKED:
            op.attributes[ACTIVE] = ir.DenseBoolArrayAttr.get(mask)
            active.update(op.results)
        elif ACTIVE in op.attributes:
            del op.attributes[ACTIVE]
