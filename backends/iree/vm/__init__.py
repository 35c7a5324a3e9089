"""Rewrites of the text of IREE's VM module, which correct IREE's own compilation to its virtual machine.

    releases.py, references.py, registers.py    one fault each, in the order of `VM_PIPELINE`
    recordings.py                               detects a fault that a compiler flag avoids
    text.py                                     functions and branches in the text

IREE's compiler stops before it writes bytecode, these functions rewrite the text, and IREE's compiler goes on.
"""

from tiduc.backends.iree.vm.references import copy_passed_references
from tiduc.backends.iree.vm.registers import widen_block_arguments
from tiduc.backends.iree.vm.releases import replace_early_releases

VM_PIPELINE = (replace_early_releases, copy_passed_references, widen_block_arguments)
"""The rewrites, in order."""


def rewritten(module: bytes) -> bytes:
    """The text of a VM module after all rewrites."""
    text = module.decode("utf-8", "surrogateescape")
    for rewrite in VM_PIPELINE:
        text = rewrite(text)
    return text.encode("utf-8", "surrogateescape")
