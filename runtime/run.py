"""run: calls functions of a compiled module on arrays."""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, TypeVar

import iree.runtime as rt
import numpy as np
from iree.runtime.dtypes import map_dtype_to_hal_element_type
from numpy.typing import ArrayLike, NDArray

from tiduc.dialect.errors import InputError, TiducError
from tiduc.runtime.arrays import refuse_masked
from tiduc.runtime.checks import check_count, check_sizes, check_type, checked
from tiduc.runtime.devices import Array, DeviceArray, as_number, message_of_iree
from tiduc.runtime.files import read_bytes, written_whole
from tiduc.runtime.lapack import error_of_lapack
from tiduc.runtime.loading import Loaded
from tiduc.runtime.results import Results
from tiduc.runtime.signature import Signature, SignatureValue, TensorType
from tiduc.runtime.uses import Uses

T = TypeVar("T")

_SIZES = re.compile(
    r"FAILED_PRECONDITION; sizes: (.*?);? *$"
)  # IREE's error if a check of dynamic sizes fails


def run_module(
    vmfb: bytes, arguments: Sequence[ArrayLike], target: str = "cpu", entry: str | None = None
) -> tuple[Array, ...]:
    """Calls one function of a compiled module once and returns its outputs. See `Executable` for the parameters."""
    return Executable(vmfb, target, entry)(*arguments)


