"""`load` loads a compiled module, in this process or in a separate process."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, overload

from tiduc.runtime.files import read_bytes
from tiduc.runtime.isolated import IsolatedModule
from tiduc.runtime.process import Limits
from tiduc.runtime.run import Module

# At run time, `overload` would keep this module's globals alive, and with them the devices, after IREE is unloaded.
if TYPE_CHECKING:

    @overload
    def load(
        source: bytes | str | os.PathLike[str],
        target: str = "cpu",
        devices: Sequence[str] = (),
        parameters: str | os.PathLike[str] | None = None,
        isolated: Literal[False] = False,
        limits: Limits | None = None,
    ) -> Module: ...

    @overload
    def load(
        source: bytes | str | os.PathLike[str],
        target: str = "cpu",
        devices: Sequence[str] = (),
        parameters: str | os.PathLike[str] | None = None,
        *,
        isolated: Literal[True],
        limits: Limits | None = None,
    ) -> IsolatedModule: ...


def load(
    source: bytes | str | os.PathLike[str],
    target: str = "cpu",
    devices: Sequence[str] = (),
    parameters: str | os.PathLike[str] | None = None,
    isolated: bool = False,
    limits: Limits | None = None,
) -> Module | IsolatedModule:
    """Loads the module in a `.vmfb` file, or in the file's bytes. Raises `TiducError` if that fails.

    `target` is the target that the module was compiled for. `devices` names the devices to use instead of the target's
    default device, as in `tiduc.runtime.available_devices()`. A module for several devices needs one name for each.
    `parameters` is the archive (`.irpa`, `.safetensors`) of the parameters that the module reads. With `isolated`, a
    separate process loads and runs the module, so that a crash becomes a `TiducError`. `limits` are the time and the
    memory for loading and for each call.
    """
    vmfb, name = (source, "") if isinstance(source, bytes) else (read_bytes(source), os.fspath(source))
    if isolated:
        return IsolatedModule(vmfb, target, name, devices, parameters, limits)
    return Module(vmfb, target, name, devices, parameters)
