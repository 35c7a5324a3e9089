"""Runs programs that the reference interpreter cannot run. It uses XLA through JAX, or IREE.

A program with collectives runs as eight processes. Each argument and result then has one row for each process.
"""

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax._src import xla_bridge  # JAX has no public way to compile StableHLO text
from jaxlib import xla_client
from jaxlib.cpu import _lapack
from numpy.typing import NDArray

from harness.devices import by_processes
from tiduc.backends.iree.compile import compile_module
from tiduc.runtime.run import Executable

Array = NDArray[Any]

OF_XLA = (
    r"custom_call @(lapack_|tridiagonal_)",
    r"stablehlo\.(batch_norm_|cholesky|fft|rng_bit_generator)",
    r"stablehlo\.custom_call @(ApproxTopK|mhlo\.topk)",
    r"stablehlo\.triangular_solve.*ADJOINT.*: \(tensor<[0-9x]*f64>",  # XLA crashes
    r"stablehlo\.triangular_solve.*: \(tensor<([0-9]+x){3}",  # XLA crashes
    r"stablehlo\.triangular_solve.*tensor<([0-9]+x)*0x",
)
COLLECTIVES = (r"stablehlo\.(all_gather|all_reduce|all_to_all|collective_|reduce_scatter|replica_id)",)
OF_IREE = (r"stablehlo\.(einsum|torch_index_select|unary_einsum)",)


@functools.lru_cache(maxsize=16)
def chosen(text: str) -> Callable[[str, Sequence[Array]], tuple[Array, ...]] | None:
    """Returns the function that runs a program if the reference interpreter cannot run it, or else None."""
    for evaluate, patterns in ((by_processes, COLLECTIVES), (by_xla, OF_XLA), (by_iree, OF_IREE)):
        if any(re.search(pattern, text) for pattern in patterns):
            return evaluate
    return None


def by_xla(text: str, arguments: Sequence[Array]) -> tuple[Array, ...]:
    """Returns the results of the function `main` of a StableHLO text, computed by XLA."""
    with jax.enable_x64(True):
        buffers = [jax.device_put(np.asarray(x)) for x in arguments]
        results = _of_xla(text).execute_sharded(buffers).disassemble_into_single_device_arrays()
    return tuple(np.asarray(x[0]) for x in results)


@functools.lru_cache(maxsize=16)  # central differences run the same program many times
def _of_xla(text: str) -> Any:
    _lapack.initialize()  # as JAX does when it emits a LAPACK call
    client = xla_bridge.get_backend("cpu")
    devices = xla_client.DeviceList(tuple(client.local_devices()[:1]))
    options = xla_client.CompileOptions()
    # XLA's fusion emitters double the compile time, which is most of the time of a test.
    options.executable_build_options.debug_options.xla_backend_optimization_level = 0
    try:
        return client.compile_and_load(text, devices, options)
    except jax.errors.JaxRuntimeError:
        if "stablehlo.scatter" not in text:
            raise
        # Without the fusion emitters, XLA rejects scatters whose regions convert the element types.
        options.env_option_overrides = [("xla_cpu_use_fusion_emitters", True)]
        return client.compile_and_load(text, devices, options)


def by_iree(text: str, arguments: Sequence[Array]) -> tuple[Array, ...]:
    """Returns the results of `main`, computed by IREE. IREE accepts deprecated ops that XLA rejects."""
    return tuple(np.asarray(y) for y in _of_iree(text)(*arguments))


@functools.lru_cache(maxsize=16)
def _of_iree(text: str) -> Executable:
    return Executable(compile_module(text))
