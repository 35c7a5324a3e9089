"""`make_static` replaces JAX's custom calls for dynamic sizes by ops with static sizes, if all sizes are constants.

    custom_call @stablehlo.dynamic_top_k(%x, 2)                     -> chlo.top_k(%x) {k = 2}
    custom_call @stablehlo.dynamic_reduce_window(%x, %i, sizes...)  -> reduce_window(%x, %i) {sizes...}
    custom_call @stablehlo.dynamic_approx_top_k(..., 2)             -> custom_call @ApproxTopK(...) {top_k = 2}

It is needed because the pass stablehlo-refine-shapes does not support these calls.

`mark_sums` adds an attribute to the calls that reduce windows: the indices of the results that are sums. Derivative
rules need the attribute, because the body of the reduction is a called function, which rules cannot read.

    custom_call @stablehlo.dynamic_reduce_window(...) {called_computations = [@add]}    gets {tidu.sums = [0]}
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from torch_mlir import ir

from tiduc.dialect.facts.lapack import CONFIG
from tiduc.dialect.facts.windows import Window
from tiduc.dialect.graph.functions import replace, symbol, within
from tiduc.dialect.graph.graph import operations
from tiduc.dialect.graph.matching import defined_by
from tiduc.dialect.ops.attributes import named_attributes
from tiduc.dialect.ops.control_ops import CUSTOM_CALL, GRAPHS, TARGET, call_target
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.ops.verify import TERMINATOR
from tiduc.dialect.shapes.origins import DYNAMIC_TOP_K, SHAPE_OPERANDS
from tiduc.dialect.shapes.types import i64, is_dynamic

REDUCE_WINDOW, APPROX_TOP_K = "stablehlo.dynamic_reduce_window", "stablehlo.dynamic_approx_top_k"
SUMS = "tidu.sums"
"""Attribute of a `REDUCE_WINDOW` call: the indices of the results that are sums."""


def violation(op: IrOp) -> str | None:
    """Says why a call for dynamic sizes is invalid, by a phrase whose subject is the call, such as "takes ...".

    Returns None for a valid call, and for any other op.
    """
    name, count = call_target(op), len(op.results)
    ranks = [x.type.rank if isinstance(x.type, ir.RankedTensorType) else -1 for x in op.operands]
    if name == DYNAMIC_TOP_K and (len(ranks) != 2 or count != 2 or ranks[0] < 1 or ranks[1] != 0):
        return "takes an array of at least one dimension and a scalar k, and returns values and indices"
    if name == REDUCE_WINDOW:
        expected = [max(ranks[:1], default=0)] * count + [0] * count + [1, 1, 1, 1, 2]
        if not count or ranks != expected or any(is_dynamic(x.type) for x in list(op.operands)[2 * count :]):
            return "takes arrays, as many scalars, four static vectors, and a static matrix of paddings"
        if any(list(x.type.shape)[0] != ranks[0] for x in list(op.operands)[2 * count :]):
            return "has vectors whose length is not the rank of the arrays"
    if SHAPE_OPERANDS in op.attributes:
        listed = op.attributes[SHAPE_OPERANDS]
        positions = [int(i) for i in listed] if isinstance(listed, ir.DenseIntElementsAttr) else []
        shapes = [ranks[i] if 0 <= i < len(ranks) else -1 for i in positions]
        if len(positions) != count or any(rank != 1 for rank in shapes):
            return f"has {SHAPE_OPERANDS} that do not name a vector for each result"
    return None


def make_static(module: ir.Module) -> None:
    """Replaces each call for dynamic sizes whose arrays have static shapes and whose other operands are constants."""
    functions = {symbol(op): op for op in operations(module.body)}
    for call in within(module.operation, (CUSTOM_CALL,)):
        if call_target(call) == DYNAMIC_TOP_K:
            _top_k(call)
        elif call_target(call) == APPROX_TOP_K:
            _approx_top_k(call)
        elif call_target(call) == REDUCE_WINDOW:
            _reduce_window(call, functions)


def _top_k(call: IrOp) -> None:
    x, k = call.operands
    given = _constants([k])
    if given is None or is_dynamic(x.type):
        return
    shape = [*list(x.type.shape)[:-1], int(given[0])]
    types = [ir.RankedTensorType.get(shape, y.type.element_type) for y in call.results]
    _replace(call, "chlo.top_k", [x], types, {"k": i64(given[0])})


def _approx_top_k(call: IrOp) -> None:
    """Replaces a call by a call of `ApproxTopK` with k as an attribute, if k is a constant and the results are static.

    The pass stablehlo-canonicalize-dynamism must have run before, because it removes the shape operands.
    """
    *operands, k = call.operands
    given = _constants([k])
    if given is None or any(is_dynamic(y.type) for y in call.results):
        return
    attributes = {name: call.attributes[name] for name in call.attributes}
    attributes[TARGET] = ir.StringAttr.get("ApproxTopK")
    for config in CONFIG:
        if config in attributes:
            attributes[config] = ir.DictAttr.get(
                named_attributes(attributes[config]) | {"top_k": i64(given[0])}
            )
    _replace(call, CUSTOM_CALL, operands, [y.type for y in call.results], attributes)


def _reduce_window(call: IrOp, functions: dict[str, IrOp]) -> None:
    count = len(call.results)
    arrays, given = list(call.operands)[: 2 * count], _constants(list(call.operands)[2 * count :])
    if given is None or any(is_dynamic(x.type) for x in arrays):
        return
    sizes, strides, base, dilation, padding = given
    numbers = (sizes, strides, base, dilation, padding[:, 0], padding[:, 1])
    window = Window(*(tuple(map(int, column)) for column in numbers))
    shape = window.outputs(list(arrays[0].type.shape))
    types = [ir.RankedTensorType.get(shape, y.type.element_type) for y in call.results]
    body = functions[call.attributes[GRAPHS][0].value].regions[0].blocks[0]
    op = _replace(call, "stablehlo.reduce_window", arrays, types, window.attributes, regions=1)
    _copy(body, op.regions[0])


def _copy(body: ir.Block, region: ir.Region) -> None:
    """Copies the ops of a function's block to a new block of a region. The return becomes a `stablehlo.return`."""
    types = [x.type for x in body.arguments]
    block = region.blocks.append(*types, arg_locs=[x.location for x in body.arguments])
    values, ip = dict(zip(body.arguments, block.arguments, strict=True)), ir.InsertionPoint(block)
    *ops, end = operations(body)
    for inner in ops:
        copy = inner.clone(ip)
        for i, x in enumerate(inner.operands):
            copy.operands[i] = values[x]
        values.update(zip(inner.results, copy.results, strict=True))
    ir.Operation.create(TERMINATOR, operands=[values[y] for y in end.operands], loc=end.location, ip=ip)


