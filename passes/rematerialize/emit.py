"""emit: the flat graph of a schedule, with second runs of ops behind barriers.

    y = sin x             y = sin x
    ...                   ...
    ct = ...       ->     ct = ...
    c = cos y             x', _ = optimization_barrier x, ct
                          y' = sin x'
                          c = cos y'

Without a barrier, a compiler would merge the second run with the first, and keep its result meanwhile. The barrier also
takes the value that was computed last, so that compilers that order ops themselves do not run the second run early.
An op that reads results of another second run differs from its first run, and needs no barrier.
"""

from collections.abc import Sequence
from typing import Any

from torch_mlir import ir

from tiduc.dialect.graph import Definition, Graph, Value
from tiduc.dialect.verify import RECOMPUTED
from tiduc.passes.rematerialize.liveness import Liveness

BARRIER = "stablehlo.optimization_barrier"
_CONSTANT = "stablehlo.constant"


def emit(b: Any, graph: Graph, model: Liveness) -> Graph:
    """The graph with its ops in the order of the model, built with `b`; first runs keep their results."""
    b.graph.inputs, b.graph.attributes, b.graph.location = (
        dict(graph.inputs),
        graph.attributes,
        graph.location,
    )
    b.graph.held += (graph, *graph.held)
    results: list[tuple[Value, ...]] = []
    runs: set[Definition] = set()
    distinct: set[tuple[Definition, tuple[int, ...]]] = set()
    latest: Value | None = None
    for place, op in enumerate(model.ops):
        needs = model.needs[place]
        replaced = {x: y for j in needs for x, y in zip(model.ops[j].results, results[j], strict=True)}
        operands = tuple([replaced.get(x, x) for x in op.operands])
        captures = tuple([replaced.get(x, x) for x in op.captures])
        b.location = op.location
        if op not in runs:
            is_same = operands == op.operands and captures == op.captures
            b.graph.definitions.append(op if is_same else op.reading(operands, captures))
            results.append(op.results)
            if model.size[place]:
                latest = op.results[0]
        else:
            if (op, needs) in distinct:
                operands = _behind_barrier(b, operands, latest)
            results.append(b.copy(op, operands, captures))
        runs.add(op)
        distinct.add((op, needs))
    return b.finish(graph.outputs)  # type: ignore[no-any-return]


def _behind_barrier(b: Any, operands: Sequence[Value], latest: Value | None) -> tuple[Value, ...]:
    """The operands of an op, behind a barrier that waits for the latest value; constants need none."""
    held = [x for x in dict.fromkeys(operands) if x.definition is None or x.definition.name != _CONSTANT]
    waited = [latest] if latest is not None and latest not in held else []
    attributes = {RECOMPUTED: ir.UnitAttr.get()} if waited else None
    behind = b.emit_all(BARRIER, [*held, *waited], [x.type for x in (*held, *waited)], attributes)
    replaced = dict(zip(held, behind, strict=False))
    return tuple([replaced.get(x, x) for x in operands])
