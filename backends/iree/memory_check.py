"""memory_check: compiles a program with and without tiduc's changes to its memory, and compares the results.

    as usual    tiduc places the arrays in memory, and arguments may be donated; in addition, memory is filled with NaN
                before and after its use
    plain       IREE places the arrays, no argument is donated, and loops copy their loop-carried values

Both modules run equal dispatches, so their results should be equal bit for bit. The results differ if an array shares
memory with another array that is still read, or if a dispatch reads memory that nothing wrote or that has been
released. Each module is called twice on arrays of the host, and twice on arrays of the device.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from torch_mlir import ir

from tiduc.backends.backend import Lowered, Options
from tiduc.backends.iree.build import build
from tiduc.dialect.errors import RequestError, TiducError
from tiduc.dialect.graph.functions import functions_in
from tiduc.dialect.mlir.context import stage
from tiduc.dialect.ops.ir_types import IrOp
from tiduc.runtime.devices import POISONED, Array
from tiduc.runtime.run import Executable, Module

_CALLS = 2
_DONATES = "iree.abi.output", "tf.aliasing_output", "jax.buffer_donor"


def check_memory(program: Lowered, options: Options, arguments: Sequence[Array]) -> tuple[Array, ...]:
    """Runs the comparison on a CPU of this machine, and returns the program's results.

    Raises a `TiducError` that names the first result that differs, or the first argument that a call overwrites. Raises
    a `RequestError` if the target is no CPU.
    """
    vmfb = build(program, options, poisons=True)
    device = Executable(vmfb, options.target, program.name).device_name
    if not device.startswith("local-"):
        raise RequestError(f"--check-memory is for CPUs, not for {options.target}")
    undonated = replace(program, module=_without_donation(program.module))
    plain = build(undonated, options, is_plain=True)
    wanted = tuple(_results(plain, "plain memory", program, options, device, arguments)[0])
    for results in _results(vmfb, "the program", program, options, device, arguments):
        for output, x, y in zip(program.signature.outputs, results, wanted, strict=True):
            if not _are_equal(x, y):
                count = np.count_nonzero((_bits(x) != _bits(y)).any(1))
                raise TiducError(
                    f"memory: {output.name} differs from that in plain memory in {count} of {x.size} elements; this is "
                    "a fault of tiduc or IREE: please report it"
                )
    return wanted


@stage
def _without_donation(module: ir.Module | IrOp) -> ir.Operation:
    """Copies a module. In the copy, functions donate no argument."""
    copy = module.operation.clone().operation
    for function in functions_in(copy):
        if "arg_attrs" in function.attributes:
            kept = [
                ir.DictAttr.get({name: given[name] for name in names if name not in _DONATES})
                for given in map(ir.DictAttr, function.attributes["arg_attrs"])
                for names in [[entry.name for entry in given]]
            ]
            function.attributes["arg_attrs"] = ir.ArrayAttr.get(kept)
    return copy


def _results(
    vmfb: bytes, what: str, program: Lowered, options: Options, device: str, arguments: Sequence[Array]
) -> list[list[Array]]:
    """Calls a module twice with arrays on the host, and twice with arrays on the device. Returns the four results.

    Copies the results only after all calls. Raises a `TiducError` if a call overwrites an argument.
    """
    with Module(vmfb, options.target, program.name, [device + POISONED]) as module:
        function = module[program.name]
        given = [np.array(x, order="C") for x in arguments]
        calls: list[Sequence[Any]] = [function(*given) for _ in range(_CALLS)]
        for x, before, value in zip(given, arguments, program.signature.inputs, strict=True):
            if not _are_equal(x, np.asarray(before)):
                raise TiducError(f"memory: {what} overwrites the argument {value.name}")
        on_device = [module.put(x) for x in given]
        for _ in range(_CALLS):
            fresh = [module.put(given[i]) if i in function.donated else x for i, x in enumerate(on_device)]
            calls.append(function.keep(*fresh))
        for held, before, value in zip(on_device, given, program.signature.inputs, strict=True):
            if not _are_equal(held.numpy(), before):
                raise TiducError(f"memory: {what} overwrites the argument {value.name} on the device")
        return [[np.array(y) for y in results] for results in calls]


def _are_equal(x: Array, y: Array) -> bool:
    return x.dtype == y.dtype and x.shape == y.shape and bool(np.array_equal(_bits(x), _bits(y)))


def _bits(x: Array) -> Array:
    """The bytes of an array, as a matrix with a row for each element."""
    return np.frombuffer(np.ascontiguousarray(x).tobytes(), np.uint8).reshape(x.size, x.itemsize)
