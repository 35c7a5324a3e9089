"""Reads calls, branches and loops from a graph's ops as records, and emits ops from such records.

The records `Branches` and `Loop` describe the ops of `ops/control_ops.py`, whose bodies are closed graphs: they capture
no values. They also describe StableHLO's `while`, `case` and `if`, whose regions are converted to closed graphs.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch_mlir import ir

from tiduc.dialect.control.regions import outer, region_graph
from tiduc.dialect.control.trip_count import trip_count
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.errors import RequestError, UnknownSize, Unsupported
from tiduc.dialect.graph.cache import Cache
from tiduc.dialect.graph.functions import within
from tiduc.dialect.graph.graph import Definition, Graph, Value
from tiduc.dialect.graph.view import View
from tiduc.dialect.ops.control_ops import (
    BASE,
    BOUND,
    CALL,
    CALL_VJP,
    CARRIES,
    CASE,
    FUNCTION,
    GRAPH_CALLS,
    GRAPHS,
    LOOP,
    MEMORIES,
    MEMORY,
    REVERSE,
    SEQUENCES,
    TRIP_COUNT,
    call_target,
    sequence_type,
)
from tiduc.dialect.ops.ir_types import AnyOp, IrOp
from tiduc.dialect.ops.traits import CONTROL, DRAWING
from tiduc.dialect.shapes.types import i64


@dataclass(frozen=True)
class Branches:
    """A branch or a call: the graphs that it may run, their operands, and the index that selects a graph.

    Each graph takes all `operands`. A call has one graph, and its `index` is None. `arguments` are the positions of
    `operands` in the list of the op's operands and captured values. `base` identifies the call site.
    """

    index: Value | None
    operands: tuple[Value, ...]
    arguments: tuple[int, ...]
    graphs: tuple[Graph, ...]
    base: str

    @property
    def site(self) -> Any:
        return self.base, self.index, self.operands

    @property
    def width(self) -> int:
        return len(self.graphs[0].outputs)


@dataclass(frozen=True)
class Loop:
    """A loop's operands and graphs. `inits` are initial loop-carried values. An iteration reads a slice per sequence.

    `arguments` are the positions of `operands` in the list of the op's operands and captured values. `results` has, for
    each result of the op, the index of a final loop-carried value or output sequence, or `~i` for invariant i. The user
    chooses by `memory` how residuals are stored. `bound` is the user's upper bound of the trip count.
    """

    inits: tuple[Value, ...]
    sequences: tuple[Value, ...]
    invariants: tuple[Value, ...]
    body: Graph
    cond: Graph | None
    reverse: bool
    trip_count: int | None
    base: str
    arguments: tuple[int, ...] = ()
    results: tuple[int, ...] = ()
    memory: str | None = None
    bound: int | None = None

    @property
    def operands(self) -> tuple[Value, ...]:
        return (*self.inits, *self.sequences, *self.invariants)

    @property
    def site(self) -> tuple[str, tuple[Value, ...]]:
        return self.base, self.operands

    @property
    def width(self) -> int:
        return len(self.body.outputs)


@dataclass(frozen=True)
class _WhileRegions:
    """The graphs of a `stablehlo.while`.

    `carries` are the indices of the loop-carried values that an iteration changes. In both graphs, they come first.
    """

    cond: Graph
    body: Graph
    carries: tuple[int, ...]


_BRANCHES = Cache[tuple[Any, Any], tuple[Graph, ...]]()
_WHILES = Cache[tuple[Any, Any], _WhileRegions]()
"""Caches of the graphs of an op's regions. A key is the op with the regions, and the result of `_constants`."""


# ---- records are read from ops -----------------------------------------------------------------------------


def is_control(op: Definition) -> bool:
    """Whether the op is a call, a branch or a loop, either of the dialect `tidu` or of StableHLO."""
    return op.name in _READ


