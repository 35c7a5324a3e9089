"""write_results_last: writes a result into an argument's memory only after the last read of the argument.

    f(%p {iree.abi.output = 0 : index}, %g):  return p - g, sum(p)
        ->  %r:2 = optimization_barrier p - g, sum(p);  return %r:2

The attribute says that result 0 reuses the memory of %p. IREE writes the result directly to this memory, even if ops
that compute other results have not read the argument yet. The results of these ops would then be wrong. Because of the
barrier, all results are computed before the first result is copied to the argument's memory.

No barrier is needed if an element of the result depends only on the argument's element at the same index, and nothing
else reads the argument. Then each element is read before it is written, however ops are fused. Such a result is not
copied.
"""

from torch_mlir import ir

from tiduc.backends.iree.emit.arrays import behind_barrier
from tiduc.backends.iree.emit.emitter import Emitter
from tiduc.backends.iree.emit.updates import COMPUTED, alternatives, copied, size_in_bits
from tiduc.backends.iree.fault import wrong
from tiduc.backends.iree.faults.updates_after_reads import donated_arguments
from tiduc.backends.iree.settings import Settings
from tiduc.dialect.graph.dependences import is_constant, reached
from tiduc.dialect.graph.functions import functions_in
from tiduc.dialect.graph.graph import terminator
from tiduc.dialect.graph.matching import definition
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.ops.traits import ELEMENTWISE, VIEWS
from tiduc.dialect.shapes.types import is_dynamic


@wrong(
    "IREE writes a result into an argument's memory before other ops have read it; a barrier delays the write.",
    "donation",
)
def write_results_last(module: ir.Module | IrOp, settings: Settings) -> None:
    """Inserts a barrier, in place, before the return of each function that would write a result too early."""
    for function in functions_in(module):
        if len(function.regions[0].blocks) == 1:
            _order(function, settings.cpu)


def _order(function: IrOp, cpu: bool) -> None:
    block = function.regions[0].blocks[0]
    last = terminator(block)
    given_to = donated_arguments(function)
    in_place = {place for i, place in given_to.items() if _in_place(block.arguments[i], last, place, cpu)}
    if in_place == {*given_to.values()}:
        return
    b = Emitter(ir.InsertionPoint(last), function.location)
    taken = [block.arguments[i] for i in given_to]
    for place, x in enumerate(last.operands):
        # A barrier copies nothing, so a result that may be a donated argument could still share the argument's memory.
        others = [block.arguments[i] for i, own in given_to.items() if own != place]
        if any(y in taken for y in alternatives(x, block)) or _may_be(x, others):
            last.operands[place] = copied(b, x)
    for place, x in enumerate(behind_barrier(b, *last.operands)):
        if place not in in_place:
            # On Vulkan, IREE would copy x wrongly if the memory does not start at the beginning of its buffer.
            last.operands[place] = x if cpu or is_dynamic(x.type) else copied(b, x)


_PARTS = VIEWS | {"stablehlo.dynamic_slice", "stablehlo.dynamic_update_slice"}
"""Ops that may fold to an operand of equal size, even if several operands are not constant."""


def _may_be(x: IrValue, arguments: list[IrValue]) -> bool:
    """Whether the compiler may fold a value to one of `arguments`. It folds x + 0 to x, for example.

    The compiler folds an op only if exactly one operand is not constant.
    """

    def foldable(y: IrValue) -> list[IrValue]:
        op = definition(y)
        if op is None or op.name in COMPUTED:
            return []
        operands = {z for z in op.operands if not is_constant(z)}
        if op.name == "stablehlo.optimization_barrier":
            operands = {op.operands[ir.OpResult(y).result_number]}
        if len(operands) != 1 and op.name not in _PARTS:
            return []
        return [z for z in operands if size_in_bits(z) == size_in_bits(y)]

    return any(y in arguments for y in reached([x], foldable))


def _in_place(x: IrValue, last: IrOp, place: int, cpu: bool) -> bool:
    """Whether only elementwise ops read the argument x, and only to compute the result with the index `place`.

    The result must have the type of x. On targets other than CPUs, it must also depend on x, and not be x itself.
    """

    def is_elementwise(op: IrOp) -> bool:
        return op.name in ELEMENTWISE and bool(op.results[0].type.shape == x.type.shape)

    def results(y: IrValue) -> list[IrValue]:
        return [use.owner.operation.results[0] for use in y.uses if is_elementwise(use.owner.operation)]

    read, result = set(reached([x], results)), last.operands[place]
    for use in (use for y in read for use in y.uses):
        reader = use.owner.operation
        if use.operand_number != place if reader == last else not is_elementwise(reader):
            return False
    return bool(result.type == x.type) and (cpu or (result in read and result != x))
