"""repeats: inlines the functions that `fast/compile_time/repeats.py` has outlined.

The edit runs after IREE has formed dispatches. IREE would inline these functions too late, after it has decided to copy
the arrays that they receive. The edit removes the attributes that forbid inlining, and runs MLIR's inliner. Its
invariant: after the inliner has run, no such function and no call of one remains.
"""

from iree.compiler import ir
from iree.compiler.passmanager import PassManager

from tiduc.backends.iree.modules.invariants import require
from tiduc.backends.iree.modules.ops import callee, of_host, operations, symbol

_POLICY, _NEVER = "inlining_policy", "#util.inline.never"
_FUNCTION = "util.func"
_INLINE = "builtin.module(inline{default-pipeline= max-iterations=1})"


def inline_repeats(module: ir.Operation) -> bool:
    """Inlines all calls of functions with the attribute that forbids inlining. Returns False if there are none."""
    functions = [op for op in operations(module.regions[0].blocks[0]) if is_repeat(op)]
    for function in functions:
        del function.attributes[_POLICY]
    names = {symbol(function) for function in functions}
    del functions  # the inliner erases them
    if names:
        PassManager.parse(_INLINE, context=module.context).run(module)
        left = [op for op in of_host(module) if callee(op) in names or (symbol(op) in names)]
        require(not left, "the inliner inlines all calls of functions of repeats")
    return bool(names)


def is_repeat(op: ir.Operation) -> bool:
    """Whether an op is a function with the attribute that forbids inlining."""
    return op.name == _FUNCTION and _POLICY in op.attributes and str(op.attributes[_POLICY]) == _NEVER
