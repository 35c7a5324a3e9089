"""small_loops: predicts which loops the pass `tidu-loops-to-kernels` puts into one IREE kernel.

    while k < 100:  h = tanh(h w)         if h has 32 elements and w is 32 x 32, one kernel runs all 100 iterations

By default, IREE runs a loop on the host and launches kernels in each iteration. The pass puts a small loop into one
kernel instead, which runs all iterations. Time and memory are estimated before loops are lowered, so the estimates use
the prediction `is_small`. The prediction and the pass agree, because both measure arrays by `array_bytes`.
"""

import math

from torch_mlir import ir

from tiduc.dialect.control.control import Loop, control, is_control
from tiduc.dialect.facts.costs import computed, size_in_bytes
from tiduc.dialect.facts.updates import updated
from tiduc.dialect.graph.cache import Cache
from tiduc.dialect.graph.graph import Definition, Graph
from tiduc.dialect.graph.matching import defined_by
from tiduc.dialect.graph.view import View
from tiduc.dialect.ops.ir_types import AnyOp
from tiduc.dialect.ops.traits import ELEMENTWISE, PRODUCTS, VIEWS

STACK = 2**18
"""The largest total size, in bytes, of a kernel's intermediate arrays, which are allocated on the call stack."""

MOST_PRODUCTS = 2**20
"""The largest number of multiplications of a matrix product in a kernel that runs a whole loop.

A larger product is faster in a separate kernel.
"""

MOST_BYTES = 2**16
"""The largest size, in bytes, of one array that an iteration computes."""

FUSED = 4
"""An estimate: a compiler fuses this many ops on average. Fused ops need only one array on the call stack."""

IN_KERNELS = ELEMENTWISE.union(
    VIEWS,
    "stablehlo.bitcast_convert stablehlo.constant stablehlo.dot_general stablehlo.dynamic_slice".split(),
    "stablehlo.dynamic_update_slice stablehlo.iota stablehlo.optimization_barrier stablehlo.reduce".split(),
    "stablehlo.return stablehlo.while math.fma".split(),
)
"""Ops that a kernel may contain, because IREE can compile them inside a kernel."""

WITHOUT_ARRAYS = frozenset({"stablehlo.constant", "stablehlo.dynamic_update_slice", "stablehlo.while"})
"""Ops of `IN_KERNELS` whose results need no additional array on the call stack."""

_BYTES = Cache[Graph, float]()


def is_small(view: View, body: Graph) -> bool:
    """Whether `body`, the graph of a loop's body or condition, is small enough for a kernel that runs the loop."""
    return _on_stack(view, body) <= STACK


def _on_stack(view: View, graph: Graph) -> float:
    """The bytes on the call stack of the arrays that a graph computes; infinity if no kernel can contain the graph."""
    return _BYTES.get(view, graph, lambda: sum(_of_op(view, op) for op in graph.definitions))


def _of_op(view: View, op: Definition) -> float:
    if is_control(op):
        record = control(view, op)
        if not isinstance(record, Loop):
            return sum(_on_stack(view, graph) for graph in record.graphs)
        arrays = sum(
            size_in_bytes(x) for x in record.inits if defined_by(x, "stablehlo.constant") is not None
        )
        return arrays + sum(
            _on_stack(view, graph) for graph in (record.body, record.cond) if graph is not None
        )
    if op.name not in IN_KERNELS:
        return math.inf
    _, flops = (computed(op) or (0, 0)) if op.name in PRODUCTS else (0, 0)
    return array_bytes(op, flops / 2, in_place=updated(op) is not None)


def array_bytes(op: AnyOp, multiplications: float = 0, in_place: bool = False) -> float:
    """Estimates the bytes that the results of an op take on a kernel's call stack.

    Returns infinity if an operand or a result is not plain (see `is_plain`), if a result is larger than `MOST_BYTES`,
    or if the op performs more than `MOST_PRODUCTS` multiplications; `multiplications` is their number. Returns 0 for
    the ops `WITHOUT_ARRAYS`, and with `in_place`, because the result then overwrites an operand.
    """
    if not all(is_plain(x.type) for x in (*op.operands, *op.results)):
        return math.inf
    if in_place or op.name in WITHOUT_ARRAYS:
        return 0
    sizes = [size_in_bytes(y) for y in op.results]
    if multiplications > MOST_PRODUCTS or max(sizes, default=0) > MOST_BYTES:
        return math.inf
    return sum(sizes) // FUSED


def is_plain(type_: ir.RankedTensorType) -> bool:
    """Whether a type is a nonempty tensor of static shape whose elements are f32, f64 or integers.

    Integers must have 1, 8, 16, 32 or 64 bits.
    """
    if not isinstance(type_, ir.RankedTensorType) or not type_.has_static_shape or 0 in type_.shape:
        return False
    kind = type_.element_type
    if isinstance(kind, ir.IntegerType):
        return kind.width in (1, 8, 16, 32, 64)
    return isinstance(kind, ir.F32Type | ir.F64Type)
