"""Detects copy commands in a VM module that, on Vulkan, would copy the arrays of the first run in all later runs, too.

IREE records the device commands of a program once, in a command buffer that has slots for arrays. Each run fills the
slots with its arrays. But on Vulkan, a copy command whose source or target is a slot uses the arrays of the first run
in all later runs. For example, a later run does not write its own concatenation. Instead, it writes to the memory of
the first run's concatenation, where another array may be by then. tiduc compiles a program with such a copy again, with
a flag that makes each run record its own commands.
"""

from iree.compiler import ir

from tiduc.backends.iree.fault import wrong
from tiduc.backends.iree.modules.ops import definition
from tiduc.backends.iree.modules.vm.functions import calls


@wrong(
    "On Vulkan, a recorded copy uses the arrays of the first run in all runs; tiduc records commands in each run.",
    "vulkan/second_run",
)
def copies_bound_arrays(module: ir.Operation) -> bool:
    """Whether a command buffer in a VM module copies from or to a slot. The copy's operand for a slot is null."""
    return any(
        definition(copy.operands[at], "vm.const.ref.zero") is not None
        for copy in calls(module, "hal.command_buffer.copy_buffer", 9)
        for at in (3, 5)  # the source and the target of the copy
    )
