"""Marks the results of `stablehlo.dynamic_reduce_window` calls that are sums, for their rule; part of import.

    custom_call @stablehlo.dynamic_reduce_window(...) {called_computations = [@add]}    adds {tidu.sums = [0]}

The call's body is a function, which rules do not see. StableHLO has no op for a window of a dynamic size.
"""

from typing import Any

from torch_mlir import ir

from tiduc.dialect.control_ops import GRAPHS
from tiduc.dialect.functions import symbol, within
from tiduc.dialect.graph import operations
from tiduc.dialect.shardy import target

TARGET = "stablehlo.dynamic_reduce_window"
SUMS = "tidu.sums"
"""The numbers of the results whose reducer is an addition."""


def mark_sums(module: Any) -> None:
    """Adds the attribute `SUMS` to each call of a dynamic window, in place."""
    calls = [op for op in within(module.operation, ("stablehlo.custom_call",)) if target(op) == TARGET]
    functions = {symbol(op): op for op in operations(module.body)} if calls else {}
    for op in calls:
        body = functions.get(op.attributes[GRAPHS][0].value) if GRAPHS in op.attributes else None
        if body is not None and body.name == "func.func" and len(body.regions[0].blocks) == 1:
            op.attributes[SUMS] = ir.DenseI64ArrayAttr.get(_sums(body.regions[0].blocks[0]))


def _sums(block: Any) -> list[int]:
    """The numbers i for which the block returns the sum of its arguments i and i + n, of n results."""
    *_, end = operations(block)
    arguments, count = list(block.arguments), len(end.operands)
    found = []
    for i, y in enumerate(end.operands):
        terms = list(y.owner.operands) if not isinstance(y.owner, ir.Block) else []
        is_sum = len(terms) == 2 and y.owner.name == "stablehlo.add"
        if is_sum and len(arguments) == 2 * count and {*terms} == {arguments[i], arguments[count + i]}:
            found.append(i)
    return found
