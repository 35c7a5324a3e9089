"""Runs multi-process programs and sharded programs with XLA on eight devices, which `conftest.py` creates."""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax._src import xla_bridge  # JAX has no public way to compile StableHLO text
from jax._src.op_shardings import get_num_ways_dim_sharded
from jax._src.sharding_impls import GSPMDSharding
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxlib import xla_client
from numpy.typing import NDArray

Array = NDArray[Any]
COUNT = 8


def by_processes(text: str, arguments: Sequence[Array]) -> tuple[Array, ...]:
    """Runs `main` as eight processes of XLA. Arguments and results have one row for each process."""
    with jax.enable_x64(True):
        compiled = _compiled(text, COUNT, 1, False)
        # Each device gets another row. With the replicated sharding, JAX does not move the rows to other devices.
        each = NamedSharding(Mesh(np.array(jax.devices()), "p"), PartitionSpec())
        buffers = []
        for x in map(np.asarray, arguments):
            parts = [jax.device_put(row, device) for row, device in zip(x, jax.devices(), strict=True)]
            buffers.append(jax.make_array_from_single_device_arrays(x.shape[1:], each, parts))
        results = compiled.execute_sharded(buffers).disassemble_into_single_device_arrays()
        return tuple(np.stack([*map(np.asarray, parts)]) for parts in results)


def by_partitions(text: str, arguments: Sequence[Array], shardy: bool = True) -> tuple[Array, ...]:
    """Runs `main` on eight devices. XLA partitions the program according to its shardings."""
    with jax.enable_x64(True):
        compiled = _compiled(text, 1, COUNT, shardy)
        devices = tuple(jax.devices())
        given = [GSPMDSharding(devices, s) for s in compiled.get_parameter_shardings()]
        buffers = [jax.device_put(np.asarray(x), s) for x, s in zip(arguments, given, strict=True)]
        results = compiled.execute_sharded(buffers).disassemble_into_single_device_arrays()
        got = [GSPMDSharding(devices, s) for s in compiled.get_output_shardings()]
        return tuple(_whole(parts, s) for parts, s in zip(results, got, strict=True))


def _whole(parts: Sequence[Any], sharding: Any) -> Array:
    ways, _ = get_num_ways_dim_sharded(sharding._hlo_sharding)
    sizes = [n * w for n, w in zip(parts[0].shape, ways or [1] * parts[0].ndim, strict=True)]
    return np.asarray(jax.make_array_from_single_device_arrays(tuple(sizes), sharding, list(parts)))


@functools.lru_cache(maxsize=16)  # central differences run the same program many times
def _compiled(text: str, replicas: int, partitions: int, shardy: bool) -> Any:
    client = xla_bridge.get_backend("cpu")
    options = xla_client.CompileOptions()
    options.num_replicas, options.num_partitions = replicas, partitions
    build = options.executable_build_options
    build.num_replicas, build.num_partitions = replicas, partitions
    build.use_spmd_partitioning, build.use_shardy_partitioner = partitions > 1, shardy
    build.device_assignment = xla_client.DeviceAssignment.create(
        np.arange(COUNT).reshape(replicas, partitions)
    )
    return client.compile_and_load(text, xla_client.DeviceList(tuple(client.local_devices())), options)
