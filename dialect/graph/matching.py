"""Pattern matching: finds the ops that compute a value. The functions work on graphs and on MLIR modules.

    defined_by(x, "stablehlo.negate")                       the op that computes x, if it is a negation
    traced(x, ("stablehlo.reshape",))                       x, the operand of the reshape that computes x, and so on
    instead(op, "stablehlo.subtract", (x, y))               a new op to replace `op`

A value (`Typed`) is a `Value` of a graph or an `ir.Value`. An op (`AnyOp`) is a `Definition` or an `ir.Operation`. One
pattern can thus be used both when graphs are merged and when functions are lowered. Examples are the identities
(`facts/identities.py`) and the formulas (`facts/matchers.py`).
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from torch_mlir import ir

from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.ops.ir_types import AnyOp, Attributes, Typed


def definition(x: Any) -> Any | None:
    """The op that computes a value; None for an input of a graph, and for an argument of a block."""
    if type(x) is Value:
        return x.definition
    op = x.owner
    return None if isinstance(op, ir.Block) else op


def defined_by(x: Typed, *names: str) -> Any | None:
    """The op that computes a value, if the op has one of these names; else None."""
    op = x.definition if type(x) is Value else definition(x)
    return op if op is not None and op.name in names else None


def traced(x: Any, names: Collection[str]) -> Iterator[Any]:
    """Yields x, and then the values from which ops in `names` compute x.

    Each step goes from result i of such an op to the op's operand i.
    """
    yield x
    while (op := defined_by(x, *names)) is not None:
        x = op.operands[op.results.index(x) if type(x) is Value else x.result_number]
        yield x


def instead(
    op: AnyOp,
    name: str,
    operands: Sequence[Any],
    given: Attributes | None = None,
    of: Sequence[int] | None = None,
) -> AnyOp:
    """A new op with the result type and location of `op`.

    `given` has the new op's attributes. If `op` is an MLIR operation, the new op is inserted before `op`. Otherwise,
    `of` is as for `Definition.instead`.
    """
    if isinstance(op, Definition):
        return op.instead(name, tuple(operands), given, of)
    assert isinstance(op, ir.Operation | ir.OpView)
    types, before = [op.result.type], ir.InsertionPoint(op)
    created: AnyOp = ir.Operation.create(name, types, list(operands), given, loc=op.location, ip=before)
    return created
