"""Rules of calls and branches. A callee is linearized and transposed once for each choice of active arguments.

    y = call @f (x)             ->   y, r = call @f+ (x)          r: the residuals that the linear graph reads
                                     dy = call @f' (dx, r)

A function with a custom derivative (`tidu.jvp`, `tidu.vjp`) uses that derivative instead of its ops' derivatives:

    y = call @f (x)             ->   JVP @g:  dy is the tangent, along dx, of the second half of call @g (x, 0)
                                     VJP @g:  dy = call_vjp @g (x, dx), which transposes to cx = call @g (x, cy)

The first operand of a branch (`case`, `if`) is an index. The linear branch reads only residuals of the selected branch.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch_mlir import ir

from tiduc.dialect.control.control import Branches, branches, emit_call, emit_case, is_control, only_vjp
from tiduc.dialect.emitters.masks import has_infinite_slope, is_everywhere, mask_with
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.errors import Unsupported
from tiduc.dialect.graph.cache import Cache
from tiduc.dialect.graph.graph import Definition, Graph, Value, stem
from tiduc.dialect.ops.control_ops import CALL, CALL_VJP, CASE, DERIVATIVES, GRAPHS
from tiduc.dialect.shapes.origins import set_sizes
from tiduc.dialect.shapes.types import predicate
from tiduc.passes.rules.lent import LentSplit, Linearizing, Transposing
from tiduc.passes.rules.opset import linearize, transpose
from tiduc.passes.rules.registry import Tangents
from tiduc.passes.rules.sites import at_site

Flags = tuple[bool, ...]

MOST_PATTERNS = 1024
"""The largest number of patterns per graph. A pattern flags the active arguments and the results with cotangents."""


@linearize(CALL)
@linearize(CASE)
@linearize("stablehlo.case", captures=True)
@linearize("stablehlo.if", captures=True)
def call(b: StablehloBuilder, op: Definition, dx: Tangents) -> list[Value | None]:
    if op.name == CALL:
        (graph,) = branches(b.view, op).graphs
        for attribute, rule in OWN.items():
            if attribute in graph.attributes:
                return rule(b, op, dx, b.view.graph(graph.attributes[attribute].value))
    return at_site(b, op, dx, linearized_tangents)[: len(op.results)]


@dataclass(frozen=True)
class LinearizedCall:
    """The graphs of a call or of branches, linearized for one pattern of active arguments.

    `primal` are the graphs with residuals as further results, and `residuals` are the positions of these results.
    `linear` are the linear graphs. They take tangents, the arguments at the positions `read`, and residuals. `outputs`
    flags the active outputs.
    """

    primal: tuple[Graph, ...]
    linear: tuple[Graph, ...]
    read: tuple[int, ...]
    residuals: tuple[int, ...]
    outputs: tuple[bool, ...]


@dataclass(frozen=True)
class TransposedCall:
    """The transposed graphs, which take cotangents and the primal values that the linear graphs read.

    `outputs` flags the active arguments that get a cotangent, and `masks` those that also get a predicate: where it is
    false, the cotangent is zero.
    """

    graphs: tuple[Graph, ...]
    outputs: Flags
    masks: Flags


_LINEARIZED = Cache[tuple[tuple[Graph, ...], Flags], LinearizedCall]()
"""Caches linearized calls by the graphs and the active arguments."""

_TRANSPOSED = Cache[tuple[tuple[Graph, ...], Flags, Flags, Flags], TransposedCall]()
"""Caches transposed calls by the graphs, the active arguments, the outputs with a cotangent, and the steep arguments.
A steep argument is the result of an op that may have an infinite slope, such as `sqrt`."""

_PATTERNS = Cache[tuple[Graph, ...], set[tuple[Flags, ...]]]()
"""The patterns for which graphs have been linearized or transposed."""


def linearized_tangents(b: StablehloBuilder, record: Branches, dx: Tangents) -> list[Value | None]:
    linearized = linearized_graphs(b, record.graphs, dx)
    operands = [*(t for t in dx if t is not None), *values_read(b, record, linearized)]
    dy = iter(_emit(b, record.index, linearized.linear, operands) if any(linearized.outputs) else ())
    return [next(dy) if flag else None for flag in linearized.outputs]


def values_read(b: StablehloBuilder, record: Branches, linearized: LinearizedCall) -> list[Value]:
    """The arguments and the residuals that the linear graphs read. Emits the op that returns the residuals."""
    read = [record.operands[i] for i in linearized.read]
    if not linearized.residuals:
        return read
    results = _emit(b, record.index, linearized.primal, record.operands, record.base)
    return [*read, *(results[i] for i in linearized.residuals)]


def _emit(
    b: StablehloBuilder,
    index: Value | None,
    graphs: Sequence[Graph],
    operands: Sequence[Value],
    base: str | None = None,
) -> tuple[Value, ...]:
    if index is None:
        return emit_call(b, graphs[0], operands, base)
    return emit_case(b, index, graphs, operands, base)


def linearized_graphs(b: StablehloBuilder, graphs: tuple[Graph, ...], dx: Tangents) -> LinearizedCall:
    active = tuple([t is not None for t in dx])
    _add_pattern(b, graphs, (active,))
    return _LINEARIZED.get(b.view, (graphs, active), lambda: _linearize(b, graphs, active))


def _add_pattern(b: StablehloBuilder, graphs: tuple[Graph, ...], pattern: tuple[Flags, ...]) -> None:
    """Records a pattern. Raises `Unsupported` if there are too many, because each level of calls may double them."""
    patterns = _PATTERNS.get(b.view, graphs, set[tuple[Flags, ...]])
    patterns.add(pattern)
    if len(patterns) > MOST_PATTERNS:
        message = (
            f"@{graphs[0].name} is differentiated for more than {MOST_PATTERNS} sets of active arguments"
        )
        raise Unsupported(message, graphs[0].location)


def _linearize(b: StablehloBuilder, graphs: Sequence[Graph], active: Flags) -> LinearizedCall:
    """Linearizes the graphs of one op.

    All branches must return equal types, so they return their residuals as the same further results, called slots. For
    each type, there are as many slots as the branch that needs most; a branch fills slots that it does not need with
    zeros. If there is only one graph, a residual that the graph returns anyway needs no slot.
    """
    engine: Linearizing = b.engine
    given: dict[Value, int] = {}
    for j, y in enumerate(graphs[0].outputs if len(graphs) == 1 else ()):
        if y is not None:
            given.setdefault(y, j)
    splits = [engine.split(graph, active).fewest(b, list(given)) for graph in graphs]
    of_outputs = [x for x in splits[0].residuals if x in given]
    others = [[x for x in part.residuals if x not in given] for part in splits]
    slots = _slots(others)
    inputs = [list(graph.inputs.values()) for graph in graphs]
    used = {x for part in splits for x in (*part.inputs, *part.dynamic_inputs)}
    read = [j for j, xs in enumerate(zip(*inputs, strict=True)) if not used.isdisjoint(xs)]
    width = len(graphs[0].outputs)
    outputs = [any(part.outputs[j] is not None for part in splits) for j in range(width)]
    places = [*(given[x] for x in of_outputs), *range(width, width + len(slots))]
    extended, linear = [], []
    for i, part in enumerate(splits):
        held = _placed(others[i], slots)
        extended.append(_extended(b, part, held, slots))
        wanted = [
            y.type if dy is None else dy
            for y, dy, flag in zip(graphs[i].outputs, part.outputs, outputs, strict=True)
            if flag and y is not None
        ]
        stand_ins = [
            Value(type_, part.primal) if x is None else x for x, type_ in zip(held, slots, strict=True)
        ]
        known = [*(inputs[i][j] for j in read), *of_outputs, *stand_ins]
        linear.append(part.closed(b, wanted, [*part.tangents, *known]))
    return LinearizedCall(tuple(extended), tuple(linear), tuple(read), tuple(places), tuple(outputs))


def _slots(residuals: Sequence[Sequence[Value]]) -> list[ir.RankedTensorType]:
    """Returns the types of the residual slots. Each type occurs as often as in the graph that needs it most."""
    slots: list[Any] = []
    counts = Counter[Any]()
    for of_one in residuals:
        needed = Counter[Any]()
        for x in of_one:
            needed[x.type] += 1
            if needed[x.type] > counts[x.type]:
                slots.append(x.type)
        counts |= needed
    return slots


def _placed(residuals: Sequence[Value], slots: Sequence[ir.RankedTensorType]) -> list[Value | None]:
    """Returns the residual for each slot, in order, or None for a slot that this graph leaves unused."""
    left = defaultdict[Any, list[Value]](list)
    for x in reversed(residuals):
        left[x.type].append(x)
    return [left[type_].pop() if left[type_] else None for type_ in slots]


def _extended(
    b: StablehloBuilder, part: LentSplit, held: Sequence[Value | None], slots: Sequence[ir.RankedTensorType]
) -> Graph:
    return part.extended(b, [type_ if x is None else x for x, type_ in zip(held, slots, strict=True)])


def _by_jvp(b: StablehloBuilder, op: Definition, dx: Tangents, jvp: Graph) -> list[Value | None]:
    """The tangents from a custom JVP, (x..., dx...) -> (y..., dy...).

    They are the tangents of the JVP's results dy at dx = 0, because a JVP is linear in dx; `Unsupported` if it is not.
    """
    smooth = [b.tangent_type(x.type) is not None for x in op.operands]
    zeros = [b.zeros_like(x) for x, flag in zip(op.operands, smooth, strict=True) if flag]
    operands = (*op.operands, *zeros)
    record = Branches(None, operands, tuple(range(len(operands))), (jvp,), jvp.name)
    along = [None] * len(op.operands) + [t for t, flag in zip(dx, smooth, strict=True) if flag]
    dy = iter(linearized_tangents(b, record, along)[len(op.results) :])
    if not _is_linear(b, linearized_graphs(b, record.graphs, along), len(op.operands)):
        message = f"unsupported jvp AD rule for func.call: its JVP @{jvp.name} is not linear in the tangents"
        raise Unsupported(message, op.location)
    return [next(dy) if b.tangent_type(y.type) is not None else None for y in op.results]


def _is_linear(b: StablehloBuilder, jvp: LinearizedCall, first: int) -> bool:
    """Whether the linear graph of a JVP reads no value that depends on the JVP's tangents. Ignores callees."""
    (primal,) = jvp.primal
    residuals = [y for i in jvp.residuals if (y := primal.outputs[i]) is not None]
    varying = set(list(primal.inputs.values())[first:])
    for op in b.view.schedule(residuals, primal.inputs.values()):
        if not is_control(op) and not varying.isdisjoint(op.operands):
            varying.update(op.results)
    return all(i < first for i in jvp.read) and varying.isdisjoint(residuals)


