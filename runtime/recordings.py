"""Copies that Vulkan makes only once, of the text of a VM module.

What a program does on a device is recorded once, in a command buffer whose arrays are slots that each run fills. A copy
from an array that is known, such as a constant that was computed when the module was loaded, to one that is a slot has
the target of the first run ever after: on Vulkan the second run's result is never written. Where there is such a copy,
the program is compiled again, and its command buffers are recorded for each run.
"""

import re

ANEW = ("--iree-hal-indirect-command-buffers=false",)
"""The compiler's flag with which command buffers have no slots, and those that would are recorded for each run."""

_COPY = re.compile(rb"vm\.call @hal\.command_buffer\.copy_buffer\(([^()]*)\)")
_NULL = re.compile(rb"%null(?:_\d+)?$")


def copies_once(module: bytes) -> bool:
    """Whether a command buffer has a copy between an array that is known and a slot."""
    for copy in _COPY.finditer(module):
        _, _, _, source, _, target, *_ = copy[1].split(b", ")
        if bool(_NULL.match(source)) != bool(_NULL.match(target)):
            return True
    return False
