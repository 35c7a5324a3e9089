"""Rewrites of the text of IREE's VM module, which correct IREE's own compilation to its virtual machine.

    releases.py, references.py, registers.py    one fault each, in the order of `VM_PIPELINE`
    large_arrays.py                             for speed, with several threads; the last one
    recordings.py                               detects a fault that a compiler flag avoids
    text.py                                     functions and branches in the text

IREE's compiler stops before it writes bytecode, these functions rewrite the text, and IREE's compiler goes on. Each of
them checks that it knows the form of all ops that it may have to rewrite (`../invariants.py`). A program is refused
where a rewrite that corrects it does not know an op; the rewrite for speed is left out.
"""

from tiduc.backends.iree.modules.invariants import or_refuse, unless_broken
from tiduc.backends.iree.modules.vm.large_arrays import keep_large_arrays
from tiduc.backends.iree.modules.vm.references import copy_passed_references
from tiduc.backends.iree.modules.vm.registers import widen_block_arguments
from tiduc.backends.iree.modules.vm.releases import replace_early_releases

VM_PIPELINE = (replace_early_releases, copy_passed_references, widen_block_arguments)
"""The rewrites that correct programs, in order."""


def rewritten(module: bytes, threaded: bool = False) -> bytes:
    """The text of a VM module after all rewrites; `threaded`: IREE's device for threads is to run it."""
    text = module.decode("utf-8", "surrogateescape")
    for rewrite in VM_PIPELINE:
        text = or_refuse(rewrite, text)
    if threaded:
        text = unless_broken(keep_large_arrays, text) or text
    return text.encode("utf-8", "surrogateescape")