def _by_vjp(b: StablehloBuilder, op: Definition, dx: Tangents, vjp: Graph) -> list[Value | None]:
    """Returns the tangents from a custom VJP, as results of `call_vjp`. The transpose of this op calls the VJP."""
    pairs = zip(op.operands, dx, strict=True)
    given = [b.zeros_like(x) if t is None else t for x, t in pairs if b.tangent_type(x.type) is not None]
    smooth = [y for y in op.results if b.tangent_type(y.type) is not None]
    named = {GRAPHS: ir.ArrayAttr.get([ir.FlatSymbolRefAttr.get(vjp.name)])}
    tangents = b.emit_all(CALL_VJP, (*op.operands, *given), [y.type for y in smooth], named)
    dy = dict(zip(smooth, tangents, strict=True))
    for y, tangent in dy.items():
        set_sizes(tangent, y)
    return [dy.get(y) for y in op.results]


OwnRule = Callable[[StablehloBuilder, Definition, Tangents, Graph], list[Value | None]]

OWN: dict[str, OwnRule] = dict(zip(DERIVATIVES, (_by_jvp, _by_vjp), strict=False))
"""The linearize rules of calls of functions with a custom derivative, by the attribute that names the derivative.

`root.py` and `linear_solve.py` add theirs.
"""

