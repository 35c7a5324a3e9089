"""Rewrites of the text of IREE's VM module, which correct IREE's own compilation to its virtual machine."""

from tiduc.backends.iree.vm.references import passed_once
from tiduc.backends.iree.vm.registers import passed_wide
from tiduc.backends.iree.vm.releases import kept_while_used

VM_PIPELINE = (kept_while_used, passed_once, passed_wide)
"""The rewrites, in order."""


def rewritten(module: bytes) -> bytes:
    """The text of a VM module after all rewrites."""
    for rewrite in VM_PIPELINE:
        module = rewrite(module)
    return module