class Executable:
    """A function of a compiled module, loaded for a device. It takes arrays and returns a tuple of arrays.

    `entry` is the name of the function, and `signature` describes its inputs and outputs. `donated` lists the positions
    of the inputs that a call overwrites with outputs. Several threads may call the function at once.
    """

    def __init__(
        self,
        vmfb: bytes,
        target: str = "cpu",
        entry: str | None = None,
        name: str = "",
        parameters: str | os.PathLike[str] | None = None,
    ) -> None:
        """Loads `vmfb`, which `compile_module` returned for this `target`.

        `entry` is optional if the module has one function, or a function `main`. `name` is the module's name in errors.
        `parameters` is the archive (`.irpa`, `.safetensors`) of the parameters that the module reads. Raises
        `TiducError` if the bytes are not a module for this target, or if this machine does not have the device. Raises
        `RequestError` for an unknown `entry`.
        """
        self._prepare(Loaded(vmfb, target, name, (), parameters), entry)

    @classmethod
    def of(cls, loaded: Loaded, entry: str | None = None) -> "Executable":
        """Returns the executable for a function of a loaded module."""
        executable = cls.__new__(cls)
        executable._prepare(loaded, entry)
        return executable

    @classmethod
    def from_vmfb(cls, vmfb: bytes, target: str = "cpu", entry: str | None = None) -> "Executable":
        """Returns `Executable(vmfb, target, entry)`."""
        return cls(vmfb, target, entry)

    @classmethod
    def load(
        cls, source: bytes | str | os.PathLike[str], target: str = "cpu", entry: str | None = None
    ) -> "Executable":
        """Loads an executable from a `.vmfb` file or from the bytes of such a file.

        Raises `TiducError` if that fails.
        """
        if isinstance(source, bytes):
            return cls(source, target, entry)
        return cls(read_bytes(source), target, entry, os.fspath(source))

    def _prepare(self, loaded: Loaded, entry: str | None) -> None:
        """Looks up everything that a call needs. The look-up takes longer than a call of a small function."""
        self._loaded, self._device = loaded, loaded.device
        self.entry = loaded.entry_or_default(entry)
        self._function = loaded.function(self.entry)
        self.signature: Signature = loaded.signature(self.entry)
        self.donated = loaded.donated(self.entry)
        self._overwritten = frozenset(self.donated)
        # For each input: the dtype and shape of arrays that pass without further checks, and IREE's element type.
        self._plan = tuple(
            (value.type.dtype, value.type.shape, _element_type(value.type)) for value in self.signature.inputs
        )
        self._dtypes = tuple(_dtype(value, loaded.name) for value in self.signature.outputs)
        self._is_simple = not (self.signature.sizes or self.signature.required or self.donated)

    @property
    def device_name(self) -> str:
        """The name of the device that runs the function, such as `local-sync`."""
        return self._device.name

    @property
    def vmfb(self) -> bytes:
        """The compiled module: the bytes of a `.vmfb` file."""
        return self._loaded.vmfb

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes the compiled module to the file `path` atomically. Raises TiducError if that fails."""
        with written_whole(path) as file:
            file.write(self.vmfb)
        return Path(path)

    def __call__(self, *arguments: ArrayLike) -> tuple[Array, ...]:
        """Calls the function with these arguments, and returns its outputs as arrays that share no memory.

        An argument is a NumPy array, an object that NumPy or DLPack converts to an array, or a `DeviceArray`. Shapes
        and dtypes must be exactly those of the signature. Dynamic sizes must satisfy the signature's relations; for
        example, a tangent has the shape of its primal. Raises `InputError`, with the argument's name, before the
        function runs, and `TiducError` if the function fails.
        """
        return self._run(arguments, self._device.lend, self._arrays)

    def _arrays(self, results: rt.VmVariantList, given: Sequence[Array | DeviceArray]) -> tuple[Array, ...]:
        array, view_type = Results(self._device, given).array, rt.HalBufferView
        try:
            return tuple(
                [array(results.get_as_object(i, view_type), dtype) for i, dtype in enumerate(self._dtypes)]
            )
        except (ValueError, RuntimeError) as error:
            raise self._failed(error) from error

    def keep(self, *arguments: ArrayLike) -> tuple[DeviceArray, ...]:
        """Calls the function and leaves the outputs on the device, where later calls can use them without a copy."""
        # Arguments are copied, because the function may return the memory of an argument as a result.
        return self._run(arguments, self._device.upload, self._kept)

    def _kept(
        self, results: rt.VmVariantList, given: Sequence[Array | DeviceArray]
    ) -> tuple[DeviceArray, ...]:
        # An output that is also an argument is copied, because a later call might overwrite the argument.
        taken: dict[int, list[rt.HalBuffer]] = {}
        for i, argument in enumerate(given):
            if type(argument) is DeviceArray and i not in self._overwritten:
                view = argument.view()
                taken.setdefault(view.byte_length, []).append(view.get_buffer())
        kept = []
        for i, dtype in enumerate(self._dtypes):
            view = results.get_as_object(i, rt.HalBufferView)
            buffer, same_size = view.get_buffer(), taken.setdefault(view.byte_length, [])
            if buffer in same_size:
                view = self._device.upload(self._device.download(view, dtype), as_number(view.element_type))
                buffer = view.get_buffer()
            same_size.append(buffer)
            kept.append(DeviceArray(self._device, view, dtype))
        return tuple(kept)

    def __repr__(self) -> str:
        return f"<Executable {self.entry}{self.signature}>"

    def __reduce__(self) -> tuple[Any, ...]:
        # IREE's objects cannot be pickled. Unpickling loads the module again.
        return _unpickled, (self.entry, *self._loaded.arguments)

    def _run(
        self,
        arguments: Sequence[ArrayLike],
        given: Callable[[Array, int], rt.HalBufferView],
        returned: Callable[[rt.VmVariantList, Sequence[Array | DeviceArray]], T],
    ) -> T:
        """Calls the function and returns its outputs.

        `given` converts an array to a buffer view. `returned` takes IREE's list of results and the arguments, and
        returns the outputs.
        """
        context = self._loaded.context
        if context is None:
            raise self._loaded.unusable()
        if self._is_simple and (views := self._views_of(arguments, given)) is not None:
            return returned(self._invoked(context, views), arguments)  # type: ignore[arg-type]  # all are arrays
        plan = self._plan
        if len(arguments) != len(plan):
            check_count(self.entry, self.signature, arguments)
        arrays: list[Any] = [
            x if self._is_kept(x, i) else self._fitting(x, i) for i, x in enumerate(arguments)
        ]
        is_on_device = any([type(x) is DeviceArray for x in arrays])
        if not self._is_simple:
            check_sizes(self.signature, arrays)
        if self.donated:  # copies the arguments, because the function writes to some of them
            self._check_donated(arrays)
            given = self._device.upload
        if not is_on_device:
            views = [given(x, element) for x, (_, _, element) in zip(arrays, plan, strict=True)]
            return returned(self._invoked(context, views), arrays)
        some = [
            None if type(x) is DeviceArray else given(x, e) for x, (_, _, e) in zip(arrays, plan, strict=True)
        ]
        places = [i for i, view in enumerate(some) if view is None]
        taken = {n for n, i in enumerate(places) if i in self._overwritten}
        with Uses([arrays[i] for i in places], taken) as uses:
            rest = iter(uses.views)
            views = [next(rest) if view is None else view for view in some]
            return returned(self._invoked(context, views), arrays)

    def _views_of(
        self, arguments: Sequence[ArrayLike], given: Callable[[Array, int], rt.HalBufferView]
    ) -> list[rt.HalBufferView] | None:
        """Returns buffer views of the arguments if all are C-contiguous NumPy arrays of exactly the right types, else
        None.
        """
        plan = self._plan
        if len(arguments) != len(plan):
            return None
        views = []
        for argument, (dtype, shape, element) in zip(arguments, plan, strict=True):
            if (
                type(argument) is not np.ndarray
                or argument.dtype is not dtype
                or argument.shape != shape
                or not argument.flags.c_contiguous
            ):
                return None
            views.append(given(argument, element))
        return views

    def _invoked(self, context: rt.VmContext, views: Sequence[rt.HalBufferView]) -> rt.VmVariantList:
        """Calls the function with buffer views, and returns IREE's list of results."""
        packed = rt.VmVariantList(len(views))
        for view in views:
            packed.push_ref(view.ref)
        results = rt.VmVariantList(len(self._dtypes))
        try:
            context.invoke(self._function, packed, results)
        except (ValueError, RuntimeError, IndexError) as error:
            raise self._failed(error_of_lapack() or error) from error
        return results

    def _failed(self, error: Exception) -> TiducError:
        told = message_of_iree(error)
        if match := _SIZES.search(told):
            return InputError(f"{self.entry}: {match[1]}")
        return TiducError(f"{self.entry} failed while running: {told}")

    def _is_kept(self, argument: ArrayLike, index: int) -> bool:
        """Whether an argument is a `DeviceArray` on this device with the right type.

        This test must be fast, because a training step has hundreds of such arguments.
        """
        dtype, shape, _ = self._plan[index]
        return (
            type(argument) is DeviceArray
            and argument.dtype is dtype
            and argument.shape == shape
            and argument.device.hal is self._device.hal
        )

    def _fitting(self, argument: ArrayLike, index: int) -> NDArray[Any] | DeviceArray:
        """Converts the argument to an array that matches the signature. A `DeviceArray` on this device stays unchanged.

        Raises `InputError` for an argument that does not match.
        """
        value = self.signature.inputs[index]
        if not isinstance(argument, DeviceArray):
            return checked(argument, value, index)
        argument.view()  # raises an error if the array was donated
        if argument.device.hal is not self._device.hal:
            raise InputError(
                f"argument {index} ({value.name}) is on the device {argument.device.name}, but the module is on "
                f"{self._device.name}: pass a copy of the array, array.numpy()"
            )
        check_type(argument, value, index)
        return argument

    def _check_donated(self, arrays: Sequence[NDArray[Any] | DeviceArray]) -> None:
        """Raises `InputError` if an array on the device is donated and is also passed as another argument."""
        # Only arrays of equal size can have the same buffer. Comparing all pairs would take longer than a small step.
        of_size: dict[int, list[tuple[int, rt.HalBuffer]]] = {}
        for i, x in enumerate(arrays):
            if type(x) is DeviceArray:
                view = x.view()
                of_size.setdefault(view.byte_length, []).append((i, view.get_buffer()))
        for same_size in of_size.values():
            for (i, one), (j, other) in combinations(same_size, 2):
                if one == other and (i in self._overwritten or j in self._overwritten):
                    taken, also = (i, j) if i in self._overwritten else (j, i)
                    name = self.signature.inputs[taken].name
                    raise InputError(
                        f"argument {taken} ({name}) is donated and overwritten, but argument {also} is the same array"
                    )


