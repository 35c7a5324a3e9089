"""Copies that Vulkan makes only once, of the text of a VM module.

What a program does on a device is recorded once, in a command buffer whose arrays are slots that each run fills. On
Vulkan a copy from a slot or to one takes, ever after, the arrays of the first run: what the second run has concatenated
is never written, and the memory of the first one is, whatever it is by then. Where there is such a copy, the program is
compiled again, and its command buffers are recorded for each run.
"""

import re

ANEW = ("--iree-hal-indirect-command-buffers=false",)
"""The compiler's flag with which command buffers have no slots, and those that would are recorded for each run."""

_COPY = re.compile(rb"vm\.call @hal\.command_buffer\.copy_buffer\(([^()]*)\)")
_SLOT = re.compile(rb"%null(?:_\d+)?$")


def copies_once(module: bytes) -> bool:
    """Whether a command buffer has a copy from a slot or to one."""
    for copy in _COPY.finditer(module):
        _, _, _, source, _, target, *_ = copy[1].split(b", ")
        if _SLOT.match(source) or _SLOT.match(target):
            return True
    return False
