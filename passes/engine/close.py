"""close: outlines ops into a closed graph, which reads only its own inputs, such as the body of a call.

The graph's inputs replace the values `given`.

close [t2] given [dx, p3]:     C0: dx, p3 = inputs
                                   t2 = mul p3, dx
"""

from collections.abc import Sequence
from typing import Any

from torch_mlir import ir

from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.graph import Graph, Value
from tiduc.dialect.graph.view import BINDING, View
from tiduc.passes.rules.registry import OpSet


def private_builder(view: View, opset: OpSet, prefix: str) -> StablehloBuilder:
    """A builder of a new private graph. The graph's name begins with `prefix`."""
    b: Any = opset.builder(view, view.fresh(prefix))
    b.graph.attributes["sym_visibility"] = ir.StringAttr.get("private")
    built: StablehloBuilder = b
    return built


def close(
    view: View,
    wanted: Sequence[Value | ir.Type],
    given: Sequence[Value],
    opset: OpSet,
    keys: Sequence[str] | None = None,
    name: str = "F",
) -> Graph:
    """Adds to the view a closed graph that computes `wanted` from `given`. Returns the graph.

    A type in `wanted` stands for an output of zeros of that type. The inputs have the keys `keys`, or fresh keys. The
    graph's name begins with `name`.
    """
    b = private_builder(view, opset, name)
    keys = keys or [f"{b.graph.name}.{i}" for i in range(len(given))]
    inputs = [b.input(key, x.type) for key, x in zip(keys, given, strict=True)]
    values = [x for x in wanted if not isinstance(x, ir.Type)]
    local = inline(b, view, values, dict(zip(given, inputs, strict=True)))
    graph: Graph = b.finish([b.zero(x) if isinstance(x, ir.Type) else local[x] for x in wanted])
    return graph


def inline(
    b: StablehloBuilder, view: View, wanted: Sequence[Value], local: dict[Value, Value]
) -> dict[Value, Value]:
    """Copies into `b` the ops on which `wanted` depends, up to the values in `local`. Extends and returns `local`.

    `local` maps values to their replacements in the graph that `b` builds.
    """
    for op in view.schedule(wanted, local):
        if op.name == BINDING:
            local[op.result] = local[op.operands[0]]
            continue
        operands = tuple([local[x] for x in op.operands])
        captures = tuple([local[x] for x in op.captures]) if op.captures else ()
        local.update(zip(op.results, b.copy(op, operands, captures), strict=True))
        b.graph.definitions[-1].active = None  # the flags of active operands do not hold here
    return local
