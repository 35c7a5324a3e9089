"""dynamic_gather: of sizes that are constants, it is a gather, which has the transpose."""

from typing import Any

from torch_mlir import ir

from tiduc.dialect.graph import Definition
from tiduc.passes.rules.gather import is_sorted
from tiduc.passes.rules.opset import linearize, unsupported
from tiduc.passes.rules.registry import Tangents


@linearize("stablehlo.dynamic_gather")
def dynamic_gather(b: Any, op: Definition, dx: Tangents) -> list[Any | None]:
    _, indices, sizes = op.operands
    constant = sizes.definition
    if constant is None or constant.name != "stablehlo.constant":
        raise unsupported("jvp", op, "its slice sizes are known only when it runs")
    known = [int(n) for n in ir.DenseIntElementsAttr(constant.attributes["value"])]
    numbers = op.attributes["dimension_numbers"]
    return [b.gather(dx[0], indices, numbers, known, op.result.type, is_sorted(op))]
