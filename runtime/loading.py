"""Loads compiled modules into a context of IREE's runtime, and looks up their functions by name."""

import io
import os
import re
import sys
import tempfile
import threading
import weakref
import zipfile
from collections.abc import Sequence
from contextlib import suppress

import iree.runtime as rt

from tiduc.dialect.errors import RequestError, TiducError
from tiduc.runtime.devices import Device, is_inherited, message_of_iree, open_device
from tiduc.runtime.irpa import check_archive
from tiduc.runtime.lapack import lapack_module
from tiduc.runtime.placement import usual_device
from tiduc.runtime.signature import (
    DECLARATION,
    DEVICE,
    LAPACK,
    REFLECTION,
    Signature,
    check_declared,
    donated,
    from_declaration,
    from_reflection,
    without_name,
)
from tiduc.runtime.weights import SCOPE

_CLOSING = threading.Lock()
_PLACEHOLDER = re.compile(r".*/iree_dylib_\w{6}(?: \(deleted\))?")

_TOO_MANY = re.compile(r"binding count (\d+) > (\d+)|requiring (\d+) bindings exceeds limit of (\d+)")


class Loaded:
    """A module that is loaded for one or more devices.

    `context` is IREE's context, or None after the module is closed. `device` is the device to which arguments are
    copied.
    """

    def __init__(
        self,
        vmfb: bytes,
        target: str,
        name: str,
        devices: Sequence[str] = (),
        parameters: str | os.PathLike[str] | None = None,
    ) -> None:
        """Loads a module for the target's device, or for the named `devices`. `vmfb` holds the bytes of the module.

        `parameters` is the archive of the parameters that the module reads. Raises `TiducError` if the bytes are not a
        module for this target, or if a device or a parameter is missing.
        """
        self.vmfb, self.name = vmfb, name
        # A pickle stores these arguments, and loads the module again from them.
        self.arguments = vmfb, target, name, tuple(devices), parameters
        instance = rt.VmInstance()
        module = _module(instance, vmfb, name)
        self._reflections = _reflections(module, name)
        wanted = _devices(self._reflected(DEVICE), target, name, devices)
        opened = [open_device(device, target, name) for device in wanted]
        for device in opened:
            device.trim()  # this module's arrays may have other sizes than arrays that were freed earlier
            weakref.finalize(self, device.trim).atexit = False
        self.device: Device = opened[0]
        modules = [module] if parameters is None else [_parameters(instance, parameters), module]
        if self._reflected(LAPACK):
            modules = [lapack_module(self.device), *modules]
        self.context: rt.VmContext | None = _context(instance, modules, opened, target, name)
        self._module: rt.VmModule | None = module
        _LOADED.add(self)
        # IREE calls `__init` while it loads the module. Users do not call it.
        self.functions = tuple(name for name in self._module.function_names if not name.startswith("__"))

    def entry_or_default(self, entry: str | None) -> str:
        """Returns `entry` or, if it is None, the name of the only function, or else `main`.

        Raises `RequestError` if the module has no such function.
        """
        if entry is None:
            entry = self.functions[0] if len(self.functions) == 1 else "main"
        if entry not in self.functions:
            raise RequestError(
                f"no function {entry!r} in the module; it has: {', '.join(self.functions)}", self.name
            )
        return entry

    def function(self, entry: str) -> rt.VmFunction:
        """Returns IREE's object for the function with this name. Raises RequestError if the module is closed."""
        if self._module is None:
            raise self.unusable()
        return _function(self._module, entry)

    def signature(self, entry: str) -> Signature:
        """Returns the signature of a function.

        The signature is the one that tiduc stored in the module or, if there is none, IREE's declaration, which has
        generic names. Raises `TiducError` if tiduc's signature contradicts IREE's declaration, which the compiled code
        follows.
        """
        reflection = self._reflections[entry]
        try:
            declaration = without_name(reflection[DECLARATION], entry)
            if REFLECTION not in reflection:
                return from_declaration(declaration)
            signature = from_reflection(reflection[REFLECTION])
            check_declared(signature, declaration)
            return signature
        except (ValueError, KeyError) as error:
            raise TiducError(f"the function does not describe its arguments: {error}", self.name) from error

    def unusable(self) -> TiducError:
        """Returns the error to raise if the module has no context, because it is closed or because the process was
        forked.
        """
        if is_inherited(self.device.name):
            return TiducError(
                f"the module was loaded for the device {self.device.name} before this process was forked, "
                "and the device's threads do not exist in the child: load the module after the fork, start "
                "processes with spawn, or compile for the target cpu",
                self.name,
            )
        return RequestError("the module is closed", self.name)

    def donated(self, entry: str) -> tuple[int, ...]:
        """Returns the positions of the inputs that a call of the function overwrites."""
        declaration = self._reflections[entry].get(DECLARATION, "")
        return tuple(sorted(donated(without_name(declaration, entry))))

    def _reflected(self, key: str) -> set[str]:
        """The values of the reflection attribute `key` of all functions of the module."""
        return {reflection.get(key, "") for reflection in self._reflections.values()} - {""}

    def close(self) -> None:
        """Releases the context and the module, but not the arrays on the device."""
        self.context = self._module = None


