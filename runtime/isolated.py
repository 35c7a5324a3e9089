"""Runs compiled modules in a separate process. A module that crashes or hangs does not end the caller's process.

    module = tiduc.runtime.load("gradient.vmfb", isolated=True)
    value, slope = module["main"](w, x)  # arguments and results are copied between the processes

This is not a sandbox: machine code in the process has all rights of the user.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import Lock
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import ArrayLike

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
    """A compiled module that runs in another process. It maps the names of the module's functions to these functions.

    As a context manager, it ends the process. After the process has died, every call raises `TiducError`.
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
        """Loads `vmfb` as `tiduc.runtime.load` does. `limits` apply to loading and to each call."""
        self._name, self._limits, self._lock = name, limits or Limits(), Lock()
        self._worker = Worker(("tiduc.runtime.isolated",))
        try:
            signatures = self.call(_load, vmfb, target, name, tuple(devices), parameters)
        except BaseException:
            self.close()
            raise
        self._functions = {f: IsolatedExecutable(self, f, *said) for f, said in signatures.items()}

    def call(self, function: Callable[P, R], *arguments: P.args, **keywords: P.kwargs) -> R:
        """Calls a Python function in the process and returns the function's result.

        Raises `TiducError` if the process dies during the call.
        """
        with self._lock:
            if not self._worker.is_alive():
                raise RequestError("the module is closed, or its process has died", self._name)
            try:
                return self._worker.call(function, self._limits, *arguments, **keywords)
            except Died as error:
                raise TiducError(f"the process that runs the module {error}", self._name) from error

    def __getitem__(self, entry: str) -> "IsolatedExecutable":
        """Returns the function with this name. Raises RequestError for an unknown name."""
        if entry not in self._functions:
            listed = ", ".join(self._functions)
            raise RequestError(f"no function {entry!r} in the module; it has: {listed}", self._name)
        return self._functions[entry]

    def __iter__(self) -> Iterator[str]:
        return iter(self._functions)

    def __len__(self) -> int:
        return len(self._functions)

    def close(self) -> None:
        """Ends the process."""
        self._worker.close()

    def __enter__(self) -> "IsolatedModule":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        functions = ", ".join(f"{name}{f.signature}" for name, f in self._functions.items())
        return f"<IsolatedModule {functions}>"


class IsolatedExecutable:
    """A function of an isolated module. It takes arrays and returns a tuple of arrays.

    `entry` is the name of the function, and `signature` describes its inputs and outputs. `donated` lists the positions
    of the inputs that the compiled function overwrites. The caller's arrays stay unchanged, because the process has
    copies.
    """

    def __init__(
        self, module: IsolatedModule, entry: str, signature: Signature, donated: tuple[int, ...]
    ) -> None:
        self._module, self.entry, self.signature, self.donated = module, entry, signature, donated

    def __call__(self, *arguments: ArrayLike) -> tuple[Array, ...]:
        """Returns the outputs for these arguments.

        Checks the arguments before it sends them to the process. Raises the errors of `check_arguments`.
        """
        arrays = [np.asarray(x) if isinstance(x, DeviceArray) else x for x in arguments]
        return self._module.call(_run, self.entry, *check_arguments(self.entry, self.signature, arrays))

    def __repr__(self) -> str:
        return f"<IsolatedExecutable {self.entry}{self.signature}>"


# ---- in the process ----------------------------------------------------------------------------------------

_LOADED: dict[str, Any] = {}
"""The functions of the module that this process has loaded."""


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