OwnTranspose = Callable[[StablehloBuilder, Definition, Tangents, Sequence[bool], Graph], list[Value | None]]

OWN_TRANSPOSE: dict[str, OwnTranspose] = {}
"""The transpose rules of calls, by an attribute that the called graph has. `linear_solve.py` adds its rule."""


@linearize(CALL_VJP)
def call_vjp(b: StablehloBuilder, op: Definition, dx: Tangents) -> list[Value | None]:
    raise only_vjp(op)


@transpose(CALL_VJP)
def call_vjp_transpose(
    b: StablehloBuilder, op: Definition, ct: Tangents, active: Sequence[bool]
) -> list[Value | None]:
    """Calls the VJP, which maps (x..., cy...) to (cx...) or to (y..., cx...). Returns cx."""
    vjp = b.view.graph(op.attributes[GRAPHS][0].value)
    count = len(vjp.inputs) - len(op.results)
    given = [b.zeros_like(y) if c is None else c for c, y in zip(ct, op.results, strict=True)]
    operands = *op.operands[:count], *given
    cx = b.inline(vjp, operands) if b.hides_sizes(vjp) else emit_call(b, vjp, operands)
    return [None] * count + list(cx)[len(cx) - (len(op.operands) - count) :]


@transpose(CALL)
@transpose(CASE)
def call_transpose(
    b: StablehloBuilder, op: Definition, ct: Tangents, active: Sequence[bool]
) -> list[Value | None]:
    record = branches(b.view, op)
    for attribute, rule in OWN_TRANSPOSE.items() if record.index is None else ():
        if attribute in record.graphs[0].attributes:
            return rule(b, op, ct, active, record.graphs[0])
    flags = tuple([active[i] for i in record.arguments])
    with_ct = tuple([t is not None for t in ct])
    operands = zip(record.operands, flags, strict=True)
    steep = tuple([flag and has_infinite_slope(b, x) for x, flag in operands])
    key = record.graphs, flags, with_ct, steep
    _add_pattern(b, record.graphs, (flags, with_ct, steep))
    back = _TRANSPOSED.get(b.view, key, lambda: _transpose(b, *key))
    read = [x for x, flag in zip(record.operands, flags, strict=True) if not flag]
    given = [t for t in ct if t is not None]
    cx = iter(_emit(b, record.index, back.graphs, [*given, *read]) if any(back.outputs) else ())
    values = [next(cx) if flag else None for flag in back.outputs]
    masks = [next(cx) if flag else None for flag in back.masks]
    pairs = zip(values, masks, strict=True)
    cotangents = iter([y if m is None or y is None else mask_with(b, m, y) for y, m in pairs])
    of_arguments = [next(cotangents) if flag else None for flag in flags]
    return of_arguments if record.index is None else [None, *of_arguments]


