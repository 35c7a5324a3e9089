"""For each target, the device of IREE's runtime that runs the target's modules."""

import platform
from difflib import get_close_matches

from tiduc.dialect.errors import TiducError

_IS_X86_64_LINUX = (platform.system(), platform.machine()) == ("Linux", "x86_64")
_USUAL = {
    "aarch64": "",
    "aarch64-android": "",
    "armv7": "",
    "cortex-m4": "",
    "cpu": "local-sync",
    "cpu-threads": "local-task",
    "cuda": "cuda",
    "hip": "hip",
    "metal": "metal" if platform.system() == "Darwin" else "",
    "riscv32": "",
    "riscv64": "",
    "vmvx": "local-sync",
    "vulkan": "vulkan",
    "wasm32": "",
    "x86_64": "local-sync" if _IS_X86_64_LINUX else "",
}
"""Maps each target to the device that runs its modules on this kind of machine, or to "" if there is none."""


def usual_device(target: str) -> str:
    """Returns the device that runs the modules of a target, or of a variant of a target, such as `cuda:sm_86`.

    Returns "" if this kind of machine has no such device. Raises `TiducError` for an unknown target; the message lists
    the targets.
    """
    base = target.partition(":")[0]
    if base not in _USUAL:
        close = get_close_matches(base, _USUAL, 1, 0.75)
        meant = f"; did you mean {close[0]!r}?" if close else ""
        raise TiducError(f"unknown target {base!r}{meant}; known targets: {', '.join(_USUAL)}")
    return _USUAL[base]
