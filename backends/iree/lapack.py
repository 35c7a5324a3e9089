"""Factorizations by LAPACK on the host, on CPU targets: calls of functions that the module imports.

    %v, %w, %info = call @tiduc_lapack.eigh_f64(%x)

Used on request, instead of loops of StableHLO. `tiduc.runtime` provides the functions (runtime/lapack.py); other
runtimes refuse the module because `tiduc_lapack` is missing. The functions' types have dynamic dimensions, so that
one function serves all sizes.
"""

from collections.abc import Sequence
from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.emitter import Emitter, signless
from tiduc.dialect.graph import operations
from tiduc.dialect.types import element, is_complex, shape

_MODULE = "tiduc_lapack"
"""The IREE module that exports the functions."""


def on_host(b: Emitter, name: str, xs: Sequence[Any], types: Sequence[Any]) -> tuple[Any, ...]:
    """The results, of the given types, of a host function for batches of matrices of one element type."""
    function = f"{_MODULE}.{name}_{_suffix(xs[0])}"
    taken, given = [_opened(x.type) for x in xs], [_opened(type_) for type_ in types]
    _declare(b, function, ir.FunctionType.get(taken, given))
    operands = [b.emit("tensor.cast", (x,), type_) for x, type_ in zip(xs, taken, strict=True)]
    results = b.emit_all("func.call", operands, given, {"callee": ir.FlatSymbolRefAttr.get(function)})
    return tuple(b.emit("tensor.cast", (y,), type_) for y, type_ in zip(results, types, strict=True))


def info_type(x: Any) -> Any:
    """The type of `info`: one i32 per matrix of the batch x."""
    return ir.RankedTensorType.get(shape(x)[:1], signless(32))


def calls_back(module: Any) -> bool:
    """Whether a module imports the host's functions."""
    functions = (op for op in operations(module.operation.regions[0].blocks[0]) if op.name == "func.func")
    return any(ir.StringAttr(op.attributes["sym_name"]).value.startswith(f"{_MODULE}.") for op in functions)


def _declare(b: Emitter, function: str, type_: Any) -> None:
    """Declares the function at the end of the module, unless it is declared already."""
    module = b.place.block.owner
    while module.name != "builtin.module":
        module = module.parent
    if function in ir.SymbolTable(module):
        return
    attributes = {
        "sym_name": ir.StringAttr.get(function),
        "function_type": ir.TypeAttr.get(type_),
        "sym_visibility": ir.StringAttr.get("private"),
    }
    ip = ir.InsertionPoint(module.regions[0].blocks[0])
    ir.Operation.create("func.func", attributes=attributes, regions=1, loc=b.location, ip=ip)


def _suffix(x: Any) -> str:
    """The element type as it is spelled in the function's name: f32, f64, c64, c128."""
    kind = element(x)
    return f"c{2 * kind.element_type.width}" if is_complex(x) else f"f{kind.width}"


def _opened(type_: Any) -> Any:
    """The type with all dimensions dynamic."""
    open_size = ir.ShapedType.get_dynamic_size()
    return ir.RankedTensorType.get([open_size] * type_.rank, type_.element_type)
