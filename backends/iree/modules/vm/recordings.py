"""Finds copies in the text of a VM module that Vulkan binds to the first run's arrays.

IREE records the device commands of a program once, in a command buffer whose arrays are slots that each run fills. On
Vulkan a copy from or to a slot uses the arrays of the first run in all later runs. The second run's concatenation is
never written; the copy writes to the memory of the first run's concatenation instead, which may hold another array by
then. A program with such a copy is compiled again, with command buffers that are recorded in each run.
"""

import re

from tiduc.backends.iree.fault import wrong
from tiduc.backends.iree.modules.invariants import or_refuse, require

RECORD_EACH_RUN = ("--iree-hal-indirect-command-buffers=false",)
"""The compiler flag that disables slots: command buffers that would need them are recorded in each run."""

_COPY = re.compile(rb"vm\.call @hal\.command_buffer\.copy_buffer\(([^()]*)\)")
_SLOT = re.compile(rb"%null(?:_\d+)?$")


@wrong(
    "On Vulkan, a recorded copy uses the arrays of the first run in all runs; records in each run.",
    "vulkan/second_run",
)
def copies_bound_arrays(module: bytes) -> bool:
    """Whether a command buffer in the VM text has a copy from or to a slot."""
    return or_refuse(_copies_bound_arrays, module)


def _copies_bound_arrays(module: bytes) -> bool:
    copies = list(_COPY.finditer(module))
    is_known = len(copies) == module.count(b"vm.call @hal.command_buffer.copy_buffer(")
    require(is_known, "a copy has a list of operands")
    for copy in copies:
        _, _, _, source, _, target, *_ = copy[1].split(b", ")
        if _SLOT.match(source) or _SLOT.match(target):
            return True
    return False
