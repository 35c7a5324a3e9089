"""Runs compiled modules on arrays. This package does not depend on the `tidu` dialect.

    import tiduc.runtime

    with tiduc.runtime.load("gradient.vmfb") as module:
        gradient = module["main"]
        value, slope = gradient(w, x)  # takes NumPy arrays and returns NumPy arrays
        w = gradient.keep(w, x)[1]  # leaves the results on the device

    modules.py, loading.py, run.py      load a module and call its functions
    signature.py, checks.py, required_sizes.py      types of arguments, and checks of arguments before a call
    devices.py, placement.py            devices and the arrays on them
    arrays.py, weights.py, files.py, irpa.py        arrays in files and as text
    cache.py                            compiled modules on disk
    isolated.py, worker.py, process.py  calls in other processes
    lapack.py                           Python functions that modules call

This package requires only NumPy and IREE's runtime, because a machine that only runs modules may have nothing else.
Facts about IREE's compiler belong in `backends/iree/`. Each public name is imported when it is first used.
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