def control(view: View, op: Definition) -> "Branches | Loop":
    """Returns the record of a control-flow op. Raises `Unsupported` for `tidu.call_vjp`, which has no JVP."""
    if op.name == CALL_VJP:
        raise only_vjp(op)
    return loop(view, op) if op.name in (LOOP, "stablehlo.while") else branches(view, op)


def branches(view: View, op: Definition) -> Branches:
    """Returns the record of a call, a `tidu.case`, a `stablehlo.case` or a `stablehlo.if`."""
    if op.name in (CALL, CASE):
        indexed = int(op.name == CASE)
        graphs = _graphs(view, op)
        base = op.attributes[BASE].value if BASE in op.attributes else graphs[0].name
        return Branches(
            op.operands[0] if indexed else None,
            op.operands[indexed:],
            tuple(range(indexed, len(op.operands))),
            graphs,
            base,
        )
    graphs = _BRANCHES.get(view, (op.source, _constants(op)), lambda: _region_graphs(view, op))
    captures = outer(op)
    places = [1 + i for i, x in enumerate(op.captures) if x in captures]
    return Branches(op.operands[0], tuple(captures), tuple(places), graphs, graphs[0].name)


def _region_graphs(view: View, op: Definition) -> tuple[Graph, ...]:
    graphs = [region_graph(view, op, i, "B") for i in range(len(op.regions))]
    return tuple([view.built(graph) for graph in graphs])


def loop(view: View, op: Definition) -> Loop:
    """Returns the record of a `tidu.loop` or a `stablehlo.while`.

    If a `while` never changes one of its loop-carried values, the record has this value as a loop invariant.
    """
    return _own_loop(view, op) if op.name == LOOP else _while(view, op)


def _own_loop(view: View, op: Definition) -> Loop:
    body, *cond = _graphs(view, op)
    given = op.attributes
    n, m = given[CARRIES].value, given[SEQUENCES].value
    return Loop(
        op.operands[:n],
        op.operands[n : n + m],
        op.operands[n + m :],
        body,
        cond[0] if cond else None,
        REVERSE in given,
        given[TRIP_COUNT].value if TRIP_COUNT in given else None,
        given[BASE].value if BASE in given else body.name,
        tuple(range(len(op.operands))),
        tuple(range(len(op.results))),
        *_options(op),
    )


def _while(view: View, op: Definition) -> Loop:
    regions = _WHILES.get(view, (op.source, _constants(op)), lambda: _while_regions(view, op))
    cond, body, carries, first = regions.cond, regions.body, regions.carries, len(op.operands)
    same = [i for i in range(first) if i not in carries]
    inits, fixed = ([op.operands[i] for i in numbers] for numbers in (carries, same))
    captures = outer(op)
    arguments = *carries, *same, *[first + i for i, x in enumerate(op.captures) if x in captures]
    results = [carries.index(i) if i in carries else ~same.index(i) for i in range(first)]
    ends = tuple(inits), (), (*fixed, *captures)
    loop = Loop(*ends, body, cond, False, None, body.name, arguments, tuple(results), *_options(op))
    return replace(loop, trip_count=trip_count(loop))


def _options(op: Definition) -> tuple[str | None, int | None]:
    """Returns a loop's attributes `MEMORY` and `BOUND`, None if absent. Raises `RequestError` for invalid values."""
    given = op.attributes
    memory = given[MEMORY].value if MEMORY in given else None
    if memory is not None and memory not in MEMORIES:
        raise RequestError(f"{MEMORY} is one of {', '.join(MEMORIES)}, not {memory!r}", op.location)
    if BOUND not in given:
        return memory, None
    bound = given[BOUND]
    if not isinstance(bound, ir.IntegerAttr) or not 0 <= bound.value < 2**31:
        raise RequestError(f"{BOUND} must be an integer from 0 to 2^31 - 1, not {bound}", op.location)
    return memory, bound.value


