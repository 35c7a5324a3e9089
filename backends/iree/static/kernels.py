"""local_memory: the memory that a dispatch of a kernel allocates for its workgroups, beside the kernel's buffers."""

from collections.abc import Sequence

from iree.compiler import ir

_PAGE = 4096
"""The bytes of a page. IREE's library states the local memory of a kernel in pages, and `dispatch.c` allocates them."""

_KEY = "workgroup_local_memory"


def local_memory(export: ir.Operation) -> Sequence[int]:
    """The size of the block that a dispatch allocates, in bytes, if the kernel has local memory. Else no size.

    `export` is the kernel's `hal.executable.export`.
    """
    size = int(export.attributes[_KEY].value) if _KEY in export.attributes else 0
    return [-(-size // _PAGE) * _PAGE] if size else []
