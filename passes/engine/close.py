"""close: values of any graphs, as one closed graph of given ones; what the bodies of calls, branches and loops are.

close [t2] given [dx, p3]:     C0: dx, p3 = inputs
                                   t2 = mul p3, dx
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from torch_mlir import ir

from tiduc.dialect.graph import Graph, Value
from tiduc.dialect.view import BINDING, View
from tiduc.passes.engine.recompute import kept
from tiduc.passes.engine.split import split
from tiduc.passes.rules.registry import Engine, OpSet


def close(
    view: View,
    wanted: Sequence[Any],
    given: Sequence[Value],
    opset: OpSet,
    keys: Sequence[str] | None = None,
    name: str = "F",
) -> Graph:
    """The closed graph, in the view, whose inputs stand for the given values; a type wanted is an explicit zero.

    Without `keys`, its inputs have fresh ones. Its name begins with `name`.
    """
    b: Any = opset.builder(view, view.fresh(name))
    b.graph.attributes["sym_visibility"] = ir.StringAttr.get("private")
    keys = keys or [f"{b.graph.name}.{i}" for i in range(len(given))]
    inputs = [b.input(key, x.type) for key, x in zip(keys, given, strict=True)]
    values = [x for x in wanted if not isinstance(x, ir.Type)]
    made = inline(b, view, values, dict(zip(given, inputs, strict=True)))
    graph: Graph = b.finish([b.zero(x) if isinstance(x, ir.Type) else made[x] for x in wanted])
    return graph


def inline(b: Any, view: View, wanted: Sequence[Value], local: dict[Value, Value]) -> dict[Value, Value]:
    """Copies what the wanted values need, of what `local` has values for; `local` learns the copies."""
    for op in view.schedule(wanted, local):
        if op.name == BINDING:
            local[op.result] = local[op.operands[0]]
            continue
        operands = tuple([local[x] for x in op.operands])
        captures = tuple([local[x] for x in op.captures]) if op.captures else ()
        local.update(zip(op.results, b.copy(op, operands, captures), strict=True))
        b.graph.definitions[-1].active = None  # a mask is about the graph that an op was in
    return local


def engine(
    b: Any,
    opset: OpSet,
    linearize: Callable[..., Any] | None = None,
    transpose: Callable[..., Any] | None = None,
) -> Engine:
    """What a stage, one of the two, lends to the rules that it calls with a builder."""

    def other(*_: Any, **__: Any) -> Any:
        raise AssertionError("a linearize rule transposes nothing, and a transpose rule linearizes nothing")

    return Engine(
        linearize or other,
        transpose or other,
        partial(close, opset=opset),
        partial(inline, b),
        kept,
        partial(split, b),
        opset.linearize_rule,
        opset.stateful,
    )