def _transpose(
    b: StablehloBuilder, graphs: Sequence[Graph], active: Flags, with_ct: Flags, steep: Flags
) -> TransposedCall:
    engine: Transposing = b.engine
    parts = [transpose_graph(b, graph, active, with_ct, steep=steep) for graph in graphs]
    count = sum(active)
    outputs = [any(part.outputs[j] is not None for part in parts) for j in range(count)]
    places = [
        j for j, flag in enumerate(flag for flag, given in zip(steep, active, strict=True) if given) if flag
    ]
    masks = [dict(zip(places, part.outputs[count:], strict=True)) for part in parts]
    needed = [
        outputs[j] and j in places and any((m := of[j]) is None or not is_everywhere(m) for of in masks)
        for j in range(count)
    ]
    closed = []
    for graph, part, of in zip(graphs, parts, masks, strict=True):
        linear = [x for x, flag in zip(graph.inputs.values(), active, strict=True) if flag]
        read = [x for x, flag in zip(graph.inputs.values(), active, strict=True) if not flag]
        wanted = [
            x.type if c is None else c
            for x, c, flag in zip(linear, part.outputs[:count], outputs, strict=True)
            if flag
        ]
        wanted += [
            predicate(linear[j].type) if of[j] is None else of[j] for j, flag in enumerate(needed) if flag
        ]
        given = [*part.inputs.values(), *read]
        closed.append(engine.close(b.view, wanted, given, name=f"{stem(graph)}.transpose"))
        b.view.discard(part)
    return TransposedCall(tuple(closed), tuple(outputs), tuple(needed))


def transpose_graph(
    b: StablehloBuilder,
    graph: Graph,
    active: Sequence[bool],
    with_ct: Sequence[bool],
    sums: Sequence[Value] = (),
    steep: Sequence[bool] = (),
) -> Graph:
    """Transposes a closed graph that is linear in its active inputs. `with_ct` flags the outputs with a cotangent.

    For each input in `sums`, the transpose has a further input, to which it adds the cotangent. For each input flagged
    in `steep`, it has a further output, the mask of the cotangent.
    """
    inputs = list(graph.inputs.values())
    linear = [x for x, flag in zip(inputs, active, strict=True) if flag]
    wanted = [y if flag else None for y, flag in zip(graph.outputs, with_ct, strict=True)]
    engine: Transposing = b.engine
    return engine.transpose(
        b.view, graph, linear, wanted, sums, [x for x, flag in zip(inputs, steep, strict=False) if flag]
    )
