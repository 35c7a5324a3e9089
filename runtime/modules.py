"""`load` loads a compiled module in this process or in a separate process."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, overload

from tiduc.runtime.files import read_bytes
from tiduc.runtime.isolated import IsolatedModule
from tiduc.runtime.process import Limits
from tiduc.runtime.run import Module

# At run time, `overload` would keep this file's globals alive. They refer to devices, which must not outlive IREE.
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
    """Loads a module from a `.vmfb` file, or from the bytes of such a file. Raises `TiducError` if that fails.

    `target` is the target for which the module was compiled. `devices` names the devices to use instead of the target's
    default device; `tiduc.runtime.available_devices()` lists the names. A module for several devices needs a name for
    each device. `parameters` is the archive (`.irpa`, `.safetensors`) of the parameters that the module reads. With
    `isolated`, a separate process loads and runs the module, and a crash raises `TiducError`. `limits` are the limits
    of time and memory for loading the module and for each call; they apply only with `isolated`.
    """
    vmfb, name = (source, "") if isinstance(source, bytes) else (read_bytes(source), os.fspath(source))
    if isolated:
        return IsolatedModule(vmfb, target, name, devices, parameters, limits)
    return Module(vmfb, target, name, devices, parameters)
