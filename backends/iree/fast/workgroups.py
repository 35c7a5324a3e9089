"""`in_workgroups`: a dispatch of vectors, in parts that IREE divides among threads.

    %0 = flow.dispatch @name::@name(%x)
    flow.executable @name { func.func @name(%x, %out) { %i = flow.dispatch.workgroup.id[0] ... } }

The MLIR bindings do not define the dialect `flow`, so its ops are written in generic form.
"""

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from torch_mlir import ir

from tiduc.backends.iree.emitter import Emitter
from tiduc.backends.iree.fast.kernels import Kernel
from tiduc.backends.iree.fast.vectors import Vectors
from tiduc.backends.iree.missing.dynamic.sizes import Size, read
from tiduc.dialect.context import context
from tiduc.dialect.functions import symbol
from tiduc.dialect.graph import operations
from tiduc.dialect.types import element, shape

_TENSOR = "iree_tensor_ext.dispatch.tensor"
EXECUTABLE, DISPATCH = "flow.executable", "flow.dispatch"
"""The op that holds the code of dispatches, and a dispatch."""


class Part(NamedTuple):
    """A part of an array: its value, its starts there, and its sizes; the value may lack dimensions of size 1."""

    value: Any
    starts: Sequence[Any]
    sizes: Sequence[Any]


Body = Callable[[Vectors, Sequence[Size], Sequence[Any]], Part]


def in_workgroups(
    b: Emitter, name: str, plan: object, inputs: Sequence[Any], type_: Any, counts: Sequence[int], fill: Body
) -> Any:
    """The array whose parts `fill(kernel, place, inputs)` gives for each place in an array of up to three `counts`.

    IREE's threads compute parts, those of successive places along the last dimension one after the other. Dispatches
    with equal names, plans and types share their code, which is emitted once, at the end of the module: what `fill`
    emits must depend on the plan and the types alone.
    """
    context().allow_unregistered_dialects = True  # stays set, since other code copies and prints the op
    module = b.place.block.owner
    while module.name != "builtin.module":
        module = module.parent
    types = [x.type for x in inputs]
    key = hashlib.blake2b(
        repr((plan, counts, *map(str, (*types, type_)))).encode(), digest_size=8
    ).hexdigest()
    name = "_".join((name, *("x".join(map(str, (*shape(x), element(x)))) for x in inputs), key))
    block = module.regions[0].blocks[0]
    if all(symbol(op) != name for op in operations(block) if op.name == EXECUTABLE):
        _executable(Kernel(ir.InsertionPoint(block), b.location), name, types, type_, counts, fill)
    attributes = {
        "entry_points": ir.ArrayAttr.get([ir.SymbolRefAttr.get([name, name])]),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([0, len(inputs), 0, 0]),
    }
    return b.emit(DISPATCH, inputs, type_, attributes)


def detached(module: Any) -> list[Any]:
    """The code of the dispatches of a module, taken out of it."""
    code = [op for op in operations(module.operation.regions[0].blocks[0]) if op.name == EXECUTABLE]
    for op in code:
        op.detach_from_parent()
    return code


def _executable(
    b: Kernel, name: str, types: Sequence[Any], type_: Any, counts: Sequence[int], fill: Body
) -> None:
    """Emits the code of a dispatch, as IREE writes it after it has put dispatches into executables."""
    bound = [_bound("readonly", each) for each in types] + [_bound("writeonly", type_)]
    symbol = {"sym_name": ir.StringAttr.get(name)}
    export = {**symbol, "function_ref": ir.FlatSymbolRefAttr.get(name)}
    function = {**symbol, "function_type": ir.TypeAttr.get(ir.FunctionType.get(bound, []))}
    private = {**symbol, "sym_visibility": ir.StringAttr.get("private")}

    def body(region: Any) -> None:
        block = region.blocks.append(*bound, arg_locs=[b.location] * len(bound))
        k = Vectors(block, b.location, element(type_))
        *given, out = block.arguments
        arrays = [
            k.emit(f"{_TENSOR}.load", (y,), each, _slice([0] * len(each.shape), each.shape, [1, 0]))
            for each, y in zip(types, given, strict=True)
        ]
        place = [
            k.emit("flow.dispatch.workgroup.id", (), ir.IndexType.get(), {"dimension": _index(d)})
            for d in reversed(range(len(counts)))
        ]
        part = fill(k, [read(i) for i in place], arrays)
        at = [*k.dynamic(part.starts), *k.dynamic(part.sizes)]
        k.emit_all(f"{_TENSOR}.store", (part.value, out, *at), (), _slice(part.starts, part.sizes, [1, 1, 0]))
        k.emit_all("func.return", (), ())

    def filled(region: Any) -> None:
        k = b.at(ir.InsertionPoint(region.blocks.append()))
        sizes = [*reversed(counts), 1, 1][:3]
        count = k.region((), lambda k: [k.index(n) for n in sizes], "flow.return")
        k.emit_all("flow.executable.export", (), (), export, [count])
        k.emit_all("builtin.module", (), (), None, [functions])
        k.emit_all("flow.executable_end", (), ())

    def functions(region: Any) -> None:
        k = b.at(ir.InsertionPoint(region.blocks.append()))
        k.emit_all("func.func", (), (), function, [body])

    b.emit_all(EXECUTABLE, (), (), private, [filled])


def _bound(access: str, type_: Any) -> Any:
    """The type of an array as an argument of a dispatch."""
    return ir.Type.parse(f"!{_TENSOR}<{access}:{type_}>")


def _index(n: int) -> Any:
    return ir.IntegerAttr.get(ir.IndexType.get(), n)


def _slice(starts: Sequence[Any], sizes: Sequence[Any], arrays: Sequence[int]) -> dict[str, Any]:
    """The attributes of an op on a slice; its operands are `arrays`, then starts and sizes that are not integers."""

    def static(numbers: Sequence[Any]) -> Any:
        unknown = ir.ShapedType.get_dynamic_size()
        return ir.DenseI64ArrayAttr.get([n if isinstance(n, int) else unknown for n in numbers])

    counts = [*arrays, *(sum(not isinstance(n, int) for n in numbers) for numbers in (starts, sizes)), 0]
    return {
        "static_offsets": static(starts),
        "static_sizes": static(sizes),
        "static_strides": ir.DenseI64ArrayAttr.get([1] * len(starts)),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get(counts),
    }
