"""Rewrites of the text of IREE's VM module, which correct IREE's own compilation to its virtual machine."""

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
