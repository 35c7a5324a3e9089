"""Factorizations by LAPACK on the host, for code for CPUs: calls of functions that the module imports.

    %v, %w, %info = call @tiduc_lapack.eigh_f64(%x)

Instead of loops of StableHLO, where that is asked for. `tiduc.runtime` provides the functions, runtime/lapack.py;
other runtimes refuse the module by this name. Sizes are open in their types, so that one function is for all.
"""

from collections.abc import Sequence
from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.emitter import Emitter, signless
from tiduc.dialect.graph import operations
from tiduc.dialect.types import element, is_complex, shape

LOOPS, CALLBACK = "loops", "callback"
LAPACK = (LOOPS, CALLBACK)
"""Where factorizations come from: written as StableHLO, or LAPACK on the host, which the module calls."""

_MODULE = "tiduc_lapack"
"""The module of IREE's that has the functions."""


def on_host(b: Emitter, name: str, xs: Sequence[Any], types: Sequence[Any]) -> tuple[Any, ...]:
    """The arrays of these types that a function gives for batches of matrices, all of one element type."""
    function = f"{_MODULE}.{name}_{_suffix(xs[0])}"
    taken, given = [_opened(x.type) for x in xs], [_opened(type_) for type_ in types]
    _declare(b, function, ir.FunctionType.get(taken, given))
    operands = [b.emit("tensor.cast", (x,), type_) for x, type_ in zip(xs, taken, strict=True)]
    results = b.emit_all("func.call", operands, given, {"callee": ir.FlatSymbolRefAttr.get(function)})
    return tuple(b.emit("tensor.cast", (y,), type_) for y, type_ in zip(results, types, strict=True))


def info_type(x: Any) -> Any:
    """The type of `info`: one number a batch."""
    return ir.RankedTensorType.get(shape(x)[:1], signless(32))


def calls_back(module: Any) -> bool:
    """Whether a module imports functions of the host's."""
    return any(_name(op).startswith(f"{_MODULE}.") for op in _functions(module.operation))


def _declare(b: Emitter, function: str, type_: Any) -> None:
    """Adds the function to the end of the module, if it is not there yet."""
    module = b.place.block.owner
    while module.name != "builtin.module":
        module = module.parent
    if any(_name(op) == function for op in _functions(module)):
        return
    attributes = {
        "sym_name": ir.StringAttr.get(function),
        "function_type": ir.TypeAttr.get(type_),
        "sym_visibility": ir.StringAttr.get("private"),
    }
    ip = ir.InsertionPoint(module.regions[0].blocks[0])
    ir.Operation.create("func.func", attributes=attributes, regions=1, loc=b.location, ip=ip)


def _functions(module: Any) -> list[Any]:
    return [op for op in operations(module.regions[0].blocks[0]) if op.name == "func.func"]


def _name(function: Any) -> str:
    return str(ir.StringAttr(function.attributes["sym_name"]).value)


def _suffix(x: Any) -> str:
    """How the function's name says the element type: f32, f64, c64, c128."""
    kind = element(x)
    return f"c{2 * kind.element_type.width}" if is_complex(x) else f"f{kind.width}"


def _opened(type_: Any) -> Any:
    """The type with sizes that are not known."""
    open_size = ir.ShapedType.get_dynamic_size()
    return ir.RankedTensorType.get([open_size] * type_.rank, type_.element_type)
