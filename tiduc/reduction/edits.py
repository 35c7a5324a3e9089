"""Defines edits that make a module smaller.

An `Edit` finds all possible changes of one kind in a module, and returns a function for each change (`Place`). A call
of this function changes the module in place. Several of the functions can be called in order: changes of inner ops come
first, and each function looks up operands when it is called, because an earlier change may have replaced them.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torch_mlir import ir

from tiduc.dialect.graph.functions import within
from tiduc.dialect.graph.graph import operations
from tiduc.dialect.ops.ir_types import IrOp, IrValue

Place = Callable[[], None]
Edit = Callable[[Any], list[Place]]


def _body(module: IrOp) -> Any:
    return module.regions[0].blocks[0]


def _inner(module: IrOp) -> list[ir.Operation]:
    """All ops in functions and graphs, except terminators. Inner ops come before the ops that contain them."""
    return [
        op
        for top in operations(_body(module))
        for op in within(top)
        if op != top and op.block is not None and not _is_terminator(op)
    ]


def _is_terminator(op: IrOp) -> bool:
    return bool(op.has_trait(ir.IsTerminatorTrait))


def _functions(module: IrOp) -> Iterator[tuple[Any, Any, Any]]:
    """Yields each function that has a body, its block, and the block's terminator."""
    for op in operations(_body(module)):
        if op.name == "func.func" and len(op.regions[0].blocks) == 1:
            block = op.regions[0].blocks[0]
            *_, last = operations(block)
            yield op, block, last


def functions(module: IrOp) -> list[Place]:
    """Erases functions, graphs and other top-level ops of the module."""
    return [op.erase for op in operations(_body(module))]


def results(module: IrOp) -> list[Place]:
    """Drops results of functions. The last result of each function comes first."""

    def place(function: IrOp, i: int) -> Place:
        def drop() -> None:
            last = _terminator(function)
            kept = [y for j, y in enumerate(last.operands) if j != i]
            ip = ir.InsertionPoint(last)
            ir.Operation.create(last.name, operands=kept, loc=last.location, ip=ip)
            last.erase()
            _retype(function, "res_attrs", i)

        return drop

    return [
        place(function, i)
        for function, _, last in _functions(module)
        for i in reversed(range(len(last.operands)))
    ]


def _terminator(function: IrOp) -> Any:
    *_, last = operations(function.regions[0].blocks[0])
    return last


def _retype(function: IrOp, attributes: str, dropped: int) -> None:
    """Sets a function's type to the types of its body. Drops entry `dropped` of the attribute named `attributes`."""
    block = function.regions[0].blocks[0]
    types = [x.type for x in block.arguments], [y.type for y in _terminator(function).operands]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(*types))
    if attributes in function.attributes:
        kept = [each for i, each in enumerate(function.attributes[attributes]) if i != dropped]
        function.attributes[attributes] = ir.ArrayAttr.get(kept)


def arguments(module: IrOp) -> list[Place]:
    """Drops unused arguments of functions. The last argument of each function comes first."""

    def place(function: IrOp, block: ir.Block, i: int) -> Place:
        def drop() -> None:
            block.erase_argument(i)
            _retype(function, "arg_attrs", i)

        return drop

    return [
        place(function, block, i)
        for function, block, _ in _functions(module)
        for i in reversed(range(len(block.arguments)))
        if _is_unused(block.arguments[i])
    ]


def _is_unused(value: IrValue) -> bool:
    return next(iter(value.uses), None) is None


def to_first_operands(module: IrOp) -> list[Place]:
    """Erases an op, and replaces each of its results by the first operand with the result's type."""
    return [
        _forwarding(op, [same[0] for same in choices]) for op in _inner(module) if (choices := _choices(op))
    ]


def to_last_operands(module: IrOp) -> list[Place]:
    """Erases an op, and replaces each of its results by the last operand with the result's type.

    Skips ops for which this is the same change as in `to_first_operands`.
    """
    return [
        _forwarding(op, [same[-1] for same in choices])
        for op in _inner(module)
        if (choices := _choices(op)) and any(len(same) > 1 for same in choices)
    ]


