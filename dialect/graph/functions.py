"""Finds and creates functions of MLIR modules, replaces ops by calls of functions, and lists ops nested in an op."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from torch_mlir import ir

from tiduc.dialect.graph.graph import operations
from tiduc.dialect.ops.attributes import readable
from tiduc.dialect.ops.ir_types import AnyModule, Attributes, IrOp, IrValue

_ADVANCE = ir.WalkResult.ADVANCE


def within(op: IrOp, names: Collection[str] = ()) -> list[ir.Operation]:
    """An op and the ops nested in it, inner ops first. With `names`, only ops with these names."""
    return _walked(op, names, ir.WalkOrder.POST_ORDER)


def outer_first(op: IrOp, names: Collection[str] = ()) -> list[ir.Operation]:
    """An op and the ops nested in it, outer ops first. With `names`, only ops with these names."""
    return _walked(op, names, ir.WalkOrder.PRE_ORDER)


def _walked(op: IrOp, names: Collection[str], order: ir.WalkOrder) -> list[ir.Operation]:
    ops: list[ir.Operation] = []

    def look(inner: ir.Operation) -> ir.WalkResult:
        if not names or inner.name in names:
            ops.append(inner)
        return _ADVANCE

    op.walk(look, order)
    return ops


def functions_in(module: AnyModule | IrOp) -> list[ir.Operation]:
    """The functions directly in a module, without those of nested modules."""
    return [op for op in operations(module.operation.regions[0].blocks[0]) if op.name == "func.func"]


def symbol(op: IrOp) -> str:
    """An op's symbol name, or "" if the op has none."""
    name = readable(op.attributes, "sym_name")
    return str(name.value) if isinstance(name, ir.StringAttr) else ""


def callee(call: IrOp) -> str:
    """The name of the function that a `func.call` calls."""
    return str(ir.FlatSymbolRefAttr(call.attributes["callee"]).value)


def unused_symbol(body: ir.Block, names: Iterable[str]) -> str:
    """The first of `names` that is not the symbol of an op in a module's body."""
    taken = {symbol(op) for op in operations(body)}
    return next(name for name in names if name not in taken)


def new_function(
    name: str,
    types: tuple[Sequence[ir.RankedTensorType], Sequence[ir.RankedTensorType]],
    ip: ir.InsertionPoint,
    location: ir.Location,
    attributes: Attributes | None = None,
) -> tuple[ir.Operation, ir.Block]:
    """Creates a private function. `types` is a pair: the types of its inputs, and the types of its results.

    Returns the function and its block. The block is empty, so the caller must add the terminator, too.
    """
    given = {
        **(attributes or {}),
        "sym_name": ir.StringAttr.get(name),
        "sym_visibility": ir.StringAttr.get("private"),
        "function_type": ir.TypeAttr.get(ir.FunctionType.get(*types)),
    }
    function = ir.Operation.create("func.func", attributes=given, regions=1, loc=location, ip=ip)
    return function, function.regions[0].blocks.append(*types[0])


def outline(op: IrOp, name: str, module_body: ir.Block) -> ir.Operation:
    """Adds a private function to the end of a module. The function runs a copy of `op`, which must not capture values.

    Returns the function. `op` itself is not changed.
    """
    types = [x.type for x in op.operands], [y.type for y in op.results]
    function, block = new_function(name, types, ir.InsertionPoint(module_body), op.location)
    ip = ir.InsertionPoint(block)
    copy = op.clone(ip)
    for i, x in enumerate(block.arguments):
        copy.operands[i] = x
    ir.Operation.create("func.return", operands=list(copy.results), loc=op.location, ip=ip)
    return function


def replace_by_call(
    op: IrOp, function: str, name: str = "func.call", attributes: Mapping[str, ir.Attribute] | None = None
) -> None:
    """Replaces an op by a call of a function, which gets the op's operands as arguments.

    `name` is the op name of the call. `attributes` are the attributes of the call, by default only `callee`.
    """
    attributes = attributes or {"callee": ir.FlatSymbolRefAttr.get(function)}
    types, ip = [y.type for y in op.results], ir.InsertionPoint(op)
    call = ir.Operation.create(name, types, list(op.operands), attributes, loc=op.location, ip=ip)
    replace(op, call.results)


def replace(op: IrOp, values: Iterable[IrValue]) -> None:
    """Replaces the results of an op by other values, and erases the op."""
    for y, x in zip(list(op.results), list(values), strict=True):
        y.replace_all_uses_with(x)
    op.erase()
