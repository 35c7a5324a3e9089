"""The ops `tidu.call`, `tidu.case` and `tidu.loop`: their names, their attributes, and the types of sequences.

    tidu.call  (x...) [@f]                           the outputs of @f(x...)
    tidu.case  (index, x...) [@b0, @b1, ...]         the outputs of the branch that the index selects, at x...
    tidu.loop  (init..., sequence..., invariant...) [@body, @cond]  {carries, sequences, reverse}

A loop calls `@body (carry..., element..., invariant...) -> (carry..., element...)` while `@cond (carry...,
invariant...)` holds. A loop without a condition calls `@body` once for each element of its sequences, like
`jax.lax.scan`. A reversed loop begins with the last element. The results of a loop are its final carries and the
sequences of the elements that `@body` returned. A sequence has one leading dimension more than its elements; that
dimension is dynamic if the trip count is not known at compile time.

Only graphs contain these ops. Lowering turns them into StableHLO control flow or function calls. The file
`graph/check_control.py` verifies them, and `control/control.py` reads and emits them.
"""

from typing import Any

from torch_mlir import ir

from tiduc.dialect.ops.ir_types import AnyOp

CUSTOM_CALL, TARGET = "stablehlo.custom_call", "call_target_name"

CALL, CASE, LOOP = "tidu.call", "tidu.case", "tidu.loop"
GRAPHS = "called_computations"
CARRIES, SEQUENCES, REVERSE, TRIP_COUNT = "tidu.carries", "tidu.sequences", "tidu.reverse", "tidu.trip_count"
ROOT = "tidu.root"
"""On a graph: the symbol of an equation f(x..., y...) = 0 that the graph's outputs y solve."""

SOLVE = "tidu.linear_solve"
"""On a graph (b..., k...) -> x...: the symbol of the linear system (x..., k...) -> b... that the results x solve."""

DERIVATIVES = ("tidu.jvp", "tidu.vjp", ROOT, SOLVE)
"""On a graph: symbols of a custom JVP, VJP, equation or system, which replaces the derivative of the graph's ops."""

TRANSPOSE_SOLVE = "tidu.transpose_solve"
"""On a graph with `SOLVE`: the symbol of the graph that solves the transposed system; the graph itself if symmetric."""

NAMED_GRAPHS = (*DERIVATIVES, TRANSPOSE_SOLVE)
"""The attributes of a graph that are symbols of graphs."""

SOLVER = "tidu.solver"
"""On a graph with `ROOT` or `SOLVE`: a dictionary with the method for linear systems and its options."""

CALL_VJP = "tidu.call_vjp"
"""The JVP `(x..., dx...) -> dy...` of a function with a custom VJP. It has no definition, only a transpose."""

GRAPH_CALLS = frozenset({CALL, CALL_VJP, CASE, LOOP})
"""Ops that call graphs, written as custom calls: IRDL cannot declare an op with operands of any number and type."""

FUNCTION = "tidu.function"
"""On a graph: its name as a function in the output. It stays a function because rules or other files refer to it."""

MEMORY, BOUND = "tidu.loop_memory", "tidu.max_trip_count"
"""Attributes that a program may set on a loop: how residuals are stored, and an upper bound of the trip count."""
MEMORIES = ("stack", "sqrt", "log", "auto")
BASE = "tidu.base"
"""On an op that replaces another op and has further results: the name of the first graph of the replaced op.

Both ops belong to one call site.
"""


def call_target(op: AnyOp) -> Any:
    """The name of a custom call's target; None for any other op."""
    return op.attributes[TARGET].value if op.name == CUSTOM_CALL else None


def sequence_type(type_: ir.RankedTensorType, count: int | None) -> ir.RankedTensorType:
    """The type of a sequence of `count` values of a type; the leading dimension is dynamic if `count` is None."""
    sizes = [ir.ShapedType.get_dynamic_size() if count is None else count, *type_.shape]
    return ir.RankedTensorType.get(sizes, type_.element_type)


def element_type(type_: ir.RankedTensorType) -> ir.RankedTensorType:
    """The type of the elements of a sequence."""
    return ir.RankedTensorType.get(list(type_.shape)[1:], type_.element_type)