def _choices(op: IrOp) -> list[list[int]]:
    """For each result of an op, the indices of the operands with the result's type.

    Returns an empty list if there is a result without such an operand.
    """
    choices = [[i for i, x in enumerate(op.operands) if x.type == y.type] for y in op.results]
    return choices if all(choices) else []


def _forwarding(op: IrOp, chosen: Sequence[int]) -> Place:
    return lambda: _replace(op, [op.operands[i] for i in chosen])


def to_zeros(module: IrOp) -> list[Place]:
    """Erases an op, and replaces its results by constants with all elements zero."""

    def place(op: IrOp, zeros: Sequence[ir.Attribute]) -> Place:
        def replace() -> None:
            ip = ir.InsertionPoint(op)
            made = [
                ir.Operation.create(
                    "stablehlo.constant", [zero.type], [], {"value": zero}, loc=op.location, ip=ip
                ).results[0]
                for zero in zeros
            ]
            _replace(op, made)

        return replace

    places = []
    for op in _inner(module):
        zeros = [zero for y in op.results if (zero := _zero(y.type)) is not None]
        known = op.attributes["value"] if "value" in op.attributes else None
        if zeros and len(zeros) == len(op.results) and (known is None or known != zeros[0]):
            places.append(place(op, zeros))
    return places


def _zero(type_: ir.RankedTensorType) -> ir.Attribute | None:
    """An elements attribute with all elements zero, or None if the type is not that of a static tensor of numbers."""
    if not isinstance(type_, ir.RankedTensorType) or not type_.has_static_shape:
        return None
    element = type_.element_type
    spelled = "0.0" if isinstance(element, ir.FloatType) else "0"
    if isinstance(element, ir.ComplexType):
        spelled = "(0.0, 0.0)"
    try:
        return ir.Attribute.parse(f"dense<{spelled}> : {type_}")
    except ir.MLIRError:
        return None


def _replace(op: IrOp, values: Sequence[IrValue]) -> None:
    """Replaces an op's results by other values, and erases the op."""
    for y, x in zip(op.results, values, strict=True):
        y.replace_all_uses_with(x)
    op.erase()


def branches(module: IrOp) -> list[Place]:
    """Replaces an op such as a `stablehlo.if` by the body of its first region, if the region has no arguments."""

    def place(op: IrOp, block: ir.Block) -> Place:
        def inline() -> None:
            *inner, last = operations(block)
            for each in inner:
                each.move_before(op)
            _replace(op, list(last.operands))

        return inline

    return [
        place(op, region.blocks[0])
        for op in _inner(module)
        for region in list(op.regions)[:1]
        if len(region.blocks) == 1 and not region.blocks[0].arguments and _yields(region.blocks[0], op)
    ]


def _yields(block: ir.Block, op: IrOp) -> bool:
    *_, last = operations(block)
    return [x.type for x in last.operands] == [y.type for y in op.results]


def unused(module: IrOp) -> list[Place]:
    """Erases ops whose results are not used."""
    return [op.erase for op in _inner(module) if all(_is_unused(y) for y in op.results)]


def attributes(module: IrOp) -> list[Place]:
    """Drops discardable attributes, such as names and shardings, and the attributes of arguments and results."""

    def place(op: IrOp, name: str) -> Place:
        def drop() -> None:
            del op.attributes[name]

        return drop

    return [
        place(op, name)
        for op in within(module)
        for name in list(op.attributes)
        if "." in name or name in ("arg_attrs", "res_attrs")
    ]


EDITS: tuple[Edit, ...] = (
    functions,
    results,
    branches,
    to_first_operands,
    to_last_operands,
    to_zeros,
    unused,
    arguments,
    attributes,
)
"""All edits, in the order in which a reduction tries them."""
