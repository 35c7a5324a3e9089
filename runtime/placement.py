"""The device of IREE's runtime that runs the modules of each target."""

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
"""For each target, the device that runs its modules on this kind of machine, or "" if there is none."""


def usual_device(target: str) -> str:
    """The device for a target or a variant, such as `cuda:sm_86`. Empty if this machine has no such device.

    Raises `TiducError`, which lists the targets, for an unknown target.
    """
    base = target.partition(":")[0]
    if base not in _USUAL:
        close = get_close_matches(base, _USUAL, 1, 0.75)
        meant = f"; did you mean {close[0]!r}?" if close else ""
        raise TiducError(f"unknown target {base!r}{meant}; known targets: {', '.join(_USUAL)}")
    return _USUAL[base]
