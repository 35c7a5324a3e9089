"""ApproxTopK, as JAX exports `approx_max_k` and `approx_min_k`, and PartialReduce, what a TPU makes of it.

It takes values and something beside each, here its index, and the two initial values of these; it gives values that
are among the greatest, or least, along a dimension, with what is beside them. Initial values fill empty places.
"""

import json
from typing import Any

from torch_mlir import ir

from tiduc.dialect.graph import Definition
from tiduc.dialect.types import shape
from tiduc.passes.rules.custom_call import custom_call
from tiduc.passes.rules.decomposition import config, settings
from tiduc.passes.rules.opset import unsupported
from tiduc.passes.rules.registry import Tangents
from tiduc.passes.rules.selection import none, numbers_along, repeated, taken


@custom_call("ApproxTopK", "PartialReduce")
def approx_top_k(b: Any, op: Definition, dx: Tangents) -> list[Any | None]:
    """The tangents of the values that it takes, by the indices that it gives, or of the initial value."""
    d = _dimension(op)
    if len(op.results) != 2 or not _counts(op.operands[1].definition, d):
        raise unsupported("jvp", op, "it takes others than values and their indices")
    (x, _, init, _), indices = op.operands, op.results[1]
    if 0 in (*shape(x), *shape(indices)):
        return [None, None]
    number = numbers_along(b, x, indices, d)
    empty = b.compare(indices, b.zeros_like(indices), "LT")
    at = b.select(empty, repeated(b, none(b, x, number), number), number)
    tangent, otherwise = (b.zeros_like(v) if dv is None else dv for v, dv in ((x, dx[0]), (init, dx[2])))
    return [taken(b, tangent, at, otherwise), None]


def _dimension(op: Definition) -> int:
    """The dimension along which it takes values."""
    _, attribute = config(op)
    named = json.loads(attribute.value) if isinstance(attribute, ir.StringAttr) else settings(op)
    if "reduction_dim" not in named:
        raise unsupported("jvp", op, "it does not say along which dimension it takes values")
    return int(named["reduction_dim"])


def _counts(d: Definition | None, dimension: int) -> bool:
    """The op gives the indices in a dimension."""
    return d is not None and d.name == "stablehlo.iota" and d.attributes["iota_dimension"].value == dimension