def _constants(values: Sequence[IrValue]) -> list[NDArray[np.int64]] | None:
    """Returns the elements of each value as an array, or None unless all values are constants."""
    constants = [defined_by(x, "stablehlo.constant") for x in values]
    known = [each for each in constants if each is not None]
    if len(known) < len(constants):
        return None
    attributes = [ir.DenseElementsAttr(each.attributes["value"]) for each in known]
    return [np.broadcast_to(np.array(value), ir.ShapedType(value.type).shape) for value in attributes]


def _replace(
    call: IrOp,
    name: str,
    operands: Sequence[IrValue],
    types: Sequence[ir.RankedTensorType],
    attributes: Mapping[str, ir.Attribute],
    regions: int = 0,
) -> ir.Operation:
    """Replaces a call by a new op, and returns the new op.

    Emits conversions of the new results to the types of the call's results. The pass stablehlo-refine-shapes later
    removes these conversions.
    """
    ip, location = ir.InsertionPoint(call), call.location
    op = ir.Operation.create(name, types, operands, attributes, regions=regions, loc=location, ip=ip)
    converted = (
        ir.Operation.create("stablehlo.convert", [y.type], [x], loc=location, ip=ip).result
        for y, x in zip(call.results, op.results, strict=True)
    )
    replace(call, converted)
    return op


def mark_sums(module: ir.Module, ops: Iterable[IrOp]) -> None:
    """Adds the attribute `SUMS` to the `REDUCE_WINDOW` calls among `ops`, which are ops of the module.

    Skips a call whose body is not a function of the module with exactly one block.
    """
    calls = [op for op in ops if call_target(op) == REDUCE_WINDOW]
    functions = {symbol(op): op for op in operations(module.body)} if calls else {}
    for op in calls:
        body = functions.get(op.attributes[GRAPHS][0].value) if GRAPHS in op.attributes else None
        if body is not None and body.name == "func.func" and len(body.regions[0].blocks) == 1:
            op.attributes[SUMS] = ir.DenseI64ArrayAttr.get(_summed_results(body.regions[0].blocks[0]))


def _summed_results(block: ir.Block) -> list[int]:
    """The indices i of the results that are the sum of arguments i and i + n, where n is the number of results."""
    *_, end = operations(block)
    arguments, count = list(block.arguments), len(end.operands)
    sums = []
    for i, y in enumerate(end.operands):
        total = defined_by(y, "stablehlo.add")
        summed = {arguments[i], arguments[count + i]} if len(arguments) == 2 * count else set()
        if total is not None and {*total.operands} == summed:
            sums.append(i)
    return sums
