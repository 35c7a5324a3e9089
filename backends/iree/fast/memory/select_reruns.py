"""select_reruns: replaces the barriers of rematerialized ops by marks, which are copies that IREE never merges.

    %0:2 = optimization_barrier %x, %ct {tidu.recomputed}        ->   %0 = a mark of %x (`marks.py`)

The stage `rematerialize` emits such a barrier before each recomputed op, so that compilers do not merge the op with the
original op. The operand %ct delays the recomputed op until %ct is computed; no op reads %0#1. But IREE ends an
execution region at each barrier. All values that a region passes to later regions share one allocation, which lives
until the last use of any of them, so the peak of memory rises.

A mark also prevents merging, and IREE fuses a mark with the recomputed op. The delay needs no barrier, because IREE
keeps the order of ops. Equal layers still share kernels, because all marks are the same code.

IREE does not fuse marks with products, so the mark of a product's operand is a copy in memory. The barrier of a
recomputed product takes both operands, but a mark of one operand suffices to prevent merging. The larger operand, such
as a weight, therefore gets no mark.
"""

from collections.abc import Hashable

from torch_mlir import ir

from tiduc.backends.iree.emit.arrays import has_dynamic_shape
from tiduc.backends.iree.emit.emitter import STORED, Emitter, is_static, rewriting
from tiduc.backends.iree.emit.marks import marked
from tiduc.backends.iree.fault import slow
from tiduc.dialect.facts.costs import stored_bytes
from tiduc.dialect.graph.dependences import read_by
from tiduc.dialect.graph.functions import functions_in, outer_first
from tiduc.dialect.graph.graph import operations
from tiduc.dialect.graph.matching import defined_by
from tiduc.dialect.mlir.context import stage
from tiduc.dialect.ops.contractions import Contraction
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.ops.verify import RECOMPUTED


@slow(
    "IREE keeps all values that pass a barrier in memory together; tiduc emits marks instead of barriers.",
    "suite.py: transformer",
)
@stage
def select_reruns(module: ir.Module | IrOp) -> int:
    """Replaces, in place, the barriers of rematerialized ops by marks. Returns the number of marks."""
    count = 0
    for function in functions_in(module):
        for block in function.regions[0].blocks:
            _read_in_place(block)
        reruns = [
            op for op in outer_first(function) if RECOMPUTED in op.attributes and not has_dynamic_shape(op)
        ]
        for op in reruns:
            _store_waited(op)
            with rewriting(op) as b:
                for x, y in zip(op.operands, op.results, strict=True):
                    if len(list(y.uses)):
                        y.replace_all_uses_with(marked(b, x))
                        count += 1
            op.erase()
    return count


def _store_waited(op: IrOp) -> None:
    """If a recomputed op waits for a reduction, makes IREE store the reduction, unless it is stored already.

    `op` is the barrier of the recomputed op, which waits for those operands of the barrier whose results no op reads.
    Without the store, IREE would fuse the reduction with its readers, which run later, and the operands of the
    reduction would take memory until then.
    """
    for x, y in zip(op.operands, op.results, strict=True):
        reduction = defined_by(x, "stablehlo.reduce")
        if reduction is None or list(y.uses) or any(STORED in use.owner.attributes for use in x.uses):
            continue
        uses = [(use.owner, use.operand_number) for use in x.uses]
        b = Emitter(ir.InsertionPoint.after(reduction), op.location)
        stored = b.stored(x)
        for owner, number in uses:
            owner.operands[number] = stored


def _read_in_place(block: ir.Block) -> None:
    """Makes each recomputed product read one operand directly, not through a barrier: the larger one if this is safe.

    It is safe if IREE still cannot merge the product with the original one: the other operand must depend on a barrier
    that comes after the last product of an equal form that reads the first operand. If reading the larger operand
    directly is not safe, or if it is not a matrix (`_is_matrix`), the smaller one is tried.
    """
    barriers = 0
    # Barriers are numbered from 1. Maps each value to the latest barrier on which it depends.
    newest: dict[IrValue, int] = {}
    # For each operand (the value before its barriers) and each form of a product: the number of barriers that come
    # before the last product of that form that reads that operand.
    read: dict[Hashable, int] = {}
    for op in operations(block):
        barriers += RECOMPUTED in op.attributes
        if op.name == "stablehlo.dot_general":
            before = [_before_barriers(x) for x in op.operands]
            forms = [
                (x, i, op.attributes["dot_dimension_numbers"], op.operands[1 - i].type)
                for i, x in enumerate(before)
            ]
            for i in sorted((0, 1), key=lambda i: -(stored_bytes(op.operands[i].type) or 0)):
                is_apart = newest.get(op.operands[1 - i], 0) > read.get(forms[i], -1)
                if _recomputed(op.operands[i]) is not None and is_apart and _is_matrix(op, i):
                    op.operands[i] = before[i]
                    break
            read.update(dict.fromkeys(forms, barriers))
        latest = max((newest.get(x, 0) for x in read_by(op)), default=0)
        newest.update(dict.fromkeys(op.results, barriers if RECOMPUTED in op.attributes else latest))


def _is_matrix(op: IrOp, i: int) -> bool:
    """Whether operand i of a product needs only a reshape, no transpose, to be a matrix or a batch of matrices."""
    of, rank = Contraction.of(op), len(op.operands[i].type.shape)
    batches, summed, kept = of.batches[i], of.summed[i], of.kept(i, rank)
    orders = ([*batches, *kept, *summed], [*batches, *summed, *kept])
    return is_static(op.operands[i].type) and list(range(rank)) in orders


def _before_barriers(x: IrValue) -> IrValue:
    """Returns the value that barriers of rematerialized ops pass on as x, or x if it is no result of such a barrier."""
    while (op := _recomputed(x)) is not None:
        x = op.operands[ir.OpResult(x).result_number]
    return x


def _recomputed(x: IrValue) -> ir.OpView | None:
    """The barrier of a rematerialized op whose result is x. Returns None if x is another value."""
    return x.owner if not isinstance(x.owner, ir.Block) and RECOMPUTED in x.owner.attributes else None
