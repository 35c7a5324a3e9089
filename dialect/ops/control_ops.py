"""The ops `tidu.call`, `tidu.case` and `tidu.loop`: their names, their attributes, and the types of sequences.

    tidu.call  (x...) [@f]                           the outputs of @f(x...)
    tidu.case  (index, x...) [@b0, @b1, ...]         the outputs of @b0(x...) for index 0, of @b1(x...) for 1, ...
    tidu.loop  (init..., sequence..., invariant...) [@body, @cond]  {carries, sequences, reverse}

A loop calls `@body (carry..., element..., invariant...) -> (carry..., element...)` while `@cond (carry...,
invariant...)` holds. A loop without a condition calls `@body` once for each element of its sequences, like
`jax.lax.scan`. A reversed loop begins with the last element. The results of a loop are the final carries, and a
sequence for each element that `@body` returns. A sequence is an array of its elements along a new leading dimension,
which is dynamic if the trip count is not known at compile time.

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
"""Attribute of a graph whose outputs y... solve an equation f(x..., y...) = 0. It is the symbol of the graph of f."""

SOLVE = "tidu.linear_solve"
"""Attribute of a graph (b..., k...) -> x... that solves the linear system A(k) x = b.

It is the symbol of the graph (x..., k...) -> b..., which computes A(k) x.
"""

DERIVATIVES = ("tidu.jvp", "tidu.vjp", ROOT, SOLVE)
"""Attributes of a graph: the symbols of graphs that compute a custom JVP, a custom VJP, an equation or a linear system.

If a graph has such an attribute, its derivative follows from that other graph, and not from the graph's own ops.
"""

TRANSPOSE_SOLVE = "tidu.transpose_solve"
"""Attribute of a graph with `SOLVE`: the symbol of the graph that solves the transposed system.

If the system is symmetric, this is the graph itself.
"""

NAMED_GRAPHS = (*DERIVATIVES, TRANSPOSE_SOLVE)
"""The attributes of a graph whose values are symbols of other graphs."""

SOLVER = "tidu.solver"
"""Attribute of a graph with `ROOT` or `SOLVE`: a dictionary with the method that solves linear systems, and options."""

CALL_VJP = "tidu.call_vjp"
"""Op for the JVP `(x..., dx...) -> dy...` of a function with a custom VJP.

It cannot be computed, but it can be transposed: the transpose calls the custom VJP.
"""

GRAPH_CALLS = frozenset({CALL, CALL_VJP, CASE, LOOP})
"""Ops that call graphs. In MLIR, they are custom calls, because IRDL cannot declare a variable number of operands."""

FUNCTION = "tidu.function"
"""Attribute of a graph that must become a function in the output: the function's name.

The function must exist because rules or other files refer to it.
"""

MEMORY, BOUND = "tidu.loop_memory", "tidu.max_trip_count"
"""Attributes that a program may set on a loop: one of `MEMORIES`, and an upper bound of the trip count."""
MEMORIES = ("stack", "sqrt", "log", "auto")
"""How a loop's residuals are kept: all stored, recomputed from sqrt n or log n checkpoints, or as tiduc chooses."""

BASE = "tidu.base"
"""Attribute of an op that replaces a call, case or loop and has further results.

It is the symbol of the first graph that the replaced op calls. So it shows that both ops belong to one call site.
"""


def call_target(op: AnyOp) -> Any:
    """The call target name of a custom call; None for any other op."""
    return op.attributes[TARGET].value if op.name == CUSTOM_CALL else None


def sequence_type(type_: ir.RankedTensorType, count: int | None) -> ir.RankedTensorType:
    """The type of a sequence of `count` elements of type `type_`. If `count` is None, the length is dynamic."""
    sizes = [ir.ShapedType.get_dynamic_size() if count is None else count, *type_.shape]
    return ir.RankedTensorType.get(sizes, type_.element_type)


def element_type(type_: ir.RankedTensorType) -> ir.RankedTensorType:
    """The type of the elements of a sequence."""
    return ir.RankedTensorType.get(list(type_.shape)[1:], type_.element_type)
