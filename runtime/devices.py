"""IREE's devices, and arrays on them."""

import atexit
import ctypes
import os
from collections.abc import Sequence
from contextlib import suppress
from threading import Lock
from typing import Any

import iree.runtime as rt
import numpy as np
from numpy.typing import DTypeLike

from tiduc.dialect.errors import InputError, TiducError
from tiduc.runtime.process import memory
from tiduc.runtime.uses import Uses, renew

Array = np.ndarray[Any, np.dtype[Any]]

# The flags are integers, because the binding would look up the members of an enumeration in each call.
_MEMORY = int(rt.MemoryType.DEVICE_LOCAL)
_USAGE = int(rt.BufferUsage.DEFAULT)
_MAPPABLE = int(rt.BufferUsage.MAPPING_SCOPED)
LARGE = 2**16
"""The smallest size in bytes of an array that is passed to or from IREE without a copy."""
_ALIGNMENT = 64  # bytes
_STAGING = int(rt.MemoryType.HOST_LOCAL | rt.MemoryType.DEVICE_VISIBLE)
_STAGING_USAGE = int(rt.BufferUsage.TRANSFER_TARGET | rt.BufferUsage.MAPPING_SCOPED)


class Device:
    """An open device of IREE, with methods that copy arrays between the device and the host."""

    def __init__(self, hal: rt.HalDevice, name: str) -> None:
        self.hal, self.name = hal, name
        self.on_host = name.startswith("local-")  # the device uses the host's memory
        self._copy = hal.allocator.allocate_buffer_copy

    def upload(self, array: Array, element: int) -> rt.HalBufferView:
        """Copies a C-contiguous array to the device and returns a buffer view of the copy.

        `element` is IREE's element type.
        """
        try:
            return self._copy(  # type: ignore[return-value]  # given an element type, it returns a view
                memory_type=_MEMORY,
                allowed_usage=_USAGE,
                device=self.hal,
                buffer=array,
                element_type=element,  # type: ignore[arg-type]  # the binding also takes a number
            )
        except (ValueError, RuntimeError) as error:
            raise TiducError(f"cannot copy an argument to the device: {message_of_iree(error)}") from error

    def trim(self) -> None:
        """On CPUs, returns the memory of freed arrays to the system.

        The caching allocator reuses the memory of a freed array only for an array of equal size. When the allocator
        reaches its limit, it returns the memory that was freed last. Without `trim`, it would therefore keep the memory
        of past programs, and allocate the memory of the current program in each call.
        """
        if self.on_host and not is_inherited(self.name):
            self.hal.allocator.trim()

    def lend(self, array: Array, element: int) -> rt.HalBufferView:
        """Returns a buffer view that shares the memory of `array`. Nothing may write to this memory.

        Returns a view of a copy if IREE cannot share the memory. IREE's CPU devices accept only memory that is aligned
        to 64 bytes, because kernels rely on the alignment; PyTorch aligns its arrays this way. NumPy does not export
        read-only arrays, or arrays of types that DLPack lacks.
        """
        if array.nbytes >= LARGE and self.on_host and not array.ctypes.data % _ALIGNMENT:
            with suppress(BufferError, TypeError, ValueError, RuntimeError):
                view = self.hal.from_dlpack_capsule(array.__dlpack__())
                if as_number(view.element_type) == element and tuple(view.shape) == array.shape:
                    return view
        return self.upload(array, element)

    def download(self, view: rt.HalBufferView, dtype: "np.dtype[Any]") -> Array:
        """Returns the contents of a buffer view as an array that owns its memory."""
        buffer, shape = view.get_buffer(), view.shape
        if 0 in shape:  # the buffer of an empty array cannot be mapped
            return np.empty(shape, dtype)
        if not buffer.allowed_usage() & _MAPPABLE:
            buffer = self._staged(buffer)
        return _mapped(buffer, shape, dtype).copy()

    def taken(self, view: rt.HalBufferView, dtype: "np.dtype[Any]") -> Array:
        """Returns a writable array that shares the memory of a buffer view. The device must be `on_host`."""
        array = _mapped(view.get_buffer(), view.shape, dtype)
        return np.asarray(_Memory(array, self)).view(dtype).reshape(array.shape)

    def _staged(self, source: rt.HalBuffer) -> rt.HalBuffer:
        """Copies a buffer of the device to a buffer that the host can map, and returns the new buffer.

        `iree.runtime.DeviceArray.to_host` would do this, but it imports memory of NumPy, and Vulkan drivers reject
        memory that is not page-aligned.
        """
        if is_inherited(self.name):
            raise TiducError(_INHERITED.format(self.name))
        staging = self.hal.allocator.allocate_buffer(
            memory_type=_STAGING, allowed_usage=_STAGING_USAGE, allocation_size=source.byte_length()
        )
        semaphore = self.hal.create_semaphore(0)
        begin, end = rt.HalFence.create_at(semaphore, 0), rt.HalFence.create_at(semaphore, 1)
        self.hal.queue_copy(source, staging, wait_semaphores=begin, signal_semaphores=end)
        end.wait()
        return staging


