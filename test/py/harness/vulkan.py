"""Runs programs on GPUs and Vulkan devices in tests, and closes Vulkan devices after use."""

import functools
import gc
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from iree.runtime import system_setup
from numpy.typing import NDArray

from tiduc.backends.iree.compile import compile_source
from tiduc.backends.iree.modules.job import RECORD_EACH_RUN
from tiduc.backends.iree.source import Source
from tiduc.backends.iree.targets import find_target
from tiduc.dialect.errors import TiducError
from tiduc.runtime import devices
from tiduc.runtime.loading import Loaded
from tiduc.runtime.run import Executable

has_device = functools.cache(devices.has_device)


def skip_without_device(target: str) -> None:
    """Skips the test if this machine has no device for the target. The device is not opened."""
    device = find_target(target).device
    if not has_device(device):
        pytest.skip(f"no device for target {target!r}")
    try:
        devices.check_threads(device, target)
    except TiducError as error:
        pytest.skip(str(error))


def module_for_gpus(text: str, target: str) -> bytes:
    """Compiles a program that copies from an argument or to a result, and returns the module.

    For SPIR-V targets, such programs require a compiler flag. `compile` finds this out by a first run of the compiler,
    which this function avoids.
    """
    flags = RECORD_EACH_RUN if find_target(target).spirv else ()
    return compile_source(Source(text, target, flags=flags))


def called(
    vmfb: bytes, target: str, arguments: Mapping[str, Sequence[Any]]
) -> dict[str, tuple[NDArray[Any], ...]]:
    """Maps the names of a module's functions to their results for these arguments.

    The module is loaded once for all functions, because llvmpipe compiles all kernels then, which takes seconds.
    """
    loaded = Loaded(vmfb, target, "")
    return {name: Executable.of(loaded, name)(*given) for name, given in arguments.items()}


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
        gc.collect()  # reference cycles may keep modules alive
