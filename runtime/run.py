"""run: a compiled module and arrays to arrays."""

import os
import re
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import iree.runtime as rt
import numpy as np
from iree.runtime.dtypes import map_dtype_to_hal_element_type

from tiduc.dialect.errors import InputError, RequestError, TiducError
from tiduc.runtime.files import read_bytes, written_whole
from tiduc.runtime.signature import (
    REFLECTION,
    Signature,
    TensorType,
    Value,
    from_declaration,
    from_reflection,
)
from tiduc.runtime.targets import Target, find_target

Array = np.ndarray[Any, np.dtype[Any]]

_SWEEPING = threading.Lock()
_PLACEHOLDER = re.compile(r".*/iree_dylib_\w{6}(?: \(deleted\))?")


def run_module(
    vmfb: bytes, arguments: Sequence[Any], target: str = "cpu", entry: str | None = None
) -> tuple[Array, ...]:
    """The outputs of one function of a compiled module for these arguments; an `Executable` called once."""
    return Executable(vmfb, target, entry)(*arguments)


class Executable:
    """One function of a compiled module, on a device: called with NumPy arrays, giving a tuple of them.

    `signature` has its inputs and outputs, `entry` its name.  May be called from several threads at once.
    """

    def __init__(self, vmfb: bytes, target: str = "cpu", entry: str | None = None, name: str = "") -> None:
        """Load `vmfb`, the bytes that `compile_module` gave for the same `target`.

        `entry` may be left out where the module has one function, or one named `main`.  `name` stands for
        the module in errors.  Raises TiducError where the bytes are no module, or none for this target, or
        where this machine has no such device; RequestError for an unknown `entry`.
        """
        self.vmfb = vmfb
        self._device = _open_device(find_target(target), name)
        self._context, module = _load(vmfb, self._device, target, name)
        # `__init` runs on loading; it is not for callers.
        functions = [function for function in module.function_names if not function.startswith("__")]
        self.entry = _choose(functions, entry, name)
        self._function = module.lookup_function(self.entry)
        self.signature = _signature(self._function.reflection, name)

    @classmethod
    def from_vmfb(cls, vmfb: bytes, target: str = "cpu", entry: str | None = None) -> "Executable":
        """The executable in these bytes; as `Executable(...)`."""
        return cls(vmfb, target, entry)

    @classmethod
    def load(
        cls, source: bytes | str | os.PathLike[str], target: str = "cpu", entry: str | None = None
    ) -> "Executable":
        """The executable in a `.vmfb` file, or in its bytes; TiducError where it cannot be read or loaded."""
        if isinstance(source, bytes):
            return cls(source, target, entry)
        return cls(read_bytes(source), target, entry, os.fspath(source))

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the compiled module to `path`, whole or not at all; TiducError where that fails."""
        with written_whole(path) as file:
            file.write(self.vmfb)
        return Path(path)

    def __call__(self, *arguments: Any) -> tuple[Array, ...]:
        """The outputs for these arguments, each an array of its own (no view, nothing shared).

        Shapes and dtypes must be the signature's exactly; nothing is converted.  Sizes that it leaves open
        must be what it knows of them, such as that a tangent has the shape of its primal.  Raises InputError,
        naming the argument, before anything runs, and TiducError where the run itself fails.
        """
        inputs = self.signature.inputs
        if len(arguments) != len(inputs):
            listed = f" ({', '.join(map(str, inputs))})" if inputs else ""
            raise InputError(f"{self.entry} takes {len(inputs)} arguments{listed}, got {len(arguments)}")
        given = enumerate(zip(inputs, arguments, strict=True))
        arrays = [checked(argument, value, index) for index, (value, argument) in given]
        _check_sizes(self.signature, arrays)
        packed = rt.VmVariantList(len(inputs))
        for array in arrays:
            packed.push_ref(self._upload(array).ref)
        results = rt.VmVariantList(len(self.signature.outputs))
        try:
            self._context.invoke(self._function, packed, results)
            return tuple(self._download(results, index) for index in range(len(results)))
        except (ValueError, RuntimeError) as error:
            raise TiducError(f"{self.entry} failed while running: {_first_line(error)}") from error

    def __repr__(self) -> str:
        return f"<Executable {self.entry}{self.signature}>"

    def _upload(self, array: Array) -> Any:
        """A buffer view on the device that holds a copy of the array."""
        try:
            return self._device.allocator.allocate_buffer_copy(
                memory_type=rt.MemoryType.DEVICE_LOCAL,
                allowed_usage=rt.BufferUsage.DEFAULT,
                device=self._device,
                buffer=array,
                element_type=map_dtype_to_hal_element_type(array.dtype),
            )
        except (ValueError, RuntimeError) as error:
            raise TiducError(f"cannot copy an argument to the device: {_first_line(error)}") from error

    def _download(self, results: Any, index: int) -> Array:
        """A copy of one result in memory of the caller's."""
        view = results.get_variant(index).deref(rt.HalBufferView)
        buffer = view.get_buffer()
        if not buffer.allowed_usage() & int(rt.BufferUsage.MAPPING_SCOPED):
            buffer = self._staged(buffer)
        dtype = rt.HalElementType.map_to_dtype(view.element_type)
        if not np.prod(view.shape):  # nothing to map
            return np.empty(view.shape, dtype)
        return np.array(buffer.map().asarray(view.shape, dtype))

    def _staged(self, source: Any) -> Any:
        """A copy of a device's buffer in memory that the host can map.

        By hand, since `DeviceArray.to_host` imports NumPy's memory, which Vulkan's drivers refuse where it is
        not aligned to a page.
        """
        staging = self._device.allocator.allocate_buffer(
            memory_type=int(rt.MemoryType.HOST_LOCAL | rt.MemoryType.DEVICE_VISIBLE),
            allowed_usage=int(rt.BufferUsage.TRANSFER_TARGET | rt.BufferUsage.MAPPING_SCOPED),
            allocation_size=source.byte_length(),
        )
        semaphore = self._device.create_semaphore(0)
        begin, end = rt.HalFence.create_at(semaphore, 0), rt.HalFence.create_at(semaphore, 1)
        self._device.queue_copy(source, staging, wait_semaphores=begin, signal_semaphores=end)
        end.wait()
        return staging