def _while_regions(view: View, op: Definition) -> _WhileRegions:
    cond, body = region_graph(view, op, 0, "C"), region_graph(view, op, 1, "B")
    arguments = list(body.inputs.values())[: len(op.operands)]
    carries = [i for i, (x, y) in enumerate(zip(arguments, body.outputs, strict=True)) if x is not y]
    same = [i for i in range(len(arguments)) if i not in carries]
    body.outputs = [body.outputs[i] for i in carries]
    for graph in (cond, body):
        items = list(graph.inputs.items())
        graph.inputs = dict(
            [*(items[i] for i in carries), *(items[i] for i in same), *items[len(arguments) :]]
        )
        view.built(graph)
    return _WhileRegions(cond, body, tuple(carries))


def _constants(op: Definition) -> Any:
    """Returns a hashable description of the constants that an op's regions capture.

    The graphs of the regions contain copies of these constants, and copies of an op may capture different constants.
    The description is therefore part of the key under which these graphs are cached.
    """
    captures = outer(op)
    return tuple([None if x in captures else _described(x) for x in op.captures])


def _described(x: Value) -> Any:
    op = x.definition
    assert op is not None
    return op.name, x.type, tuple(sorted((op.given or {}).items(), key=lambda item: item[0]))


def _graphs(view: View, op: Definition) -> tuple[Graph, ...]:
    return tuple([view.graph(symbol.value, op.location) for symbol in op.attributes[GRAPHS]])


_READ = CONTROL | {CALL, CASE, LOOP}


def only_vjp(op: Definition) -> Unsupported:
    """Returns the error for forward-mode differentiation of a function that has a custom VJP."""
    vjp = op.attributes[GRAPHS][0].value
    message = (
        f"the function defines its derivative as the VJP @{vjp}; only reverse mode is possible (of any order)"
    )
    return Unsupported(f"unsupported jvp AD rule for func.call: {message}", op.location)


def only_reverse(view: View, ops: Iterable[Definition]) -> bool:
    """Whether one of the ops, or an op of a called graph, has a custom VJP, and therefore no JVP."""
    waiting, seen = list(ops), set[Graph]()
    while waiting:
        op = waiting.pop()
        if op.name == CALL_VJP:
            return True
        graphs = _graphs(view, op) if GRAPHS in op.attributes else ()
        waiting += (inner for graph in graphs if graph not in seen for inner in graph.definitions)
        seen.update(graphs)
    return False


def needs_static_shapes(error: UnknownSize, location: ir.Location) -> Unsupported:
    """Returns the error for reverse mode through a loop if a loop-carried value or residual has a dynamic shape."""
    message = f"{error.message}, or use forward mode, which needs no static sizes"
    return Unsupported(f"unsupported transpose AD rule for stablehlo.while: {message}", location)


def calls_function(view: View, op: Definition) -> bool:
    """Whether the op calls a graph with the attribute `FUNCTION`, which becomes a function of the output module."""
    return op.name == CALL and FUNCTION in _graphs(view, op)[0].attributes


def called(view: View, graph: Graph) -> list[Graph]:
    """Returns the graphs that a graph calls, directly or indirectly, from its ops or their regions."""
    graphs: dict[str, Graph] = {}
    unread, walked = [graph], set[int]()

    def take(names: ir.ArrayAttr) -> None:
        for symbol in names:
            if symbol.value not in graphs:
                graphs[symbol.value] = view.graph(symbol.value)
                unread.append(graphs[symbol.value])

    def look(op: IrOp) -> ir.WalkResult:
        if call_target(op) in GRAPH_CALLS:
            take(op.attributes[GRAPHS])
        return ir.WalkResult.ADVANCE

    while unread:
        for definition in unread.pop().definitions:
            if definition.name in GRAPH_CALLS:
                take(definition.attributes[GRAPHS])
            elif definition.source is not None and id(definition.source) not in walked:
                walked.add(id(definition.source))
                definition.source.walk(look)
    return list(graphs.values())


