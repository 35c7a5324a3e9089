"""separate_gathers: puts a barrier before an op that reads elements of a dynamic array that IREE computes by index.

    %0 = linalg.generic {... tensor.extract %x[...] ...}            %0 = linalg.generic {... tensor.extract %x[...] ...}
    %1 = select %mask, %0, %c                                ->     %1 = select %mask, %0, %c
    %2 = linalg.generic {... tensor.extract %1[...] ...}            %t = optimization_barrier %1
                                                                    %2 = linalg.generic {... tensor.extract %t[...] ...}

IREE computes an array by index if it is a gather, a concatenation or a reversal. It fuses the array with the
elementwise ops that read it. If the elements of the fused op are wider than its first operand, such as a mask, IREE
treats the op as a conversion, and copies it into the dispatches of its readers. A reader that reads elements at places
that it computes, such as a gather, a pad or the row numbers of a scatter, needs the array as a whole. The dispatch then
stores the array on the stack. IREE rejects that for dynamic sizes.
"""

from torch_mlir import ir

from tiduc.backends.iree.emit.arrays import not_fused
from tiduc.backends.iree.emit.emitter import rewriting
from tiduc.backends.iree.fault import crash
from tiduc.dialect.graph.functions import outer_first
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.ops.traits import ELEMENTWISE, VIEWS
from tiduc.dialect.shapes.types import is_dynamic

_GENERIC, _READ = "linalg.generic", "tensor.extract"
_STARTS = {"stablehlo.concatenate", "stablehlo.reverse"}
_CONTINUES = {
    *ELEMENTWISE,
    *VIEWS,
    "stablehlo.dynamic_broadcast_in_dim",
    "stablehlo.map",
    "tensor.extract_slice",
    "tensor.reshape",
}


@crash(
    "IREE puts a dynamic gather or concatenation that it masks or widens on the stack of an op that reads it by index; "
    "a barrier stores the array.",
    "dynamic/gather_at_limited_places",
)
def separate_gathers(module: ir.Module | IrOp) -> None:
    """Inserts barriers, in place, between dynamic arrays that IREE computes by index and the ops that read elements."""
    by_index = set[IrValue]()
    behind: dict[tuple[IrOp, IrValue], IrValue] = {}
    for op in outer_first(module.operation):
        if op.name == _READ:
            reader = _reader(op)
            if reader is None:
                continue
            x = op.operands[0]
            if x in by_index:
                if (reader, x) not in behind:
                    with rewriting(reader) as b:
                        behind[reader, x] = not_fused(b, x)
                op.operands[0] = behind[reader, x]
            by_index.update(y for y in reader.results if is_dynamic(y.type))
        elif op.name in _STARTS or (
            by_index and op.name in _CONTINUES and any(x in by_index for x in op.operands)
        ):
            by_index.update(y for y in op.results if is_dynamic(y.type))


def _reader(read: IrOp) -> IrOp | None:
    """The op that computes an array by reading elements, or None if the read is not in such an op."""
    op: IrOp | None = read.parent
    while op is not None and op.name != _GENERIC:
        op = op.parent
    return op
