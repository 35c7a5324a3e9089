"""Closes Vulkan devices, which are busy as long as they are open."""

import gc

from iree.runtime import system_setup

from tiduc.runtime import devices


def close_vulkan() -> None:
    """Closes the Vulkan devices of this process that no module uses.

    While a device of Mesa's llvmpipe is open, two threads poll for completed work and keep two cores busy.
    """
    closed = False
    for devices_ in (devices._OPEN, system_setup._GLOBAL_DEVICES_BY_URI):
        for name in [name for name in devices_ if name.startswith("vulkan")]:
            del devices_[name]
            closed = True
    if closed:
        gc.collect()  # modules may be parts of cycles
