"""infer_active: writes the missing active masks of a linear graph, and corrects the others.

    ^bb0(%dx):                                     ^bb0(%dx):
      %a = "tidu.external"() {ref = @F0::@a}         %a = "tidu.external"() {ref = @F0::@a}
      %t = stablehlo.multiply %a, %dx          ->    %t = stablehlo.multiply %a, %dx {tidu.active = [0, 1]}

A native pass such as `canonicalize` may replace an op by one without a mask. The masks follow from the graph: a value
is active if it depends on an input.
"""

from torch_mlir import ir

from tiduc.dialect.graph.graph import operations
from tiduc.dialect.mlir.context import stage
from tiduc.dialect.ops.ir_types import IrOp
from tiduc.dialect.ops.verify import ACTIVE, INPUT_OF, TERMINATOR

_UNMASKED = ("tidu.name", TERMINATOR)


@stage
def infer_active(graph: IrOp) -> None:
    """Sets the active masks of a `tidu.graph`, in place. Removes masks from a graph that is not linear."""
    linear = INPUT_OF in graph.attributes
    active = set(graph.regions[0].blocks[0].arguments) if linear else set()
    for op in operations(graph.regions[0].blocks[0]):
        mask = [x in active for x in op.operands]
        if True in mask and op.name not in _UNMASKED:
            op.attributes[ACTIVE] = ir.DenseBoolArrayAttr.get(mask)
            active.update(op.results)
        elif ACTIVE in op.attributes:
            del op.attributes[ACTIVE]
