"""run: a compiled module and arrays to arrays."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import iree.runtime as rt
import numpy as np
from iree.runtime.dtypes import map_dtype_to_hal_element_type

from tiduc.dialect.errors import InputError, TiducError
from tiduc.runtime.arrays import refuse_masked
from tiduc.runtime.checks import check_count, check_sizes, check_type, checked
from tiduc.runtime.devices import Array, DeviceArray, first_line
from tiduc.runtime.files import read_bytes, written_whole
from tiduc.runtime.lapack import error_of_lapack
from tiduc.runtime.loading import Loaded
from tiduc.runtime.process import Limits
from tiduc.runtime.signature import Signature, TensorType, Value

if TYPE_CHECKING:
    from tiduc.runtime.isolated import IsolatedModule

_SIZES = re.compile(r"FAILED_PRECONDITION; sizes: (.*?);? *$")  # what the module asserts of dynamic sizes


def run_module(
    vmfb: bytes, arguments: Sequence[Any], target: str = "cpu", entry: str | None = None
) -> tuple[Array, ...]:
    """The outputs of one function of a compiled module for these arguments; an `Executable` called once."""
    return Executable(vmfb, target, entry)(*arguments)


if (
    TYPE_CHECKING
):  # `overload` keeps functions, and so this module's globals and devices, until after IREE is gone

    @overload
    def load(
        source: bytes | str | os.PathLike[str],
        target: str = "cpu",
        devices: Sequence[str] = (),
        parameters: str | os.PathLike[str] | None = None,
        isolated: Literal[False] = False,
        limits: Limits | None = None,
    ) -> "Module": ...

    @overload
    def load(
        source: bytes | str | os.PathLike[str],
        target: str = "cpu",
        devices: Sequence[str] = (),
        parameters: str | os.PathLike[str] | None = None,
        *,
        isolated: Literal[True],
        limits: Limits | None = None,
    ) -> "IsolatedModule": ...


def load(
    source: bytes | str | os.PathLike[str],
    target: str = "cpu",
    devices: Sequence[str] = (),
    parameters: str | os.PathLike[str] | None = None,
    isolated: bool = False,
    limits: Limits | None = None,
) -> "Module | IsolatedModule":
    """The module in a `.vmfb` file, or in its bytes; TiducError where it cannot be read or loaded.

    `target` is the one that it was compiled for. `devices` names others than the target's usual one, as
    `tiduc.runtime.available_devices()` lists them; a module that was compiled for several wants as many.
    `parameters` is the archive (`.irpa`, `.safetensors`) of those that the module reads.
    With `isolated`, a process of its own loads and runs the module, so that a crash is a TiducError; `limits` are the
    time and the memory that loading and each call may take there.
    """
    vmfb, name = (source, "") if isinstance(source, bytes) else (read_bytes(source), os.fspath(source))
    if isolated:
        from tiduc.runtime.isolated import IsolatedModule  # which builds on this module

        return IsolatedModule(vmfb, target, name, devices, parameters, limits)
    return Module(vmfb, target, name, devices, parameters)


class Executable:
    """One function of a compiled module, on a device: called with arrays, giving a tuple of arrays.

    `signature` has its inputs and outputs, `entry` its name, `donated` the positions of the inputs that a call
    overwrites with an output.  May be called from several threads at once.
    """

    def __init__(
        self,
        vmfb: bytes,
        target: str = "cpu",
        entry: str | None = None,
        name: str = "",
        parameters: str | os.PathLike[str] | None = None,
    ) -> None:
        """Load `vmfb`, the bytes that `compile_module` gave for the same `target`.

        `entry` may be left out where the module has one function, or one named `main`.  `name` stands for
        the module in errors, `parameters` is the archive (`.irpa`, `.safetensors`) of those that it reads.
        Raises TiducError where the bytes are no module, or none for this target, or where this machine has no such
        device; RequestError for an unknown `entry`.
        """
        self._prepare(Loaded(vmfb, target, name, (), parameters), entry)

    @classmethod
    def of(cls, loaded: Loaded, entry: str | None = None) -> "Executable":
        """A function of a module that is loaded already."""
        executable = cls.__new__(cls)
        executable._prepare(loaded, entry)
        return executable

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

    def _prepare(self, loaded: Loaded, entry: str | None) -> None:
        """Look up all that a call needs; a call of a small function takes less time than that."""
        self._loaded, self._device = loaded, loaded.device
        self.entry = loaded.chosen(entry)
        self._function = loaded.function(self.entry)
        self.signature: Signature = loaded.signature(self.entry)
        self.donated = loaded.donated(self.entry)
        # Of an input: what an array that needs no further look has; and IREE's kind of its elements.
        self._plan = tuple(
            (value.type.dtype, value.type.shape, _element_type(value.type)) for value in self.signature.inputs
        )
        self._dtypes = tuple(_dtype(value, loaded.name) for value in self.signature.outputs)

    @property
    def vmfb(self) -> bytes:
        """The compiled module: the bytes of a `.vmfb` file."""
        return self._loaded.vmfb

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the compiled module to `path`, whole or not at all; TiducError where that fails."""
        with written_whole(path) as file:
            file.write(self.vmfb)
        return Path(path)

    def __call__(self, *arguments: Any) -> tuple[Array, ...]:
        """The outputs for these arguments, each an array of its own (no view, nothing shared).

        An argument is a NumPy array or what NumPy or DLPack makes one of, or a DeviceArray.  Shapes and dtypes
        must be the signature's exactly; nothing is converted.  Sizes that it leaves open must be what it knows
        of them, such as that a tangent has the shape of its primal.  Raises InputError, naming the argument,
        before anything runs, and TiducError where the run itself fails.
        """
        results = self._run(arguments)
        download, view_type = self._device.download, rt.HalBufferView
        try:
            return tuple(
                [download(results.get_as_object(i, view_type), dtype) for i, dtype in enumerate(self._dtypes)]
            )
        except (ValueError, RuntimeError) as error:
            raise self._failed(error) from error

    def keep(self, *arguments: Any) -> tuple[DeviceArray, ...]:
        """As a call, but the outputs stay on the device, for further calls: nothing of them is copied."""
        results = self._run(arguments)
        # What a function only passes on has its argument's memory, which a later call might overwrite.
        taken: dict[int, list[Any]] = {}
        overwritten = set(self.donated)
        for i, argument in enumerate(arguments):
            if type(argument) is DeviceArray and i not in overwritten:
                view = argument.view()
                taken.setdefault(view.byte_length, []).append(view.get_buffer())
        kept = []
        for i, dtype in enumerate(self._dtypes):
            view = results.get_as_object(i, rt.HalBufferView)
            buffer, same_size = view.get_buffer(), taken.setdefault(view.byte_length, [])
            if any(buffer == other for other in same_size):
                view = self._device.upload(self._device.download(view, dtype), int(view.element_type))
                buffer = view.get_buffer()
            same_size.append(buffer)
            kept.append(DeviceArray(self._device, view, dtype))
        return tuple(kept)

    def __repr__(self) -> str:
        return f"<Executable {self.entry}{self.signature}>"

    def __reduce__(self) -> tuple[Any, ...]:
        # Of IREE's objects there are no pickles; the module is loaded again.
        return _unpickled, (self.entry, *self._loaded.arguments)

    def _run(self, arguments: Sequence[Any]) -> Any:
        """The function's results, as IREE lists them."""
        context = self._loaded.context
        if context is None:
            raise self._loaded.unusable()
        plan = self._plan
        if len(arguments) != len(plan):
            check_count(self.entry, self.signature, arguments)
        arrays: list[Any] = []
        for argument, (dtype, shape, _) in zip(arguments, plan, strict=True):
            # What most arguments are, told in the fewest steps.
            if (
                type(argument) is not np.ndarray
                or argument.dtype is not dtype
                or argument.shape != shape
                or not argument.flags.c_contiguous
            ):
                argument = self._fitting(argument, len(arrays))
            arrays.append(argument)
        if self.signature.sizes or self.signature.required:
            check_sizes(self.signature, arrays)
        if self.donated:
            self._check_donated(arrays)
        packed, upload = rt.VmVariantList(len(plan)), self._device.upload
        for array, (_, _, element) in zip(arrays, plan, strict=True):
            packed.push_ref((array.view() if type(array) is DeviceArray else upload(array, element)).ref)
        for i in self.donated:
            if type(arrays[i]) is DeviceArray:
                arrays[i].give_away()
        results = rt.VmVariantList(len(self._dtypes))
        try:
            context.invoke(self._function, packed, results)
        except (ValueError, RuntimeError, IndexError) as error:
            raise self._failed(error_of_lapack() or error) from error
        return results

    def _failed(self, error: Exception) -> TiducError:
        told = first_line(error)
        if found := _SIZES.search(told):
            return InputError(f"{self.entry}: {found[1]}")
        return TiducError(f"{self.entry} failed while running: {told}")

    def _fitting(self, argument: Any, index: int) -> Any:
        """The argument as `_run` takes it: an array that `checked` lets through, or one on our device."""
        value = self.signature.inputs[index]
        if not isinstance(argument, DeviceArray):
            return checked(argument, value, index)
        argument.view()  # it may have been given away
        if argument.device.hal is not self._device.hal:
            raise InputError(
                f"argument {index} ({value.name}) is on the device {argument.device.name}, the module on "
                f"{self._device.name}: pass a copy of it, array.numpy()"
            )
        check_type(argument, value, index)
        return argument

    def _check_donated(self, arrays: Sequence[Any]) -> None:
        """Raises InputError where an array on the device is to be overwritten and is another argument, too."""
        on_device = [(i, x.view().get_buffer()) for i, x in enumerate(arrays) if type(x) is DeviceArray]
        for i, buffer in on_device:
            others = [j for j, other in on_device if j != i and other == buffer]
            if i in self.donated and others:
                name = self.signature.inputs[i].name
                raise InputError(f"argument {i} ({name}) is overwritten, but is argument {others[0]}, too")


