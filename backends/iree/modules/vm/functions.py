"""Reads functions, calls and branches in modules of IREE's dialect `vm`, and creates calls and declarations."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from iree.compiler import ir

from tiduc.backends.iree.modules.invariants import require
from tiduc.backends.iree.modules.ops import (
    IrValue,
    blocks,
    callee,
    create,
    definition,
    operations,
    parsed,
    segments,
    symbol,
)

_MODULE, _CALL = "vm.module", "vm.call"
_FUNCTIONS = "vm.func", "vm.initializer"
_BRANCH, _CONDITION, _TABLE = "vm.br", "vm.cond_br", "vm.br_table"
AWAIT = (
    "vm.import private @hal.fence.await(%timeout_millis : i32, %flags : i64, %fences : !vm.ref<!hal.fence> ...) "
    "-> i32 attributes {vm.yield}"
)
"""The declaration of the function that waits for fences."""
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


class LiveReferences:
    """The blocks of a function at whose start a reference is live."""

    def __init__(self, function: ir.Operation) -> None:
        self._before: dict[ir.Block, list[ir.Block]] = defaultdict(list)
        self._live: dict[IrValue, set[ir.Block]] = {}
        for block in blocks(function):
            for other in operations(block)[-1].successors:
                self._before[other].append(block)

    def outlives(self, x: IrValue, block: ir.Block) -> bool:
        """Whether a value is live at the start of a block.

        This holds if a path from the block's start leads to a use of the value, without passing the value's definition.
        """
        if x not in self._live:
            op = definition(x)
            defined_in = x.owner if op is None else op.block
            left = [use.owner.operation.block for use in x.uses]
            live: set[ir.Block] = set()
            while left:
                at = left.pop()
                if at not in live and at != defined_in:
                    live.add(at)
                    left += self._before[at]
            self._live[x] = live
        return block in self._live[x]

    def is_last_use(self, x: IrValue, op: ir.Operation) -> bool:
        """Whether no path from the end of an op, which uses x, leads to another use of x."""
        inside = operations(op.block)
        after = inside[inside.index(op) + 1 :]
        if any(use.owner.operation in after for use in x.uses):
            return False
        return not any(self.outlives(x, block) for block in inside[-1].successors)


def repeated(function: ir.Operation) -> set[ir.Block]:
    """Returns the blocks that a loop may repeat: those from the target of a branch backwards up to the branch."""
    every = blocks(function)
    place = {block: i for i, block in enumerate(every)}
    found: set[ir.Block] = set()
    for branch, block, _ in branches(function):
        found.update(every[place[block] : place[branch.block] + 1])
    return found


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


def wait_before(op: ir.Operation, fence: IrValue) -> None:
    """Makes the program wait for a fence before an op. Divides the op's block, and ignores errors of the device.

    The module must declare `AWAIT`.
    """
    block, i32, long = op.block, ir.IntegerType.get_signless(32), i64(op.context)
    inside = operations(block)
    forever = create("vm.const.i32", [i32], [], op, {"value": ir.IntegerAttr.get(i32, -1)}).result
    operands = [forever, zero(op), fence]
    rest = block.create_after(i32, arg_locs=[op.location])
    for following in inside[inside.index(op) :]:
        rest.append(following)
    attributes = {
        "callee": ir.FlatSymbolRefAttr.get("hal.fence.await"),
        "result_types": ir.ArrayAttr.get([ir.TypeAttr.get(i32)]),
        "segment_sizes": ir.Attribute.parse("dense<[-1, -1, 1]> : vector<3xi16>"),
        "segment_types": ir.ArrayAttr.get([ir.TypeAttr.get(x) for x in (i32, long, fence.type)]),
    }
    ir.Operation.create(
        "vm.call.variadic.yieldable",
        operands=operands,
        attributes=attributes,
        successors=[rest],
        loc=op.location,
        ip=ir.InsertionPoint(block),
    )
