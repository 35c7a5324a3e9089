"""Compiled modules in a process of their own: one that crashes or hangs ends that process, not the caller's.

    module = tiduc.runtime.load("gradient.vmfb", isolated=True)
    value, slope = module["main"](w, x)  # arrays go to the process and come back as copies

This is no sandbox: machine code can do there whatever the user can.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import Lock
from typing import Any, ParamSpec, TypeVar

import numpy as np

from tiduc.dialect.errors import RequestError, TiducError
from tiduc.runtime.checks import check_arguments
from tiduc.runtime.devices import Array, DeviceArray
from tiduc.runtime.process import Limits
from tiduc.runtime.run import Module
from tiduc.runtime.signature import Signature
from tiduc.runtime.worker import Died, Worker

P = ParamSpec("P")
R = TypeVar("R")


class IsolatedModule(Mapping[str, "IsolatedExecutable"]):
    """A compiled module that another process has loaded: its functions by name. A context manager, which closes it.

    Once the process has died, every call raises TiducError.
    """

    def __init__(
        self,
        vmfb: bytes,
        target: str = "cpu",
        name: str = "",
        devices: Sequence[str] = (),
        parameters: str | os.PathLike[str] | None = None,
        limits: Limits | None = None,
    ) -> None:
        """Load `vmfb`, as `tiduc.runtime.load` does; loading and each call have these limits of time and memory."""
        self._name, self._limits, self._lock = name, limits or Limits(), Lock()
        self._worker = Worker(("tiduc.runtime.isolated",))
        try:
            signatures = self.call(_load, vmfb, target, name, tuple(devices), parameters)
        except BaseException:
            self.close()
            raise
        self._functions = {f: IsolatedExecutable(self, f, *said) for f, said in signatures.items()}

    def call(self, function: Callable[P, R], *arguments: P.args, **keywords: P.kwargs) -> R:
        """A function's result in the process. Raises TiducError where the process does not survive the call."""
        with self._lock:
            if not self._worker.is_alive():
                raise RequestError("the module is closed, or its process has died", self._name)
            try:
                return self._worker.call(function, self._limits, *arguments, **keywords)
            except Died as error:
                raise TiducError(f"the process that runs the module {error}", self._name) from error

    def __getitem__(self, entry: str) -> "IsolatedExecutable":
        """The function of this name. Raises RequestError for an unknown one."""
        if entry not in self._functions:
            listed = ", ".join(self._functions)
            raise RequestError(f"no function {entry!r} in the module; it has: {listed}", self._name)
        return self._functions[entry]

    def __iter__(self) -> Iterator[str]:
        return iter(self._functions)

    def __len__(self) -> int:
        return len(self._functions)

    def close(self) -> None:
        """End the process."""
        self._worker.close()

    def __enter__(self) -> "IsolatedModule":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        functions = ", ".join(f"{name}{f.signature}" for name, f in self._functions.items())
        return f"<IsolatedModule {functions}>"


class IsolatedExecutable:
    """One function of an isolated module: called with arrays, giving a tuple of arrays.

    `signature` has its inputs and outputs, `entry` its name, `donated` the positions of the inputs that a call of the
    function overwrites, in the copies that the process has.
    """

    def __init__(
        self, module: IsolatedModule, entry: str, signature: Signature, donated: tuple[int, ...]
    ) -> None:
        self._module, self.entry, self.signature, self.donated = module, entry, signature, donated

    def __call__(self, *arguments: Any) -> tuple[Array, ...]:
        """The outputs for these arguments, which are checked as `Executable` checks them, before they are sent."""
        arrays = [np.asarray(x) if isinstance(x, DeviceArray) else x for x in arguments]
        return self._module.call(_run, self.entry, *check_arguments(self.entry, self.signature, arrays))

    def __repr__(self) -> str:
        return f"<IsolatedExecutable {self.entry}{self.signature}>"


# ---- in the process ----------------------------------------------------------------------------------------

_LOADED: dict[str, Any] = {}
"""The functions of the one module that a process loads."""


def _load(
    vmfb: bytes,
    target: str,
    name: str,
    devices: Sequence[str],
    parameters: str | os.PathLike[str] | None,
) -> dict[str, tuple[Signature, tuple[int, ...]]]:
    module = Module(vmfb, target, name, devices, parameters)
    _LOADED.update(module)
    return {entry: (f.signature, f.donated) for entry, f in module.items()}


def _run(entry: str, *arrays: Array) -> tuple[Array, ...]:
    results: tuple[Array, ...] = _LOADED[entry](*arrays)
    return results