def draws(view: View, graph: Graph) -> bool:
    """Whether a graph, or a graph that it calls, contains an op whose results may differ between executions."""
    for inner in (graph, *called(view, graph)):
        for definition in inner.definitions:
            if _draws(definition) or (definition.source is not None and holds_draws(definition.source)):
                return True
    return False


def holds_draws(op: IrOp) -> bool:
    """Whether an `ir.Operation`, or an op nested in it, may return different results in each execution."""
    return any(map(_draws, within(op)))


def _draws(op: AnyOp) -> bool:
    """Whether an op draws random numbers, receives data, or is a custom call with side effects and tensor results."""
    if op.name != "stablehlo.custom_call":
        return op.name in DRAWING
    if "has_side_effect" not in op.attributes or not op.attributes["has_side_effect"].value:
        return False
    return any(isinstance(y.type, ir.RankedTensorType) for y in op.results)


# ---- ops are emitted from records --------------------------------------------------------------------------


def emit_call(
    b: StablehloBuilder, graph: Graph, operands: Sequence[Value], base: str | None = None
) -> tuple[Value, ...]:
    """Emits a call of a graph. Returns one result for each output of the graph that is not None."""
    return _emit(b, CALL, (graph,), operands, [y.type for y in _outputs(graph)], {}, base)


def emit_case(
    b: StablehloBuilder,
    index: Value,
    graphs: Sequence[Graph],
    operands: Sequence[Value],
    base: str | None = None,
) -> tuple[Value, ...]:
    """Emits a call of the graph that `index` selects. Returns that graph's outputs.

    The index is an i32 or, for two graphs, an i1 that selects the first graph if it is true.
    """
    return _emit(b, CASE, graphs, (index, *operands), [y.type for y in _outputs(graphs[0])], {}, base)


def emit_loop(b: StablehloBuilder, loop: Loop, base: str | None = None) -> tuple[Value, ...]:
    """Emits a loop. Returns its results: the final loop-carried values, then the output sequences."""
    outputs, n = _outputs(loop.body), len(loop.inits)
    count = loop.trip_count if loop.trip_count is not None else loop.bound
    if count is None and loop.sequences and not loop.sequences[0].type.is_dynamic_dim(0):
        count = loop.sequences[0].type.shape[0]
    types = [y.type for y in outputs[:n]] + [sequence_type(y.type, count) for y in outputs[n:]]
    given: dict[str, ir.Attribute] = {CARRIES: i64(n), SEQUENCES: i64(len(loop.sequences))}
    if loop.reverse:
        given[REVERSE] = ir.UnitAttr.get()
    if loop.trip_count is not None:
        given[TRIP_COUNT] = i64(loop.trip_count)
    given |= options(loop)
    graphs = (loop.body,) if loop.cond is None else (loop.body, loop.cond)
    return _emit(b, LOOP, graphs, loop.operands, types, given, base)


def options(loop: Loop) -> dict[str, Any]:
    """Returns the attributes `MEMORY` and `BOUND` for the user's options of a loop, as far as they are given."""
    given: dict[str, Any] = {}
    if loop.memory is not None:
        given[MEMORY] = ir.StringAttr.get(loop.memory)
    if loop.bound is not None:
        given[BOUND] = i64(loop.bound)
    return given


def _outputs(graph: Graph) -> list[Value]:
    return [y for y in graph.outputs if y is not None]


def _emit(
    b: StablehloBuilder,
    name: str,
    graphs: Sequence[Graph],
    operands: Sequence[Value],
    types: Sequence[ir.RankedTensorType],
    given: dict[str, ir.Attribute],
    base: str | None,
) -> tuple[Value, ...]:
    given[GRAPHS] = ir.ArrayAttr.get([ir.FlatSymbolRefAttr.get(graph.name) for graph in graphs])
    if base is not None and base != graphs[0].name:
        given[BASE] = ir.FlatSymbolRefAttr.get(base)
    return b.emit_all(name, operands, types, given)
