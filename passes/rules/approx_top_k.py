"""Rules of ApproxTopK, which JAX exports for `approx_max_k` and `approx_min_k`, and of PartialReduce, its TPU form.

The operands are values, their indices, an initial value, and an initial index. The results are values among the
greatest (or least) along a dimension, and their indices. If fewer values are selected than results have elements, the
rest are initial values. The dynamic call has three more operands: the number of values, and the shapes of the results.
"""

import json

from torch_mlir import ir

from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.ops.control_ops import call_target
from tiduc.dialect.shapes.types import element, is_empty, rank, shape
from tiduc.passes.rules.custom_call import custom_call
from tiduc.passes.rules.decomposition import config, settings
from tiduc.passes.rules.opset import unsupported
from tiduc.passes.rules.registry import Tangents
from tiduc.passes.rules.selection import none, numbers_along, repeated, take_elements

DYNAMIC = "stablehlo.dynamic_approx_top_k"


@custom_call("ApproxTopK", "PartialReduce", DYNAMIC)
def approx_top_k(b: StablehloBuilder, op: Definition, dx: Tangents) -> list[Value | None]:
    """Gathers the tangents of the selected values. Results that are initial values get the initial value's tangent."""
    d = _dimension(op)
    counts = (5, 7) if call_target(op) == DYNAMIC else (4,)
    if len(op.operands) not in counts or len(op.results) != 2 or not _is_iota(op.operands[1].definition, d):
        raise unsupported("jvp", op, "its operands are not values with their indices")
    (x, _, init), (y, indices) = op.operands[:3], op.results
    if not _agree(op, d):
        raise unsupported("jvp", op, f"its types contradict each other: {x.type}, {init.type} and {y.type}")
    if is_empty(x) or is_empty(indices):
        return [None, None]
    number = numbers_along(b, x, indices, d)
    empty = b.compare(indices, b.zeros_like(indices), "LT")
    at = b.select(empty, repeated(b, none(b, x, number), number), number)
    tangent, otherwise = (b.zeros_like(v) if dv is None else dv for v, dv in ((x, dx[0]), (init, dx[2])))
    return [take_elements(b, tangent, at, otherwise), None]


def _dimension(op: Definition) -> int:
    """The dimension along which values are selected."""
    _, attribute = config(op)
    try:
        named = json.loads(attribute.value) if isinstance(attribute, ir.StringAttr) else settings(op)
    except ValueError:
        raise unsupported("jvp", op, "its backend_config is not JSON") from None
    d = named.get("reduction_dim") if isinstance(named, dict) else None
    if not isinstance(d, int):
        raise unsupported("jvp", op, "its backend_config does not state the reduction dimension")
    return d


def _agree(op: Definition, d: int) -> bool:
    """Whether all values have one element type, all indices have one, and sizes are equal except along d."""
    (x, numbers, init, first), (y, indices) = op.operands[:4], op.results
    if shape(x) != shape(numbers) or shape(y) != shape(indices) or shape(init) or not 0 <= d < rank(x):
        return False
    others = [[n for i, n in enumerate(shape(v)) if i != d] for v in (x, y)]
    kinds = {element(v) for v in (x, init, y)}, {element(v) for v in (numbers, first, indices)}
    return rank(x) == rank(y) and others[0] == others[1] and all(len(kind) == 1 for kind in kinds)


def _is_iota(d: Definition | None, dimension: int) -> bool:
    if d is None or d.name not in ("stablehlo.iota", "stablehlo.dynamic_iota"):
        return False
    return bool(d.attributes["iota_dimension"].value == dimension)