_LOADED: "weakref.WeakSet[Loaded]" = weakref.WeakSet()


def _after_fork() -> None:
    """In a forked process, closes the modules on devices that the parent process opened."""
    for loaded in _LOADED:
        if is_inherited(loaded.device.name):
            loaded.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _module(instance: rt.VmInstance, vmfb: bytes, name: str) -> rt.VmModule:
    """Returns the module in these bytes, not yet in a context. Raises TiducError if the bytes are not a module."""
    try:
        _check_sums(vmfb)
        module = rt.VmModule.copy_buffer(instance, vmfb)
        for function in module.function_names:  # raises an error if a name or an attribute is not valid text
            _ = _function(module, function).reflection
        return module
    except (ValueError, RuntimeError, IndexError, zipfile.BadZipFile) as error:
        raise TiducError(
            f"not a compiled module, or a damaged one: {message_of_iree(error)}", name
        ) from error


def _function(module: rt.VmModule, name: str) -> rt.VmFunction:
    """The function of this name, which the module must have."""
    function = module.lookup_function(name)
    assert function is not None, name
    return function


def _check_sums(vmfb: bytes) -> None:
    """Raises BadZipFile if a checksum of the module is wrong, because IREE would run the damaged machine code."""
    if vmfb.startswith(b"PK\x03\x04"):  # `iree-compile` writes zip archives; other modules have no checksum
        with zipfile.ZipFile(io.BytesIO(vmfb)) as archive:
            if any(part.compress_type != zipfile.ZIP_STORED for part in archive.infolist()):
                raise zipfile.BadZipFile("the parts of the archive are compressed")
            damaged = archive.testzip()
        if damaged is not None:
            raise zipfile.BadZipFile(f"the checksum of {damaged} differs")


def _devices(declared: set[str], target: str, name: str, devices: Sequence[str]) -> Sequence[str]:
    """Returns the devices for which a module is loaded.

    They are `devices` if given. Otherwise, the device is `local-task` if the module declares it and the target's device
    is `local-sync`, and else the target's device. A module that declares `local-sync` needs the stack of the caller's
    thread, so `TiducError` is raised if such a module would run on `local-task`.
    """
    usual = usual_device(target)
    if "local-sync" in declared and any(device.startswith("local-task") for device in devices or [usual]):
        raise TiducError(
            "the module was compiled for one thread: to use several, compile it for cpu-threads", name
        )
    if devices or usual != "local-sync" or declared != {"local-task"}:
        return devices or [usual]
    return ["local-task"]


def _reflections(module: rt.VmModule, name: str) -> dict[str, dict[str, str]]:
    """Returns the reflection attributes of each function of a module."""
    try:
        return {f: dict(_function(module, f).reflection) for f in module.function_names}
    except (ValueError, RuntimeError) as error:  # for example, text that is not UTF-8
        raise TiducError(
            f"not a compiled module, or a damaged one: {message_of_iree(error)}", name
        ) from error


def _parameters(instance: rt.VmInstance, path: str | os.PathLike[str]) -> rt.VmModule:
    """Returns an IREE module that provides the parameters in an archive. Maps the archive into memory."""
    index = rt.ParameterIndex()
    try:
        check_archive(path)
        index.load(os.fspath(path))
    except OSError as error:
        raise TiducError(f"cannot read: {error.strerror or error}", os.fspath(path)) from None
    except (ValueError, RuntimeError) as error:
        raise TiducError(
            f"not an archive of parameters: {message_of_iree(error)}", os.fspath(path)
        ) from error
    return rt.create_io_parameters_module(instance, index.create_provider(scope=SCOPE))


