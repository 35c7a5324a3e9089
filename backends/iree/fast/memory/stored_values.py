"""stored_values: replaces each barrier that only prevents fusion by two reshapes, which end no execution region.

    %y = optimization_barrier %x {tidu.stored}     ->   %r = flow.tensor.reshape %x : 4x5xf32 -> 1x4x5xf32
                                                        %y = reshape %r : 4x5xf32

IREE ends an execution region at each barrier. All values that a region passes to later regions share one allocation,
which lives until the last use of any of them. Within a region, IREE reuses memory after the last use of each value.
`flow.tensor.reshape` is an op of IREE that copies nothing. IREE cancels the two reshapes, but only after it has fused
ops, so they prevent fusion, too. Results do not depend on this pass.

`Emitter.stored` emits these barriers. Barriers of constants move to the start of the function, where no value is live.
If an array has different types in StableHLO and in the dialect `flow`, its barrier is kept.

If a barrier reads a scalar constant, IREE allocates and fills an array in each call of the function, and waits for the
fill. With 40 such barriers, a call took 50 microseconds longer on `local-sync`, and 600 on `local-task`. An integer
that a barrier reads therefore becomes an element of an array of two different numbers, which IREE stores in the module.
"""

from torch_mlir import ir

from tiduc.backends.iree.emit.emitter import STORED, Emitter, rewriting
from tiduc.backends.iree.emit.marks import BARRIER
from tiduc.backends.iree.fault import slow
from tiduc.dialect.graph.functions import functions_in, outer_first, replace
from tiduc.dialect.graph.matching import defined_by
from tiduc.dialect.mlir.constants import integer_in
from tiduc.dialect.mlir.context import context, stage
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.shapes.types import element, shape, with_shape

_RESHAPE = "flow.tensor.reshape"


@slow(
    "IREE ends an execution region at each barrier, and plans the memory of each region alone; tiduc emits reshapes.",
    "suite.py: convnet",
)
@stage
def stored_values(module: ir.Module | IrOp) -> int:
    """Replaces, in place, the barriers that only prevent fusion. Returns the number of replaced barriers."""
    context().allow_unregistered_dialects = True  # never reset (`kernels.py` has the reason)
    count = 0
    for function in functions_in(module):
        for op in outer_first(function, (BARRIER,)):
            if _is_of_constants(op, function):
                _move_to_start(op, function.regions[0].blocks[0])
                _store_beside_another(op)
            elif STORED in op.attributes and _has_equal_types(op.results[0].type):
                with rewriting(op) as b:
                    replace(op, [_apart(b, op.operands[0])])
                count += 1
    return count


def _is_of_constants(op: IrOp, function: IrOp) -> bool:
    """Whether a barrier takes only constants, and is directly in a function's body."""
    is_outside = op.operation.parent == function
    return is_outside and all(defined_by(x, "stablehlo.constant") for x in op.operands)


def _move_to_start(op: IrOp, block: ir.Block) -> None:
    """Moves a barrier and the constants that it takes to the start of a block."""
    for each in (op, *(ir.OpResult(x).owner for x in op.operands)):
        first = block.operations[0].operation
        if each.operation != first:
            each.operation.move_before(first)


def _store_beside_another(op: IrOp) -> None:
    """If a barrier reads only a scalar integer constant, makes it read an array of this and another integer instead."""
    (x,) = op.operands if len(op.operands) == 1 else (None,)
    value = None if x is None or shape(x) else integer_in(ir.OpResult(x).owner.attributes["value"])
    if x is None or value is None or element(x).width < 8:
        return
    with rewriting(op) as b:
        (pair,) = b.barrier(b.table([value, value ^ 1], element(x)))
        number = b.reshape(b.cut(pair, 0, 0, 1), [])
    op.results[0].replace_all_uses_with(number)
    op.erase()


def _has_equal_types(type_: ir.RankedTensorType) -> bool:
    """Whether an array has one type in StableHLO and `flow`: of static shape, with floats or signless integers."""
    if not type_.has_static_shape:
        return False
    element = type_.element_type
    is_plain = isinstance(element, ir.F64Type | ir.F32Type | ir.F16Type | ir.BF16Type)
    return is_plain or (isinstance(element, ir.IntegerType) and element.is_signless)


def _apart(b: Emitter, x: IrValue) -> IrValue:
    """Passes x through the two reshapes, which make IREE store x before it computes the readers of the result."""
    sizes = list(x.type.shape)
    segments = {"operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 0, 0])}
    return b.reshape(b.emit(_RESHAPE, (x,), with_shape(x.type, [1, *sizes]), segments), sizes)
