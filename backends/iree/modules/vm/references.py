"""Copies a reference that a branch passes to a block, if the reference has other uses. IREE may make it null otherwise.

In IREE's virtual machine, a branch empties the register of an operand at the operand's last use. If a branch passes one
reference twice, and one block argument already has the reference's register, the move to the other argument empties
this register. The first block argument is then null (iree-org/iree, pull request 24781). The results of a conditional
or of an iteration share one buffer, so programs with several results often hit this fault.

    vm.br ^bb3(%b, %b : ...)   ->   %copy = vm.select.ref %never, %null, %b;  vm.br ^bb3(%b, %copy : ...)

`%never` is always 0, but is read from a global variable so that the compiler cannot fold the select.

A passed reference is also copied if the target block or a later block uses the reference itself, in addition to the
block argument. Otherwise, both would share a register, and the last use of one of them would empty it for the other.

    vm.br ^bb1(%b : ...)                       %copy = vm.select.ref %never, %null, %b
    ^bb1(%c: ...):                      ->     vm.br ^bb1(%copy : ...)
      vm.br ^bb2(%b : ...)  // %c is null    ^bb1(%c: ...):
"""

from iree.compiler import ir

from tiduc.backends.iree.fault import wrong
from tiduc.backends.iree.modules.ops import IrValue, create
from tiduc.backends.iree.modules.vm.functions import LiveReferences, branches, declare, functions

_FLAG = "_passed_once"
_REFERENCE = "!vm.ref"


@wrong(
    "A branch that passes a buffer twice finds null the second time; tiduc passes a copy of the reference.",
    "null_reference",
    upstream="https://github.com/iree-org/iree/pull/24781",
)
def copy_passed_references(module: ir.Operation) -> bool:
    """Makes branches pass copies of references that have other uses. Returns False if no reference needs a copy."""
    changed = any([_in_function(function) for function in functions(module)])
    if changed:
        declare(module, f"vm.global.i32 private mutable @{_FLAG} : i32")
    return changed


def _in_function(function: ir.Operation) -> bool:
    """Copies references before the branches of a function. Returns False if no reference needs a copy."""
    passed = list(branches(function))
    if not any(each.operands for each in passed):
        return False
    uses = LiveReferences(function)
    copied = []
    for branch, block, numbers in passed:
        operands = [branch.operands[i] for i in numbers]
        for place, (i, x) in enumerate(zip(numbers, operands, strict=True)):
            is_reference = str(x.type).startswith(_REFERENCE)
            if is_reference and (x in operands[:place] or uses.outlives(x, block)):
                copied.append((branch, i, x))
    for branch, i, x in copied:
        branch.operands[i] = _copy(x, branch)
    return bool(copied)


def _copy(x: IrValue, before: ir.Operation) -> IrValue:
    """Inserts a copy of a reference before an op, and returns the copy."""
    i32 = ir.IntegerType.get_signless(32)
    flag = {"global": ir.FlatSymbolRefAttr.get(_FLAG)}
    never = create("vm.global.load.i32", [i32], [], before, flag).result
    nothing = create("vm.const.ref.zero", [x.type], [], before).result
    return create("vm.select.ref", [x.type], [never, nothing, x], before).result
