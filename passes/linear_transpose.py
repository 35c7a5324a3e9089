"""linear_transpose: transposes a linear graph, which turns a JVP into a VJP. This is not differentiation.

    L0: dx = input                                    T0: ct = input           (cotangent of @F0::@p3)
        t1 = mul @F0::@a,  dx   {active = [0, 1]}  ->     c1 = mul @F0::@p3, ct    {active = [0, 1]}
        t2 = mul @F0::@p3, t1   {active = [0, 1]}         c2 = mul @F0::@a, c1     {active = [0, 1]}

Ops are visited in reverse. The cotangents of a value, including seeds, are collected, and added up when the op that
defines the value is reached. An output that is returned twice, or is an input, therefore needs no special case. The
masks of active operands are derived from the tangent inputs, as in the verifier, so a missing mask does no harm.

Source: Frostig, Johnson, Maclaurin, Paszke, Radul, "Decomposing reverse-mode automatic differentiation" (2021).
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import Any

from tiduc.dialect.emitters.builder import Builder
from tiduc.dialect.emitters.masks import everywhere, is_everywhere, reached, set_steep
from tiduc.dialect.errors import RequestError, UnknownSize, Unsupported
from tiduc.dialect.graph.graph import Definition, Graph, Value
from tiduc.dialect.graph.view import Reference, View
from tiduc.dialect.mlir.context import stage
from tiduc.passes.engine.close import close
from tiduc.passes.rules.lent import Transposing
from tiduc.passes.rules.registry import OpSet


@stage
def linear_transpose(
    view: View,
    graph: Graph,
    opset: OpSet,
    name: str | None = None,
    wrt: Sequence[Value | Reference] | None = None,
    outputs: Sequence[Value | Reference] | None = None,
) -> Graph:
    """Builds the transpose of a linear graph, which maps cotangents of its outputs to cotangents of its inputs.

    Inactive outputs also become inputs, so that transposing twice gives the original map. `wrt` and `outputs` are
    primal values. With them, only the map from tangents of `wrt` to tangents of `outputs` is transposed, and all other
    inputs are zero. Raises `RequestError` if the graph is not linear or has no such tangent, and `Unsupported` if an op
    has no transpose rule.
    """
    graph = view.graph(graph.name)
    if not graph.linear:
        raise RequestError(f"graph @{graph.name} is not linear", graph.location)
    inputs = _chosen(view, graph, wrt, list(graph.inputs.values()), graph.input_of, "input")
    of = _chosen(view, graph, outputs, graph.outputs, graph.output_of, "output")
    b = _builder(view, opset, name or view.fresh("T"))
    b.graph.input_of = tuple([primal for primal, _ in of])
    cotangents = _seeds(b, view, of)
    needed = None if wrt is None else _reached(graph, [x for _, x in inputs if x is not None])
    try:
        _transpose_ops(b, graph.definitions, cotangents, opset, needed)
    except Unsupported as error:
        raise error.at(b.location) from None
    results = [_accumulated(b, cotangents[x]) for _, x in inputs if x is not None]
    transposed: Graph = b.finish_linear(results, b.graph.input_of, [primal for primal, _ in inputs])
    return transposed


def _chosen(
    view: View,
    graph: Graph,
    wanted: Sequence[Value | Reference] | None,
    tangents: Sequence[Value | None],
    primals: Sequence[Value],
    what: str,
) -> list[tuple[Value, Value | None]]:
    """The pairs of a primal value and its tangent, for the values in `wanted`, or for all values if `wanted` is None.

    `what` is "input" or "output". Raises `RequestError` if a value is listed twice or is not in `primals`.
    """
    known = list(zip(primals, tangents, strict=True))
    if wanted is None:
        return known
    chosen = []
    for primal in view.values(wanted):
        found = next((pair for pair in known if pair[0] is primal), None)
        if found is None or found in chosen:
            why = "given twice" if found else f"not the primal of an {what} of graph @{graph.name}"
            raise RequestError(f"{view.reference(primal)} is {why}", graph.location)
        chosen.append(found)
    return chosen


def _reached(graph: Graph, inputs: Iterable[Value]) -> set[Value]:
    """The given inputs of a linear graph, and the tangents that depend on them."""
    reached = set(inputs)
    for op in graph.definitions:
        if op.active is not None and not reached.isdisjoint(op.reads):
            reached.update(op.results)
    return reached


def transpose_closed(
    view: View,
    graph: Graph,
    linear: Sequence[Value],
    wanted: Sequence[Value | None],
    sums: Sequence[Value] = (),
    steep: Sequence[Value] = (),
    *,
    opset: OpSet,
) -> Graph:
    """Builds the transpose of a closed graph with respect to its inputs `linear`.

    The transpose maps cotangents of the outputs `wanted` to cotangents of `linear`, and reads values of `graph`. An
    output of the transpose is None if there is no cotangent. For each input in `sums`, the transpose has a further
    input, whose value is added to the cotangent of the input in `sums`.

    For each input in `steep`, the transpose has a further output: a predicate that is true where no mask sets the
    cotangent to zero, or None if there is no cotangent. If the input is also in `sums`, the predicate is true where no
    mask did so in this iteration of a loop or in an earlier one.
    """
    b = _builder(view, opset, view.fresh("T"))
    b.tangents = set(linear)
    ops, copies = _masked(graph, linear)
    cotangents: defaultdict[Value, list[Value]] = defaultdict(list)
    for x in (*wanted, *sums):
        if x is not None:
            key = f"{b.graph.name}.{len(b.graph.inputs)}"
            cotangents[copies.get(x, x)].append(b.input(key, x.type, linear=True))
    set_steep(b, steep)
    _transpose_ops(b, ops, cotangents, opset)
    masks = [_where(b, x, cotangents, x in sums) for x in steep]
    transposed: Graph = b.finish([*(_accumulated(b, cotangents[x]) for x in linear), *masks])
    return transposed


def _masked(graph: Graph, linear: Iterable[Value]) -> tuple[list[Definition], dict[Value, Value]]:
    """Copies the ops that depend on the inputs `linear`, and flags the operands that depend on them (active mask).

    Returns the copies, and a map from values to their copies. The ops of a closed graph have no masks themselves,
    because masks depend on `linear`.
    """
    masked, copies = Graph(graph.name, graph.location), {x: x for x in linear}
    for op in graph.definitions:
        mask = tuple([x in copies for x in op.operands])
        if True not in mask:
            continue
        operands = tuple([copies.get(x, x) for x in op.operands])
        captures = tuple([copies.get(x, x) for x in op.captures]) if op.captures else ()
        copy = Definition(op.name, operands, masked, mask, op.given, op.source, captures, op.location)
        copy.results = tuple([Value(y.type, masked, copy) for y in op.results])
        masked.definitions.append(copy)
        copies.update(zip(op.results, copy.results, strict=True))
    return masked.definitions, copies


def _builder(view: View, opset: OpSet, name: str) -> Any:
    b: Any = opset.builder(view, name)
    b.engine = Transposing(partial(transpose_closed, opset=opset), partial(close, opset=opset))
    return b


def _seeds(
    b: Builder, view: View, outputs: Sequence[tuple[Value, Value | None]]
) -> defaultdict[Value, list[Value]]:
    """Adds to the transpose one input per output of the linear graph. Returns the cotangents of the active outputs."""
    cotangents: defaultdict[Value, list[Value]] = defaultdict(list)
    taken: dict[str, int] = {}
    for primal, y in outputs:
        key = f"{b.graph.name}.{view.reference(primal).value[-1]}"
        number = taken[key] = taken.get(key, 0) + 1
        ct = b.input(f"{key}.{number}" if number > 1 else key, primal.type, linear=True)
        if y is not None:
            cotangents[y].append(ct)
    return cotangents


def _transpose_ops(
    b: Builder,
    ops: Sequence[Definition],
    cotangents: defaultdict[Value, list[Value]],
    opset: OpSet,
    needed: Collection[Value] | None = None,
) -> None:
    """Propagates cotangents from the outputs back to the inputs, and only to tangents in `needed` if it is given."""
    taken = cotangents.pop
    for op in reversed(ops):
        active = op.active
        if active is None:
            continue
        buckets = [taken(y, None) for y in op.results]
        if not any(buckets):
            continue
        b.location = op.location
        ct = [_accumulated(b, bucket) for bucket in buckets]
        wanted = active if needed is None else [x in needed for x in op.operands]
        if True not in wanted:
            continue
        try:
            transposed = opset.transpose_rule(op)(b, op, ct, active)
            for x, is_wanted, cx in zip(op.operands, wanted, transposed, strict=True):
                value = cx() if is_wanted and callable(cx) else cx
                if is_wanted and value is not None:
                    cotangents[x].append(value)
        except UnknownSize as error:
            raise opset.unsupported("transpose", op, error.message) from None


def _accumulated(b: Builder, bucket: Sequence[Value] | None) -> Value | None:
    """The sum of a value's cotangents; None if it has none."""
    if not bucket:
        return None
    return bucket[0] if len(bucket) == 1 else b.sum(bucket)


def _where(b: Any, x: Value, cotangents: dict[Value, list[Value]], is_summed: bool) -> Value | None:
    """A predicate that is true where no mask sets the cotangent of the input x to zero; None without a cotangent.

    Replaces the cotangents of x in `cotangents` by their sum. With `is_summed`, the first of them is the sum over
    earlier iterations of a loop. A new input of the graph then holds the predicate of these iterations, and the result
    is true where either predicate is. No input is added if the result is true everywhere.
    """
    before, own = cotangents[x][:is_summed], _accumulated(b, cotangents[x][is_summed:])
    if own is None:
        return None
    cotangents[x] = [*before, own]
    where: Value = reached(b, own)
    if not is_summed:
        return where
    if is_everywhere(where):
        return everywhere(b, where)
    either: Value = b.or_(b.input(f"{b.graph.name}.{len(b.graph.inputs)}", where.type), where)
    return either