def checked(argument: Any, value: Value, index: int) -> Array:
    """The argument as a C-contiguous array, if its dtype and shape are those of the input `value`.

    Raises InputError that names the argument, what it should be and what it is.
    """
    expected = value.type
    called = f"argument {index} ({value.name})"
    try:
        array = np.asarray(argument, order="C")
    except (ValueError, TypeError) as error:
        raise InputError(f"{called}: expected {expected}, got what makes no array: {error}") from error
    if expected.dtype is None:
        raise InputError(f"{called} has type {expected}, whose elements NumPy has not")
    if array.dtype != expected.dtype:
        raise InputError(f"{called}: expected {expected} (dtype {expected.dtype}), got dtype {array.dtype}")
    if not expected.accepts(array.shape):
        raise InputError(f"{called}: expected {expected}, got {TensorType.of(array)}")
    return array


def _check_sizes(signature: Signature, arrays: Sequence[Array]) -> None:
    """Raises InputError for the first open size that is not what it must be beside the others."""
    shapes = [array.shape for array in arrays]
    for known in signature.sizes:
        size, expected = shapes[known.input][known.dimension], known.value(shapes)
        if size != expected:
            called = f"argument {known.input} ({signature.inputs[known.input].name})"
            others = " and ".join(dict.fromkeys(signature.inputs[i].name for _, i, _ in known.terms))
            after = f" beside {others}" if others else ""
            raise InputError(
                f"{called}: expected size {expected} of dimension {known.dimension}{after}, got {size}"
            )


def _open_device(target: Target, name: str) -> Any:
    """The runtime's device for a target; devices are opened once a process."""
    try:
        return rt.get_device(target.device)
    except (ValueError, RuntimeError) as error:
        raise TiducError(f"no device for target {target.name!r}: {_first_line(error)}", name) from error


def _load(vmfb: bytes, device: Any, target: str, name: str) -> tuple[Any, Any]:
    """A context with the module loaded for the device, and the module."""
    instance = rt.VmInstance()
    try:
        module = rt.VmModule.copy_buffer(instance, vmfb)
    except ValueError as error:
        raise TiducError(f"not a compiled module, or a damaged one: {_first_line(error)}", name) from error
    try:
        return rt.VmContext(instance, [rt.create_hal_module(instance, device), module]), module
    except (ValueError, RuntimeError) as error:
        raise TiducError(
            f"the module does not load for target {target!r}; was it compiled for another one? "
            f"{_first_line(error)}",
            name,
        ) from error
    finally:
        # One at a time, lest a descriptor that another thread has closed is by then some other file's.
        with _SWEEPING:
            _sweep()


def _sweep() -> None:
    """Close and remove what IREE's loader of shared libraries leaves behind: an open, empty file for each.

    Without this a process can load about a thousand modules, then has no file descriptors left.  Nothing
    reads these files, whose names only reserve others.  test_runtime.py says when IREE leaves them no more.
    """
    if not sys.platform.startswith("linux"):
        return
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # the listing's own descriptor is closed by now, and others may be
            path = os.readlink(f"/proc/self/fd/{descriptor}")
            if _PLACEHOLDER.fullmatch(path):
                os.close(int(descriptor))
                os.unlink(path)


def _choose(functions: list[str], entry: str | None, name: str) -> str:
    """The function to call: the one asked for, else the only one, else `main`."""
    if entry is None:
        entry = functions[0] if len(functions) == 1 else "main"
    if entry not in functions:
        raise RequestError(f"no function {entry!r} in the module; it has: {', '.join(functions)}", name)
    return entry


def _signature(reflection: dict[str, str], name: str) -> Signature:
    """The function's signature: ours where the module carries it, else IREE's, whose names are generic."""
    try:
        if REFLECTION in reflection:
            return from_reflection(reflection[REFLECTION])
        return from_declaration(reflection["iree.abi.declaration"])
    except (ValueError, KeyError) as error:
        raise TiducError(f"the function does not say what it takes: {error}", name) from error


def _first_line(error: Exception) -> str:
    """What went wrong, without the native stack that IREE's messages carry."""
    line = str(error).partition("\n")[0]
    return line.rpartition(".c:")[2].partition(": ")[2] or line if ".c:" in line else line
