"""Runs compiled modules on arrays; independent of the `tidu` dialect.

    import tiduc.runtime

    with tiduc.runtime.load("gradient.vmfb") as module:
        gradient = module["main"]
        value, slope = gradient(w, x)  # NumPy arrays in, NumPy arrays out
        w = gradient.keep(w, x)[1]  # ... and on the device

    modules.py, loading.py, run.py      load a module, and call its functions
    signature.py, checks.py, required_sizes.py      the types of arguments, and their checks before a call
    devices.py, placement.py            devices, and arrays on them
    arrays.py, weights.py, files.py, irpa.py        arrays in files and as text
    cache.py                            compiled modules on disk
    isolated.py, worker.py, process.py  calls in other processes
    lapack.py                           functions that modules call back

This folder requires only NumPy and IREE's runtime, because a device has nothing else. Facts about IREE's compiler
belong in `backends/iree/`. Each public name is imported on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tiduc.dialect.errors import InputError, RequestError, TiducError
    from tiduc.runtime.devices import DeviceArray, available_devices
    from tiduc.runtime.modules import load
    from tiduc.runtime.process import Limits
    from tiduc.runtime.run import Executable, Module
    from tiduc.runtime.signature import Signature

_MODULE_OF = {
    "DeviceArray": "tiduc.runtime.devices",
    "Executable": "tiduc.runtime.run",
    "InputError": "tiduc.dialect.errors",
    "Limits": "tiduc.runtime.process",
    "Module": "tiduc.runtime.run",
    "RequestError": "tiduc.dialect.errors",
    "Signature": "tiduc.runtime.signature",
    "TiducError": "tiduc.dialect.errors",
    "available_devices": "tiduc.runtime.devices",
    "load": "tiduc.runtime.modules",
}

__all__ = [
    "DeviceArray",
    "Executable",
    "InputError",
    "Limits",
    "Module",
    "RequestError",
    "Signature",
    "TiducError",
    "available_devices",
    "load",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'tiduc.runtime' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_MODULE_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
