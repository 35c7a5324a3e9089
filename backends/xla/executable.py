"""Compiles StableHLO with XLA to an executable that JAX's runtime runs.

Each partition of a partitioned program runs on a device of its own. After `jax.distributed.initialize`, the program
uses the devices of all processes. A process then needs only its shards of the arguments: the parts that its devices
hold. Likewise, `keep` returns only the process's shards of the results. JAX is required (`pip install 'tiduc[xla]'`),
and is imported when the first program is compiled.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tiduc.backends.xla.arrays import ReadByParts, Reader, ShardedArray, Sharding, is_reader
from tiduc.dialect.errors import CompileError, RequestError, TiducError, first_line
from tiduc.runtime.arrays import Array
from tiduc.runtime.checks import check_count, check_sizes, check_type, checked
from tiduc.runtime.signature import Signature, SignatureValue

MOST_SIMULATED = 2048
"""The most devices that XLA may simulate on a CPU. Each device is a thread; to start 4,096 of them takes a minute."""

_PLATFORMS = {"cpu": "cpu", "cpu-threads": "cpu", "cuda": "cuda", "hip": "rocm"}


class XlaExecutable:
    """A program compiled by XLA for one or several devices. Has the interface of `Executable`, but cannot be saved.

    `signature` has the inputs and outputs, and `entry` is the program's name. `donated` is empty, because no call
    overwrites an argument.
    """

    donated: tuple[int, ...] = ()

    def __init__(
        self,
        stablehlo: str,
        signature: Signature,
        target: str = "cpu",
        entry: str = "main",
        partitions: int = 1,
    ) -> None:
        """Compiles a module whose function `main` has this signature. Error messages call the module `entry`.

        Raises `CompileError` if XLA refuses the module, `RequestError` for a target that XLA lacks, and `TiducError` if
        JAX is missing or has too few devices.
        """
        self.signature, self.entry = signature, entry
        jax, client = _client(target)
        self._processes = jax.process_count() if partitions > 1 else 1
        devices = jax.devices() if self._processes > 1 else client.local_devices()
        if len(devices) < partitions:
            raise TiducError(
                f"the program is for {partitions} devices; XLA has {len(devices)} of {target!r} here"
            )
        self._jax, self._devices = jax, tuple(devices[:partitions])
        try:
            self._loaded = _compiled(client, stablehlo, self._devices)
        except Exception as error:  # jaxlib raises several types of exceptions
            raise CompileError(f"XLA: {str(error).partition(chr(10))[0]}", f"@{entry}") from error
        self._shardings = [self._sharding(s) for s in self._loaded.get_parameter_shardings() or ()]
        self._results = [self._sharding(s) for s in self._loaded.get_output_shardings() or ()]

    def __call__(self, *arguments: ArrayLike) -> tuple[Array, ...]:
        """Runs the program and returns the outputs as complete NumPy arrays.

        Arguments are checked as in `Executable`. With several processes, each process gets the complete arrays; `keep`
        avoids this.
        """
        return tuple([self.gathered(array) for array in self.keep(*arguments)])

    def keep(self, *arguments: ArrayLike | Reader) -> tuple[ShardedArray, ...]:
        """Runs the program and returns the outputs as JAX arrays on their devices.

        With several processes, an output has the shards of this process only. An argument is an array, a JAX array, or
        a function that returns the part of the argument at given slices (`Reader`). The function is called for the
        shards of this process only. A `numpy.memmap` is read in the same way.
        """
        inputs = self.signature.inputs
        check_count(self.entry, self.signature, arguments)
        arrays = [
            self._checked(x, value, i) for i, (x, value) in enumerate(zip(arguments, inputs, strict=True))
        ]
        check_sizes(self.signature, arrays)
        try:
            with self._jax.enable_x64(True):
                buffers = [self._put(x, i) for i, x in enumerate(arrays)]
                parts = self._loaded.execute_sharded(buffers).disassemble_into_single_device_arrays()
                return tuple([self._global_array(part, i) for i, part in enumerate(parts)])
        except TiducError:
            raise
        except Exception as error:
            raise TiducError(
                f"{self.entry} failed while running: {str(error).partition(chr(10))[0]}"
            ) from error

    def place(self, name: str, argument: ArrayLike | Reader) -> ShardedArray:
        """Returns the argument for the input `name` as a JAX array, split among the devices as the program reads it.

        Calls take such an array without a copy. This process holds only its own shards. `argument` is as in `keep`.
        Raises `RequestError` for an unknown name, and `InputError` for an array of a wrong type.
        """
        names = [value.name for value in self.signature.inputs]
        if name not in names:
            raise RequestError(f"there is no input {name!r}; there are: {', '.join(names)}")
        i = names.index(name)
        with self._jax.enable_x64(True):
            return self._put(self._checked(argument, self.signature.inputs[i], i), i)

    @property
    def shardings(self) -> Mapping[str, Sharding]:
        """The `jax.sharding.Sharding` of each input, by name."""
        alone = self._jax.sharding.SingleDeviceSharding(self._devices[0])
        names = [value.name for value in self.signature.inputs]
        return dict(
            zip(names, self._shardings if len(self._devices) > 1 else [alone] * len(names), strict=True)
        )

    def __repr__(self) -> str:
        return f"<XlaExecutable {self.entry}{self.signature}>"

    def _checked(
        self, argument: ArrayLike | Reader, value: SignatureValue, index: int
    ) -> Array | ShardedArray | ReadByParts:
        """Checks an argument against the type of the input `value`, and returns it. A JAX array stays on its device."""
        if is_reader(argument):
            return ReadByParts(argument, value, index)
        array: Any = argument
        if not isinstance(array, self._jax.Array):
            return checked(array, value, index)
        check_type(array, value, index)
        kept: ShardedArray = array
        return kept

    def _sharding(self, of_xla: object) -> Sharding:
        from jax._src.sharding_impls import GSPMDSharding  # JAX has no public name for XLA's shardings

        sharding: Sharding = GSPMDSharding(self._devices, of_xla)
        return sharding

    def _put(self, array: Array | ShardedArray | ReadByParts, index: int) -> ShardedArray:
        several = len(self._devices) > 1
        where = self._shardings[index] if several else self._devices[0]
        if isinstance(array, ReadByParts) and not several:
            array = array.whole()
        if several and not isinstance(array, self._jax.Array):
            # Each process reads and copies only the parts for its own devices.
            by_parts: Any = array
            placed: ShardedArray = self._jax.make_array_from_callback(
                array.shape, where, by_parts.__getitem__
            )
        else:
            placed = self._jax.device_put(array, where)
        return placed

    def gathered(self, array: ShardedArray) -> Array:
        """Copies a JAX array to the host as a whole, even if other processes hold parts of it.

        All processes must call this function with their shards of the array, in the same order. Raises `TiducError` if
        another process has died.
        """
        if array.is_fully_addressable or array.is_fully_replicated:
            return np.array(array)
        from jax.experimental import multihost_utils

        try:
            gathered: Array = np.asarray(multihost_utils.process_allgather(array, tiled=True))
        except Exception as error:  # jaxlib raises several types of exceptions
            raise TiducError(f"{self.entry} failed while gathering a result: {first_line(error)}") from error
        return gathered

    def _global_array(self, parts: Sequence[ShardedArray], index: int) -> ShardedArray:
        """Returns the JAX array of output `index`, assembled from its parts or copies on the devices."""
        if len(self._devices) == 1:
            return parts[0]
        shape = self.signature.outputs[index].type.shape
        joined: ShardedArray = self._jax.make_array_from_single_device_arrays(
            shape, self._results[index], list(parts)
        )
        return joined


def check_target(target: str) -> None:
    """Raises `RequestError` for a target that XLA lacks."""
    if target not in _PLATFORMS:
        raise RequestError(f"XLA has no target {target!r}; it has: {', '.join(_PLATFORMS)}")


def check_simulated(devices: int) -> None:
    """Raises `RequestError` for more devices than XLA can simulate on one CPU."""
    if devices > MOST_SIMULATED:
        raise RequestError(
            f"the program is for {devices:,} devices; one CPU can simulate up to {MOST_SIMULATED:,} devices"
        )


def _client(target: str) -> tuple[Any, Any]:
    """Imports JAX. Returns the module `jax`, and XLA's client for a target.

    Raises `TiducError` if JAX is not installed or has no device of the target.
    """
    check_target(target)
    platform = _PLATFORMS[target]
    try:
        import jax
        from jax._src import xla_bridge  # JAX has no public way to compile StableHLO text
    except ImportError:
        raise TiducError("the engine xla needs JAX: pip install 'tiduc[xla]'") from None
    try:
        return jax, xla_bridge.get_backend(platform)
    except RuntimeError as error:
        raise TiducError(f"XLA has no device of target {target!r}: {error}") from error


def _compiled(client: Any, stablehlo: str, devices: Sequence[Any], fast: bool = True) -> Any:
    """Compiles StableHLO text with XLA, with one partition for each device, and loads the executable.

    With `fast=False`, LLVM optimizes less, so that the compilation takes less time, but the executable is slower.
    """
    from jaxlib import xla_client
    from jaxlib.cpu import _lapack

    if "@lapack_" in stablehlo:
        _lapack.initialize()  # a call of LAPACK would otherwise crash the process
    options = xla_client.CompileOptions()
    options.num_replicas, options.num_partitions = 1, len(devices)
    build = options.executable_build_options
    build.num_replicas, build.num_partitions = 1, len(devices)
    build.use_spmd_partitioning = len(devices) > 1
    build.use_shardy_partitioner = "sdy." in stablehlo
    if not fast:
        build.debug_options.xla_backend_optimization_level = 0
        build.debug_options.xla_llvm_disable_expensive_passes = True
    ids = np.array([[device.id for device in devices]])
    build.device_assignment = xla_client.DeviceAssignment.create(ids)
    return client.compile_and_load(stablehlo, xla_client.DeviceList(tuple(devices)), options)


def compiled_for_simulated_devices(stablehlo: str, partitions: int) -> str:
    """Compiles a module for `partitions` devices, which XLA simulates on the CPU. Returns the partitioned HLO text.

    Other programs of this process are not affected. Raises `CompileError` if XLA refuses the module, `RequestError` for
    more than `MOST_SIMULATED` devices, and `TiducError` if JAX is missing.
    """
    check_simulated(partitions)
    _client("cpu")  # sets up JAX's logging, and checks that JAX is installed
    from jaxlib import xla_client

    client = xla_client.make_cpu_client(num_devices=partitions)
    try:
        loaded = _compiled(client, stablehlo, client.local_devices(), fast=False)
        text: str = loaded.hlo_modules()[0].to_string()
        return text
    except Exception as error:  # jaxlib raises several types of exceptions
        raise CompileError(f"XLA: {str(error).partition(chr(10))[0]}") from error