def _unpickled(entry: str, *arguments: Any) -> Executable:
    return Executable.of(Loaded(*arguments), entry)


class Module(Mapping[str, Executable]):
    """A compiled module. It maps the names of its functions to an `Executable` for each function.

    As a context manager, it closes the module. A function accepts arrays that another function has left on the device.
    """

    def __init__(
        self,
        vmfb: bytes,
        target: str = "cpu",
        name: str = "",
        devices: Sequence[str] = (),
        parameters: str | os.PathLike[str] | None = None,
    ) -> None:
        """Loads `vmfb`. See `load` in `modules.py` for the parameters."""
        self._loaded = Loaded(vmfb, target, name, devices, parameters)
        self._functions = {name: Executable.of(self._loaded, name) for name in self._loaded.functions}

    def __getitem__(self, entry: str) -> Executable:
        """Returns the function with this name. Raises RequestError for an unknown name."""
        return self._functions[self._loaded.entry_or_default(entry)]

    def __contains__(self, entry: object) -> bool:
        return entry in self._functions

    def __iter__(self) -> Iterator[str]:
        return iter(self._functions)

    def __len__(self) -> int:
        return len(self._functions)

    def put(self, array: ArrayLike) -> DeviceArray:
        """Copies an array to the device and returns the copy."""
        refuse_masked(array)
        source = np.asarray(array, order="C")
        element = map_dtype_to_hal_element_type(source.dtype)
        if element is None:
            raise InputError(f"not an array of numbers: {type(array).__name__} of {source.dtype}")
        device = self._loaded.device
        return DeviceArray(device, device.upload(source, as_number(element)), source.dtype)

    def close(self) -> None:
        """Releases the module. Its functions can then no longer be called, but arrays on the device stay valid."""
        self._loaded.close()

    def __enter__(self) -> "Module":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Module {', '.join(f'{name}{f.signature}' for name, f in self._functions.items())}>"


def _dtype(value: SignatureValue, name: str) -> "np.dtype[Any]":
    """The dtype of an output. Raises TiducError if NumPy does not have the element type."""
    if value.type.dtype is None:
        raise TiducError(
            f"output {value.name} has type {value.type}, whose element type NumPy does not have", name
        )
    return value.type.dtype


def _element_type(type: TensorType) -> int:
    """Returns IREE's element type, or 0 if NumPy does not have the type. Checks then reject every argument."""
    return 0 if type.dtype is None else as_number(map_dtype_to_hal_element_type(type.dtype))
