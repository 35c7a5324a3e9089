"""Reads functions, calls and branches in modules of IREE's dialect `vm`, and creates calls and declarations."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from iree.compiler import ir

from tiduc.backends.iree.modules.invariants import require
from tiduc.backends.iree.modules.ops import (
    IrValue,
    blocks,
    callee,
    create,
    operations,
    parsed,
    segments,
    symbol,
)

_MODULE, _CALL = "vm.module", "vm.call"
_FUNCTIONS = "vm.func", "vm.initializer"
_BRANCH, _CONDITION, _TABLE = "vm.br", "vm.cond_br", "vm.br_table"
_OTHER_TERMINATORS = "vm.return", "vm.fail", "vm.call.yieldable", "vm.call.variadic.yieldable", "vm.yield"


class Passed(NamedTuple):
    """The operands that a branch passes to one of its successors.

    `operands` has, for each argument of `block`, the index of its value in the list of all operands of `branch`.
    """

    branch: ir.Operation
    block: ir.Block
    operands: Sequence[int]


def body(module: ir.Operation) -> ir.Block:
    """Returns the block of the only `vm.module` in `module`."""
    (inner,) = (op for op in operations(module.regions[0].blocks[0]) if op.name == _MODULE)
    return blocks(inner)[0]


def functions(module: ir.Operation) -> list[ir.Operation]:
    """Returns the functions and initializers of the only `vm.module` in `module`."""
    return [op for op in operations(body(module)) if op.name in _FUNCTIONS]


def calls(module: ir.Operation, function: str, operands: int) -> list[ir.Operation]:
    """Returns the calls of a function. Raises `Broken` unless each is a `vm.call` with `operands` operands."""
    found = [
        op
        for each in functions(module)
        for block in blocks(each)
        for op in operations(block)
        if callee(op) == function
    ]
    is_known = all(op.name == _CALL and len(op.operands) == operands for op in found)
    require(is_known, f"calls of {function} have {operands} operands")
    return found


def branches(function: ir.Operation) -> Iterator[Passed]:
    """Yields a `Passed` for each branch of a function and each successor of the branch.

    Raises `Broken` if a block ends with an unknown terminator.
    """
    for block in blocks(function):
        if not block.operations:
            continue
        last = operations(block)[-1]
        if last.name in (_BRANCH, _CONDITION, _TABLE):
            yield from _passed(last)
        else:
            require(last.name in _OTHER_TERMINATORS, "a block ends in a branch, a return or a failure")


def repeated(function: ir.Operation) -> list[ir.Block]:
    """Returns the blocks from the target of each branch backwards up to the branch: those that a loop may repeat."""
    every = blocks(function)
    spans = [(every.index(passed.block), every.index(passed.branch.block)) for passed in branches(function)]
    return [block for i, block in enumerate(every) if any(first <= i <= last for first, last in spans)]


def _passed(branch: ir.Operation) -> Iterator[Passed]:
    total = len(branch.operands)
    if branch.name == _BRANCH:
        counts = [total]
    elif branch.name == _CONDITION:
        counts = [len(part) for part in segments(branch)[1:]]
    else:  # operand 0 selects the case, and the operands for the default block come next
        cases = list(ir.DenseI32ArrayAttr(branch.attributes["case_operand_segments"]))
        counts = [total - 1 - sum(cases), *cases]
    successors, start = list(branch.successors), total - sum(counts)
    require(len(successors) == len(counts), "a branch passes operands to each of its blocks")
    for block, count in zip(successors, counts, strict=True):
        passed = Passed(branch, block, range(start, start + count))
        types = [branch.operands[i].type for i in passed.operands]
        is_typed = types == [argument.type for argument in block.arguments]
        require(is_typed, "a branch passes an operand for each argument of a block")
        yield passed
        start += count


def call(
    function: str,
    results: Sequence[ir.Type],
    operands: Sequence[IrValue],
    before: ir.Operation,
    attributes: Mapping[str, ir.Attribute] | None = None,
) -> ir.Operation:
    """Creates a call of a function, inserts it before the op `before`, and returns it."""
    named = {**(attributes or {}), "callee": ir.FlatSymbolRefAttr.get(function)}
    return create(_CALL, results, operands, before, named)


def declare(module: ir.Operation, declaration: str) -> None:
    """Inserts a declaration at the start of a VM module, unless the module declares that name already."""
    inside = parsed(f"vm.module @m {{ {declaration} }}", module.context)
    declared, *_ = operations(blocks(inside)[0])  # the other op is the module's terminator
    block = body(module)
    if symbol(declared) not in map(symbol, operations(block)):
        ir.InsertionPoint.at_block_begin(block).insert(declared.detach_from_parent())


def i64(context: ir.Context) -> ir.Type:
    """The type of 64-bit integers."""
    return ir.IntegerType.get_signless(64, context)


def zero(before: ir.Operation) -> IrValue:
    """The 64-bit integer 0."""
    return create("vm.const.i64.zero", [i64(before.context)], [], before).result