def _unpickled(entry: str, *arguments: Any) -> Executable:
    return Executable.of(Loaded(*arguments), entry)


class Module(Mapping[str, Executable]):
    """A compiled module on its device or devices: its functions by name, each an `Executable`.

    A context manager, which closes it.  Functions share a context; arrays that one keeps are arguments of all.
    """

    def __init__(
        self,
        vmfb: bytes,
        target: str = "cpu",
        name: str = "",
        devices: Sequence[str] = (),
        parameters: str | os.PathLike[str] | None = None,
    ) -> None:
        """Load `vmfb`, as `load` does."""
        self._loaded = Loaded(vmfb, target, name, devices, parameters)
        self._functions = {name: Executable.of(self._loaded, name) for name in self._loaded.functions}

    def __getitem__(self, entry: str) -> Executable:
        """The function of this name. Raises RequestError for an unknown one."""
        return self._functions[self._loaded.chosen(entry)]

    def __iter__(self) -> Iterator[str]:
        return iter(self._functions)

    def __len__(self) -> int:
        return len(self._functions)

    def put(self, array: Any) -> DeviceArray:
        """A copy of an array on the device."""
        refuse_masked(array)
        source = np.asarray(array, order="C")
        element = map_dtype_to_hal_element_type(source.dtype)
        if element is None:
            raise InputError(f"no array of numbers: {type(array).__name__} of {source.dtype}")
        device = self._loaded.device
        return DeviceArray(device, device.upload(source, int(element)), source.dtype)

    def close(self) -> None:
        """Give up the module; its functions cannot be called any more. Arrays on the device stay."""
        self._loaded.close()

    def __enter__(self) -> "Module":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Module {', '.join(f'{name}{f.signature}' for name, f in self._functions.items())}>"


def _dtype(value: Value, name: str) -> "np.dtype[Any]":
    """The dtype of an output. Raises TiducError where NumPy has none such."""
    if value.type.dtype is None:
        raise TiducError(f"output {value.name} has type {value.type}: NumPy has no such elements", name)
    return value.type.dtype


def _element_type(type: TensorType) -> int:
    """IREE's kind of a type's elements; 0 where NumPy has none such, and so no argument passes the checks."""
    return 0 if type.dtype is None else int(map_dtype_to_hal_element_type(type.dtype))