def as_number(element: rt.HalElementType | None) -> int:
    """Converts IREE's element type to the number that IREE's functions take."""
    number: int = int(element)  # type: ignore[call-overload]  # the stub hides that the type is a number
    return number


def _mapped(buffer: rt.HalBuffer, shape: Sequence[int], dtype: "np.dtype[Any]") -> Array:
    """Maps a buffer into the host's memory and returns a read-only array of this memory."""
    # MappedMemory.asarray is several times slower.
    return np.ndarray(shape, dtype, buffer.map())  # type: ignore[arg-type]  # supports the buffer protocol


class _Memory:
    """Presents the memory of a read-only array to NumPy as writable bytes."""

    def __init__(self, array: Array, device: Device) -> None:
        self._array, self._device = array, device  # keeps both alive while the memory is in use
        self.__array_interface__ = {
            "version": 3,
            "shape": (array.nbytes,),
            "typestr": "|u1",
            "data": (array.ctypes.data, False),
        }


class DeviceArray:
    """An array on a device. `Executable.keep` and `Module.put` return such arrays.

    The array is read-only. A call that takes the array as a donated argument overwrites it, and the array cannot be
    used afterwards. NumPy and libraries that support DLPack copy the array to the host. Several threads may use an
    array at once (`uses.py`).
    """

    # Python clears slots in the order of their names. The buffer must be freed before its device may be destroyed.
    __slots__ = ("_buffer", "_device", "dtype", "readers", "shape")

    def __init__(self, device: Device, view: rt.HalBufferView, dtype: "np.dtype[Any]") -> None:
        self._device = device
        self._buffer: rt.HalBufferView | None = view
        self.dtype, self.shape = dtype, tuple(view.shape)
        self.readers = 0

    def numpy(self) -> Array:
        """Copies the array to the host. Raises InputError if the array was donated."""
        with Uses([self]) as uses:
            return self._device.download(uses.views[0], self.dtype)

    @property
    def is_donated(self) -> bool:
        """Whether the array was a donated argument of a call, which has overwritten it."""
        return self._buffer is None

    def view(self) -> rt.HalBufferView:
        """Returns IREE's buffer view. Raises InputError if the array was donated."""
        view = self._buffer  # read once, since another thread may donate the array
        if view is None:
            raise InputError(f"{self!r} was overwritten by a call that it was donated to")
        return view

    @property
    def device(self) -> Device:
        """The device that holds the array."""
        return self._device

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def give_away(self) -> None:
        """Marks the array as donated. Any later use of the array raises InputError."""
        self._buffer = None

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("an array on a device must be copied to become a NumPy array")
        array = self.numpy()
        return array if dtype is None else array.astype(dtype, copy=False)

    def __dlpack__(self, **options: Any) -> Any:
        return self.numpy().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)  # the host, to which `numpy` copies the array

    def __float__(self) -> float:
        return float(self.numpy())

    def __repr__(self) -> str:
        state = "donated" if self._buffer is None else self._device.name
        return f"<DeviceArray {'x'.join(map(str, self.shape)) or 'scalar'} {self.dtype} ({state})>"


def open_device(name: str, target: str, location: str = "") -> Device:
    """Opens the device with this name, such as `local-sync`, `cuda` or `vulkan://GPU-...`.

    Raises `TiducError` if this machine has no such device, or if modules for the target would compute wrong results on
    the device. `location` is the name of the module to load, for error messages.
    """
    if not name:
        raise TiducError(f"modules for target {target!r} do not run on this machine", location)
    if is_inherited(name):
        raise TiducError(_INHERITED.format(name), location)
    try:
        with _OPENING:
            check_threads(name, target, location)
            return Device(_hal_device(name), name)
    except (ValueError, RuntimeError) as error:
        raise TiducError(f"no device for target {target!r}: {message_of_iree(error)}", location) from error


_SOFTWARE = "llvmpipe"


