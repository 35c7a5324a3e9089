"""refuse_unsupported: refuses programs that IREE or the target cannot run, before IREE's compiler runs.

The error gives the name and the location of the op.
"""

import math
from graphlib import CycleError, TopologicalSorter
from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.emit.emitter import is_static
from tiduc.backends.iree.emit.refused import refused
from tiduc.backends.iree.settings import Settings
from tiduc.backends.iree.targets import Target
from tiduc.dialect.errors import CompileError, Unsupported
from tiduc.dialect.graph.functions import functions_in, outer_first, symbol
from tiduc.dialect.mlir.constants import is_splat
from tiduc.dialect.ops.ir_types import IrOp
from tiduc.dialect.ops.traits import COLLECTIVES
from tiduc.dialect.shapes.types import element

_REFUSED = {
    "stablehlo.infeed": "an IREE module has no infeed",
    "stablehlo.outfeed": "an IREE module has no outfeed",
    "stablehlo.send": "an IREE module runs alone",
    "stablehlo.recv": "an IREE module runs alone",
    "sdy.manual_computation": "it needs several devices, on which XLA runs it (engine='xla')",
    **dict.fromkeys(COLLECTIVES, "collectives compile, then fail when they run"),
}
"""Maps each op that no pattern can rewrite to the reason."""

_LARGEST = 2**47
"""Arrays with this many elements or more are refused, because a process cannot address that many bytes."""


def refuse_types(module: ir.Module | IrOp, target: Target) -> None:
    """Raises `CompileError` for the first op that has an operand or result whose element type the target lacks."""
    for op in outer_first(module.operation) if target.lacks else ():
        for x in (*op.operands, *op.results):
            name = str(x.type.element_type) if isinstance(x.type, ir.ShapedType) else ""
            if name in target.lacks:
                raise CompileError(_lacked(name, target), op.location)


def _lacked(name: str, target: Target) -> str:
    base, having = target.name.partition(":")[0], target.lacks[name]
    variants = ", ".join(f"{base}:{variant}" for variant in having)
    advice = f"these have: {variants}" if having else "convert to another type, or choose another target"
    return f"target {target.name!r} has no arithmetic of {name}; {advice}"


def refuse_unsupported(module: ir.Module, settings: Settings) -> None:
    """Raises `Unsupported` for the first op or argument that IREE is known not to support, and for recursion."""
    called: dict[str, dict[str, Any]] = {}
    checked = set[Any]()
    for function in functions_in(module):
        calls = called.setdefault(symbol(function), {})
        for x in [x for block in function.regions[0].blocks for x in block.arguments]:
            _check_size("an argument", x.type, x.location)
        for op in outer_first(function):
            if op.name in _REFUSED:
                raise refused(op, _REFUSED[op.name])
            _check_constant(op)
            for y in op.results:
                if (type_ := y.type) not in checked:
                    _check_size(op.name, type_, op.location)
                    _check_bytes(op, type_, settings.cpu)
                    checked.add(type_)
            if op.name == "func.call":
                calls.setdefault(ir.FlatSymbolRefAttr(op.attributes["callee"]).value, op)
    _check_recursion(called)


def _check_size(what: str, type_: ir.Type, location: ir.Location) -> None:
    """Refuses an array of `_LARGEST` elements or more."""
    if isinstance(type_, ir.RankedTensorType) and is_static(type_) and math.prod(type_.shape) >= _LARGEST:
        raise Unsupported(f"IREE cannot compile {what}: no machine has the memory for {type_}", location)


def _check_bytes(op: IrOp, type_: ir.Type, cpu: bool) -> None:
    """Refuses an array of 2- to 7-bit integers if it does not fill whole bytes or the target is a GPU.

    IREE packs such elements, but its code for GPUs does not unpack them.
    """
    if not isinstance(type_, ir.RankedTensorType) or not isinstance(type_.element_type, ir.IntegerType):
        return
    width = type_.element_type.width
    if 1 < width < 8 and not cpu:
        raise refused(op, f"code for GPUs reads each element of {type_} as a whole byte")
    if 1 < width < 8 and (not type_.has_static_shape or math.prod(type_.shape) * width % 8):
        raise refused(op, f"the size of {type_} in bits must be known and a multiple of 8")


def _check_constant(op: IrOp) -> None:
    """Refuses constants of 2- to 7-bit integers, because IREE's code for CPUs does not load them. Allows splats."""
    if op.name != "stablehlo.constant" or is_splat(op.attributes["value"]):
        return
    type_ = element(op.results[0])
    if isinstance(type_, ir.IntegerType) and 1 < type_.width < 8:
        byte = str(type_).replace(str(type_.width), "8")
        raise refused(
            op, f"code for CPUs cannot load constants of {type_}; use a constant of {byte}, and convert it"
        )


def _check_recursion(called: dict[str, dict[str, IrOp]]) -> None:
    """Refuses recursive functions. `called` maps the name of each function to its calls: {name of callee: call}."""
    try:
        TopologicalSorter(called).prepare()
    except CycleError as error:
        callee, caller = error.args[1][:2]
        raise refused(
            called[caller][callee],
            f"@{caller} calls itself, directly or through other functions; the compiler would not terminate",
        ) from None
