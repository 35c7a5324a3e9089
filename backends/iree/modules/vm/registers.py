"""Widens 32-bit block arguments to 64 bits in blocks that also have 64-bit arguments.

IREE's virtual machine has 32-bit registers, and a 64-bit number takes two registers. A branch moves its operands to the
registers of the block arguments one after the other. No move may overwrite a register that a later move reads. But for
a 64-bit number, IREE's compiler protects only the first register. For example, a 32-bit loop counter may then receive
half of a 64-bit size, so that the loop ends early.

    vm.br ^bb1(%i, %n : i32, i64)            %wide = vm.ext.i32.i64.u %i
    ^bb1(%j: i32, %m: i64):            ->    vm.br ^bb1(%wide, %n : i64, i64)
                                             ^bb1(%wider: i64, %m: i64):
                                               %j = vm.trunc.i64.i32 %wider
"""

from iree.compiler import ir

from tiduc.backends.iree.fault import wrong
from tiduc.backends.iree.modules.ops import blocks, create, operations
from tiduc.backends.iree.modules.vm.functions import branches, functions, i64

_CALLS = "vm.call.yieldable", "vm.call.variadic.yieldable"
"""Calls that pass their results directly to the next block. Such results cannot be widened before they are passed."""


@wrong(
    "A branch may overwrite a 32-bit operand by half of a 64-bit one; tiduc passes all operands as 64 bits.",
    "threads/counter_beside_sizes",
)
def widen_block_arguments(module: ir.Operation) -> bool:
    """Makes branches pass integers to a block in 64 bits if the block also has a 64-bit argument.

    Returns False if the module has no such block.
    """
    return any([_widened(function) for function in functions(module)])


def _widened(function: ir.Operation) -> bool:
    """Widens 32-bit arguments of those blocks of a function that also have 64-bit arguments.

    Returns False if the function has no such block. The results of `_CALLS` are not widened.
    """
    given = [
        block
        for each in blocks(function)
        for op in operations(each)
        if op.name in _CALLS
        for block in op.successors
    ]
    mixed = [block for block in blocks(function)[1:] if _is_mixed(block) and block not in given]
    passed = [each for each in branches(function) if each.block in mixed]
    for block in mixed:
        first = operations(block)[0]
        for argument in list(block.arguments):
            if str(argument.type) == "i32":
                narrow, wide = argument.type, i64(function.context)
                argument.set_type(wide)
                kept = create("vm.trunc.i64.i32", [narrow], [argument], first)
                argument.replace_all_uses_except(kept.result, kept)
    for branch, block, operands in passed:
        for i, argument in zip(operands, block.arguments, strict=True):
            x = branch.operands[i]
            if x.type != argument.type:
                branch.operands[i] = create("vm.ext.i32.i64.u", [argument.type], [x], branch).result
    return bool(mixed)


def _is_mixed(block: ir.Block) -> bool:
    types = {str(argument.type) for argument in block.arguments}
    return "i32" in types and bool(types & {"i64", "f64"})