def _context(
    instance: rt.VmInstance,
    modules: Sequence[rt.VmModule],
    devices: Sequence[Device],
    target: str,
    name: str,
) -> rt.VmContext:
    """Loads the modules for the devices into a new context, and returns the context."""
    try:
        hal = rt.create_hal_module(instance, devices=[device.hal for device in devices])
        return rt.VmContext(instance, [hal, *modules])
    except (ValueError, RuntimeError, IndexError) as error:
        if "io_parameters" in str(error) and all(module.name != "io_parameters" for module in modules):
            raise TiducError("the module reads parameters: name the archive that holds them", name) from error
        many = _TOO_MANY.search(str(error))
        if many:
            count, most = filter(None, many.groups())
            raise TiducError(
                f"IREE fused ops into a dispatch of {count} arrays, but its runtime allows at most {most}; "
                "compile the program in parts, with fewer results each",
                name,
            ) from error
        raise TiducError(_no_temporary_files() or _other_device(str(error), target), name) from error
    finally:
        # Only one thread at a time may close leaked files. If another thread has just closed a descriptor, a new
        # file may get the number of this descriptor.
        with _CLOSING:
            _close_leaked_files()


_FORMAT = re.compile(r'#hal\.executable\.target<"([\w-]+)", "([\w-]+)"(?:, \{cpu = "([\w.-]+)")?')
_TARGETS = {
    "arm_32": "armv7", "arm_64": "aarch64", "riscv_32": "riscv32", "riscv_64": "riscv64", "wasm_32": "wasm32",
    "x86_64": "x86_64", "cuda-nvptx-fb": "cuda", "rocm-hsaco-fb": "hip", "metal-msl-fb": "metal",
    "vulkan-spirv-fb": "vulkan", "vmvx-bytecode-fb": "vmvx",
}  # fmt: skip
"""Maps the suffixes of IREE's executable formats, such as `embedded-elf-x86_64`, to tiduc's targets."""


def _other_device(message: str, target: str) -> str:
    """Returns the error message for a module that does not load.

    The message names the target and the CPU for which the module was compiled, if IREE's message contains them.
    """
    match = _FORMAT.search(message)
    if match is None and "no executable loader registered" in message:
        return (
            f"the module does not load for target {target!r}: it was compiled for another one, or its code calls a "
            "function that this machine lacks; compile the program on this machine"
        )
    if match is None:
        line = message_of_iree(RuntimeError(message))
        return f"the module does not load for target {target!r}; was it compiled for another one? {line}"
    backend, form, cpu = match.groups()
    known = next((name for end, name in _TARGETS.items() if form.endswith(end)), backend)
    cpu = f" and the CPU {cpu}" if cpu and cpu != "generic" else ""
    return (
        f"the module was compiled for {known} ({form}){cpu}, and does not load for target {target!r}: compile the "
        f"program for this machine, or load the module on a machine of that kind"
    )


def _no_temporary_files() -> str | None:
    """Returns the reason why IREE cannot write temporary files, or None if it can.

    IREE loads the libraries in a module from temporary files.
    """
    folder = os.environ.get("TMPDIR") or tempfile.gettempdir()
    try:
        with tempfile.TemporaryFile(dir=folder):
            return None
    except OSError as error:
        return (
            f"no temporary files can be written to {folder} ({error.strerror}); set TMPDIR to another folder"
        )


def _close_leaked_files() -> None:
    """Closes and removes the empty files that IREE leaks. It leaks one file for each shared library that it loads.

    Otherwise, a process runs out of file descriptors after about a thousand modules. Nothing reads these files; they
    only reserve names. A test in test_runtime.py fails once IREE stops leaking them.
    """
    if not sys.platform.startswith("linux"):
        return
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # `listdir` has closed its own descriptor, and other threads may close theirs
            path = os.readlink(f"/proc/self/fd/{descriptor}")
            if _PLACEHOLDER.fullmatch(path):
                os.close(int(descriptor))
                os.unlink(path)