def check_threads(name: str, target: str, location: str = "") -> None:
    """Raises `TiducError` if the subgroups of a Vulkan device do not have the size that the target requires.

    A subgroup is a set of threads that run in lockstep. It has 4 or 8 threads on Mesa's llvmpipe, which runs in
    software, and 32 or 64 on GPUs. The driver does not check the size.
    """
    base, _, variant = target.partition(":")
    if base != "vulkan" or not variant:
        return
    listed = rt.get_driver("vulkan").query_available_devices()
    models = [device["name"] for device in listed if name in ("vulkan", f"vulkan://{device['path']}")]
    if models and (_SOFTWARE in models[0]) != (variant == _SOFTWARE):
        raise TiducError(
            f"modules for target {target!r} give wrong numbers on this device: {models[0]}", location
        )


POISONED = "#poisoned"
"""The suffix of the name of a CPU device that fills allocated memory with the byte 0xCD and never reuses memory.

A float whose bytes are all 0xCD is large: -4.3e8 in f32 and -6.4e66 in f64. Such numbers in a result show that the
result depends on uninitialized memory.
"""

_OPENING = Lock()
_ALLOCATOR = f"caching:*=*;{max(1024, memory() // 4)}mib;512"
"""The specification of IREE's caching allocator. It keeps up to 512 free buffers, within a quarter of the memory.

A gradient of a network has a hundred or more results. They are freed together, and would displace other buffers if the
allocator kept fewer. The gradient of a language model with 124M parameters takes 760 MiB in addition to its arguments.
If the allocator did not keep these buffers, page faults would take a quarter of the time of a call.
"""


def _hal_device(name: str) -> rt.HalDevice:
    """Returns IREE's device with this name. All modules share the device.

    On CPUs, a caching allocator reuses the memory of freed arrays. The C library would return the memory of large
    arrays to the system, and a call of a small program would spend most of its time on page faults.
    """
    if name not in _OPEN:
        is_cpu, plain = name.startswith("local-"), name.removesuffix(POISONED)
        allocators = [_ALLOCATOR] if name == plain else ["debug"]
        driver = rt.get_driver(plain) if is_cpu else None
        _OPEN[name] = (
            driver.create_device_by_uri(plain, allocators=allocators)  # type: ignore[arg-type]  # the stub lacks names
            if driver
            else rt.get_device(name)
        )
    return _OPEN[name]


# ---- after a fork ------------------------------------------------------------------------------------------

_OPEN: dict[str, rt.HalDevice] = {}
_INHERITED = (
    "the device {} was opened before this process was forked, and its threads do not exist in the child: "
    "open the device after the fork, or start processes with spawn"
)
_parents: frozenset[str] = frozenset()


def is_inherited(name: str) -> bool:
    """Whether the parent process opened the device before it forked this process. Always false for `local-sync`."""
    return name in _parents


def _after_fork() -> None:
    """In a forked process, marks the parent's devices as inherited, except `local-sync`, which has no threads."""
    global _OPENING, _parents
    _OPENING = Lock()
    renew()
    for hal in _OPEN.values():  # never destroy a device, because this would wait for a thread of the parent
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(hal))
    _parents |= _OPEN.keys() - {"local-sync"}


def _at_exit() -> None:
    """In a forked process, suppresses the messages of IREE's bindings about devices that were never destroyed."""
    if os.getpid() != _PROCESS and _OPEN:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


_PROCESS = os.getpid()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
    atexit.register(_at_exit)


def has_device(name: str) -> bool:
    """Whether this machine has the device with this name.

    If the device was not open, it does not stay open, because IREE's idle Vulkan devices keep two cores busy on Mesa's
    llvmpipe.
    """
    if is_inherited(name):
        return False
    try:
        with _OPENING:
            return bool(name) and (name in _OPEN or rt.get_device(name, cache=False) is not None)
    except (ValueError, RuntimeError):
        return False


def available_devices() -> Sequence[str]:
    """Returns the names of this machine's devices, such as `local-sync` and `vulkan://GPU-...`. `load` takes these
    names.
    """
    devices = []
    for driver in rt.query_available_drivers():
        try:
            listed = rt.get_driver(driver).query_available_devices()
        except (ValueError, RuntimeError):  # the driver is built in, but its hardware or library is missing
            continue
        devices += [f"{driver}://{device['path']}" if device["path"] else driver for device in listed]
    return devices


def message_of_iree(error: Exception) -> str:
    """Returns the message of an IREE error without the native stack trace."""
    line = str(error).partition("\n")[0]
    return line.rpartition(".c:")[2].partition(": ")[2] or line if ".c:" in line else line
