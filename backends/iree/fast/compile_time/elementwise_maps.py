"""elementwise_maps: replaces elementwise ops by one `stablehlo.map`, which compiles faster.

    %0 = multiply %x, %y : 4x5xf32              %1 = map (%x, %y) {
    %1 = add %0, 2 : 4x5xf32             ->       ^bb0(%a : f32, %b : f32):
                                                    %0 = multiply %a, %b; %1 = add %0, 2; return %1
                                                } : 4x5xf32

IREE turns each op into a loop nest (`linalg.generic`) and fuses the loop nests much later. Until then, its passes and
its verifier spend time on each op. A map becomes a single loop nest.

If all readers of an op's result are in one map, and the shapes are equal, the op joins this map. IREE would fuse these
ops anyway, so the kernels and the values do not change. There is one exception: in a map, the subtraction in a softmax
keeps IREE from recognizing the softmax. The code for a recognized softmax makes gradients up to 1.7 times as slow.

First, reshapes, broadcasts and conversions of splat constants are folded to splat constants, so that the map contains
a scalar constant instead of reading an array.
"""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from torch_mlir import ir

from tiduc.backends.iree.emit.emitter import Emitter, is_static, rewriting
from tiduc.backends.iree.emit.known import constant_splat
from tiduc.backends.iree.fault import slow
from tiduc.dialect.graph.functions import functions_in, replace
from tiduc.dialect.graph.graph import operations
from tiduc.dialect.mlir.context import stage
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.ops.traits import ELEMENTWISE, VIEWS
from tiduc.dialect.shapes.types import dims, with_shape

_FLOATS = ir.BF16Type, ir.F16Type, ir.F32Type, ir.F64Type
"""The float types on which IREE's loop nests compute without a conversion to another type."""


CONSTANT = "stablehlo.constant"

_ROUNDED: dict[str, Any] = {"f32": np.float32, "f64": np.float64}
"""For each float type, the NumPy type to which a number is rounded."""


@slow(
    "IREE compiles one loop nest for each elementwise op, and fuses the nests late; tiduc emits maps of several ops.",
    "flags.py: softmax of rows",
)
@stage
def elementwise_maps(module: ir.Module | IrOp) -> int:
    """Fuses elementwise ops into maps in the functions of a module, in place. Returns the number of maps."""
    blocks = [block for function in functions_in(module) for block in function.regions[0]]
    for block in blocks:
        _fold(block)
    count = sum(map(_map, [group for block in blocks for group in _groups(block)]))
    for block in blocks:
        _drop_unread(block)
    return count


def _fold(block: ir.Block) -> None:
    """Replaces views and conversions of splat constants in a block by splat constants."""
    for op in list(operations(block)):
        keeps = len(op.operands) == 1 and (op.name in VIEWS or op.name == "stablehlo.convert")
        if keeps and (number := _number(op)) is not None:
            with rewriting(op) as b:
                value = ir.DenseElementsAttr.get_splat(op.results[0].type, number)
                replace(op, [b.emit(CONSTANT, (), value.type, {"value": value})])


def _number(op: IrOp) -> ir.Attribute | None:
    """The number that fills the result of a view or conversion, if the operand is a splat constant.

    Returns None if the operand is no splat constant, or if the conversion is not folded.
    """
    (x,), y = op.operands, op.results[0].type
    if _sizes(x.type) is None or _sizes(y) is None or (number := constant_splat(x)) is None:
        return None
    if x.type.element_type == y.element_type:
        return number
    rounded = _ROUNDED.get(str(y.element_type)) if str(x.type.element_type) in _ROUNDED else None
    with np.errstate(over="ignore"):
        return None if rounded is None else ir.FloatAttr.get(y.element_type, float(rounded(number.value)))


def _drop_unread(block: ir.Block) -> None:
    """Erases the unread constants of a block."""
    for op in list(operations(block)):
        if op.name == CONSTANT and not list(op.results[0].uses):
            op.erase()


def _groups(block: ir.Block) -> list[list[ir.Operation]]:
    """Finds the groups of ops in a block that become maps. A group has at least two ops, in the block's order."""
    last_of: dict[ir.Operation, ir.Operation] = {}  # maps each op of a group to the group's last op
    groups: dict[ir.Operation, list[ir.Operation]] = {}
    for op in reversed(list(operations(block))):
        if _is_of_scalars(op):
            lasts = {last_of.get(use.owner.operation) for use in op.results[0].uses}
            (last,) = lasts if len(lasts) == 1 else (None,)
            if last is None or last.results[0].type.shape != op.results[0].type.shape:
                last = op
            last_of[op] = last
            groups.setdefault(last, []).append(op)
    return [group[::-1] for group in groups.values() if len(group) > 1]


def _is_of_scalars(op: IrOp) -> bool:
    """Whether an op is elementwise, and each operand is a splat constant or has the shape of the result."""
    if op.name not in ELEMENTWISE or not (sizes := _sizes(op.results[0].type)):
        return False
    read = [(x, _sizes(x.type)) for x in op.operands]
    return all(of == sizes or (of is not None and constant_splat(x) is not None) for x, of in read)


@functools.cache
def _sizes(type_: ir.RankedTensorType) -> tuple[int, ...] | None:
    """The shape of a static array type of floats or signless integers. Returns None for other types."""
    if not is_static(type_):
        return None
    kind = type_.element_type
    is_plain = isinstance(kind, _FLOATS) or (isinstance(kind, ir.IntegerType) and kind.is_signless)
    return tuple(type_.shape) if is_plain else None


def _map(group: Sequence[IrOp]) -> bool:
    """Replaces a group of ops by a map, if the group reads an array. Returns whether the group was replaced."""
    inside = {op.results[0] for op in group}
    read = dict.fromkeys(x for op in group for x in op.operands if x not in inside)
    inputs = [x for x in read if constant_splat(x) is None]
    if not inputs:
        return False

    def fill(b: Emitter, *scalars: IrValue) -> list[IrValue]:
        values = dict(zip(inputs, scalars, strict=True))
        for x in read:
            if x not in values:
                values[x] = b.emit(CONSTANT, (), _scalar(x), {"value": _splat(x)})
        for op in group:
            attributes = {name: op.attributes[name] for name in op.attributes}
            operands = [values[x] for x in op.operands]
            values[op.results[0]] = b.emit(op.name, operands, _scalar(op.results[0]), attributes)
        return [values[group[-1].results[0]]]

    y = group[-1].results[0]
    with rewriting(group[-1]) as b:
        region = b.region([_scalar(x) for x in inputs], fill)
        (z,) = b.emit_all(
            "stablehlo.map", inputs, [y.type], {"dimensions": dims(range(y.type.rank))}, [region]
        )
    y.replace_all_uses_with(z)
    for op in reversed(group):
        op.erase()
    return True


def _splat(x: IrValue) -> ir.DenseElementsAttr:
    """Returns the value of a scalar constant that is equal to the elements of the splat constant x."""
    number = constant_splat(x)
    assert number is not None, x
    return ir.DenseElementsAttr.get_splat(_scalar(x), number)


def _scalar(x: IrValue) -> ir.RankedTensorType:
    """The type of one element of an array."""
    return with_shape(x.type, [])
