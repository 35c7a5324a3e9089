"""collapse: computes sums of outputs over a batch, and applies linear ops to the sum instead of to each example.

    L0: dx = input                          C0: dx = input          a batch of k values of dx
        t1 = mul @F0::@p, dx        ->          t1 = mul p', dx         p' has a value of p for each example
                                                s1 = sum of t1
        t2 = dot_general W, t1                  s2 = dot_general W, s1
        y  = mul @F0::@c, t2                    y  = mul @F0::@c, s2    the sum over the k examples

An op commutes with the sum if it is linear in the values that depend on the batch. `plan` visits the ops from the
outputs to the inputs, and finds the values of which only the sum is needed. It does so in calls, branches and loops,
too, so that a loop may carry a sum instead of a batch. All other ops run on each example, as in `batch`.

A Laplacian is the sum of second tangents along all basis vectors. `collapse` propagates only this sum, as the forward
Laplacian does.

Sources: Li et al., "Forward Laplacian" (2023); Dangel et al., "Collapsing Taylor Mode Automatic Differentiation"
(2025).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

from tiduc.dialect.control.control import (
    Branches,
    Loop,
    branches,
    calls_function,
    emit_call,
    emit_case,
    emit_loop,
    loop,
)
from tiduc.dialect.errors import Unsupported
from tiduc.dialect.graph.cache import Cache
from tiduc.dialect.graph.graph import Definition, Graph, Value, stem
from tiduc.dialect.graph.view import BINDING, View
from tiduc.dialect.mlir.context import stage
from tiduc.dialect.ops.control_ops import CALL, CASE, LOOP
from tiduc.dialect.ops.control_ops import sequence_type as stacked
from tiduc.dialect.shapes.types import rank
from tiduc.passes.batch import Request, batch_op, check_inputs, copy_op, in_one_loop, is_one_loop, reached_ops
from tiduc.passes.batching import BATCHING
from tiduc.passes.batching.control import elements
from tiduc.passes.batching.factors import Factored, factored
from tiduc.passes.batching.registry import can_be_stacked, spread
from tiduc.passes.engine.close import private_builder
from tiduc.passes.rules.registry import OpSet


class Need(IntEnum):
    """How later ops read a batched value: not at all, only its sum over the batch, or the value of each example."""

    NOTHING = 0
    SUM = 1
    EACH = 2


Needs = tuple[Need | None, ...]
"""How later ops read each input or output of a graph; None for a value that does not depend on the batch."""
Flags = tuple[bool, ...]


@stage
def collapse(
    view: View,
    outputs: Sequence[Value],
    inputs: Sequence[str],
    linear: Sequence[str],
    size: int,
    opset: OpSet,
) -> Graph:
    """Builds a graph that computes the sum of each output over `size` values of the inputs with the keys `inputs`.

    `linear` lists those keys that belong to a linear graph; only ops of that graph may read these inputs. The inputs of
    the result have fresh keys and a leading dimension of `size`. Raises the errors that `batch` raises.
    """
    outputs, own = view.values(outputs), [view.input(key) for key in inputs]
    check_inputs(own, inputs, size)
    b: Any = opset.builder(view, view.fresh("C"))
    request = Request(view, size, opset, BATCHING)
    b.engine = request.engine()
    values = {
        x: b.input(f"{b.graph.name}.{key}", stacked(x.type, size)) for x, key in zip(own, inputs, strict=True)
    }
    emitter = _Emitter(request, b, values, {}, {}, {})
    order = view.schedule(outputs)
    try:
        reached = reached_ops(order, values)
        if is_one_loop(request, reached):
            in_one_loop(b, reached, outputs, values)
        else:
            wanted = dict.fromkeys(outputs, Need.SUM)
            emitter.emit(order, plan(view, opset, order, own, map(view.input, linear), wanted), closed=False)
    except Unsupported as error:
        raise error.at(b.location) from None
    graph: Graph = b.finish([emitter.sum_of(y) for y in outputs])
    return graph


# ---- the plan says which ops run on sums, and which on each example ----------------------------------------


@dataclass(frozen=True)
class Inner:
    """The plan of a control-flow op: the needs of its graphs' inputs and outputs. `linear` flags the tangent inputs."""

    record: Branches | Loop
    inputs: Needs
    linear: Flags
    outputs: Needs


@dataclass(frozen=True)
class CollapsePlan:
    """How ops on the batch are emitted: on sums (`moved`), by a plan of their graphs (`inner`), else on each example.

    `dependent` are the values that depend on the batch, `linear` the tangents among them, and `needs` says how later
    ops read a value.
    """

    needs: dict[Value, Need]
    dependent: set[Value]
    linear: set[Value]
    moved: set[Definition]
    inner: dict[Definition, Inner]

    def need(self, x: Value) -> Need | None:
        """How later ops read a value; None if the value does not depend on the batch."""
        return self.needs.get(x, Need.NOTHING) if x in self.dependent else None


def plan(
    view: View,
    opset: OpSet,
    order: Sequence[Definition],
    dependent: Iterable[Value],
    linear: Iterable[Value],
    wanted: Mapping[Value, Need],
) -> CollapsePlan:
    """Decides for each op in `order` whether it runs on each example or on sums over the batch.

    `dependent` are the batched inputs, `linear` those that are tangents, and `wanted` the needs of the outputs.
    """
    decided = CollapsePlan(dict(wanted), set(dependent), set(linear), set(), {})
    reached = []
    for op in order:
        if not decided.dependent.isdisjoint(op.reads):
            reached.append(op)
            decided.dependent.update(op.results)
            if not decided.linear.isdisjoint(op.reads):
                decided.linear.update(y for y in op.results if opset.builder.tangent_type(y.type) is not None)
    for op in reversed(reached):
        _plan_op(view, opset, op, decided)
    return decided


def _plan_op(view: View, opset: OpSet, op: Definition, decided: CollapsePlan) -> None:
    """Adds to the plan how an op reads its operands. This depends on how later ops read its results."""
    of_results = [decided.needs.get(y, Need.NOTHING) for y in op.results]
    most = max(of_results, default=Need.NOTHING)
    if most is Need.NOTHING:
        return
    reads = [x for x in op.reads if x in decided.dependent]
    if op.name == BINDING:
        _raise(decided, reads, [most])
    elif most is Need.SUM and decided.linear.issuperset(reads):
        decided.moved.add(op)
        _raise(decided, reads, [Need.SUM] * len(reads))
    elif Need.SUM in of_results and (inner := _planned_inside(view, opset, op, decided)) is not None:
        decided.inner[op] = inner
        _raise(decided, inner.record.operands, inner.inputs)
    else:
        _raise(decided, reads, [Need.EACH] * len(reads))


def _raise(decided: CollapsePlan, values: Sequence[Value], needs: Sequence[Need | None]) -> None:
    for x, need in zip(values, needs, strict=True):
        if need is not None and x in decided.dependent:
            decided.needs[x] = max(need, decided.needs.get(x, Need.NOTHING))


def _planned_inside(view: View, opset: OpSet, op: Definition, decided: CollapsePlan) -> Inner | None:
    """Plans the graphs of a control-flow op. Returns None if the op must run on each example."""
    if op.name not in (CALL, CASE, LOOP) or not all(can_be_stacked(x.type) for x in (*op.reads, *op.results)):
        return None
    if calls_function(view, op) or (op.name == CASE and op.operands[0] in decided.dependent):
        return None
    record = loop(view, op) if op.name == LOOP else branches(view, op)
    inputs = tuple([Need.NOTHING if x in decided.dependent else None for x in record.operands])
    inner = Inner(
        record,
        inputs,
        tuple([x in decided.linear for x in record.operands]),
        tuple([decided.need(y) for y in op.results]),
    )
    if isinstance(record, Loop):
        return None if record.cond is not None else _plan_loop(view, opset, inner, record)
    return _plan_branches(view, opset, inner, record)


def _plan_branches(view: View, opset: OpSet, inner: Inner, record: Branches) -> Inner:
    plans = [_plan_graph(view, opset, graph, inner) for graph in record.graphs]
    outputs = [
        None if all(of.need(y) is None for of, y in zip(plans, ends, strict=True)) else need
        for need, *ends in zip(inner.outputs, *(graph.outputs for graph in record.graphs), strict=True)
    ]
    needs = [_needs_of_inputs(of, graph, inner) for of, graph in zip(plans, record.graphs, strict=True)]
    inputs = [None if parts[0] is None else max(parts) for parts in zip(*needs, strict=True)]
    return replace(inner, inputs=tuple(inputs), outputs=tuple(outputs))


def _plan_loop(view: View, opset: OpSet, inner: Inner, record: Loop) -> Inner:
    """Finds, by a fixed-point iteration, which carries of a loop depend on the batch, and how they are read."""
    n, m = len(record.inits), len(record.sequences)
    inputs, linear = list(inner.inputs), list(inner.linear)
    outputs = [*inner.outputs[:n], *[need and Need.EACH for need in inner.outputs[n:]]]
    while True:
        state = Inner(record, tuple(inputs), tuple(linear), tuple(outputs))
        decided = _plan_graph(view, opset, record.body, state)
        needs = _needs_of_inputs(decided, record.body, state)
        for i, y in enumerate(record.body.outputs):
            if i >= n:
                outputs[i] = outputs[i] if y in decided.dependent else None
                continue
            assert y is not None
            is_dependent = inputs[i] is not None or y in decided.dependent
            need = max(needs[i] or Need.NOTHING, inner.outputs[i] or Need.NOTHING, outputs[i] or Need.NOTHING)
            inputs[i] = outputs[i] = need if is_dependent else None
            linear[i] = linear[i] or y in decided.linear
        inputs[n : n + m] = [need and Need.EACH for need in needs[n : n + m]]
        inputs[n + m :] = needs[n + m :]
        if state == Inner(record, tuple(inputs), tuple(linear), tuple(outputs)):
            return state


def _plan_graph(view: View, opset: OpSet, graph: Graph, inner: Inner) -> CollapsePlan:
    inputs = list(graph.inputs.values())
    outputs = [y for y in graph.outputs if y is not None]
    wanted: dict[Value, Need] = {}
    for y, need in zip(outputs, inner.outputs, strict=True):
        wanted[y] = max(need or Need.NOTHING, wanted.get(y, Need.NOTHING))
    return plan(
        view,
        opset,
        view.schedule(outputs, inputs),
        [x for x, need in zip(inputs, inner.inputs, strict=True) if need is not None],
        [x for x, flag in zip(inputs, inner.linear, strict=True) if flag],
        wanted,
    )


def _needs_of_inputs(decided: CollapsePlan, graph: Graph, inner: Inner) -> list[Need | None]:
    return [
        None if before is None else decided.needs.get(x, Need.NOTHING)
        for x, before in zip(graph.inputs.values(), inner.inputs, strict=True)
    ]


# ---- the ops are emitted as planned ------------------------------------------------------------------------


_COLLAPSED = Cache[tuple[Graph, Needs, Flags, Needs, int], Graph]()


@dataclass(frozen=True)
class _Emitter:
    """Emits the ops of a plan. Four dictionaries map the values of the program to emitted values.

    `values` has the batched values, `plain` those that do not depend on the batch, and `sums` the sums over the batch.
    `products` has batched values as factor * core. They are multiplied only when an op reads them for each example.
    """

    request: Request
    b: Any
    values: dict[Value, Value]
    plain: dict[Value, Value]
    sums: dict[Value, Value]
    products: dict[Value, Factored]

    def sum_of(self, x: Value) -> Value:
        """The sum of a value over the batch."""
        if x not in self.sums:
            if x in self.products:
                product = self.products[x]
                total = self.b.multiply(product.factor, self.b.reduce_sum(product.core, [0]))
            elif x in self.values:
                total = self.b.reduce_sum(self.values[x], [0])
            else:
                v = self.plain.get(x, x)
                total = self.b.multiply(self.b.constant(self.request.size, v), v)
            self.sums[x] = total
        return self.sums[x]

    def emit(self, order: Sequence[Definition], decided: CollapsePlan, closed: bool) -> None:
        """Emits the ops of a schedule. In a closed graph, also copies the ops that do not depend on the batch."""
        for op in order:
            if decided.dependent.isdisjoint(op.reads):
                if closed or not self.plain.keys().isdisjoint(op.reads):
                    copy_op(self.b, op, self.plain)
            elif op in decided.inner:
                self._emit_inside(op, decided.inner[op])
            elif op in decided.moved:
                self._emit_on_sums(op, decided)
            elif op.name == BINDING:
                tables: tuple[dict[Value, Any], ...] = (self.values, self.plain, self.sums, self.products)
                for known in tables:
                    known.update((op.result, known[x]) for x in op.operands if x in known)
            elif any(decided.need(y) for y in op.results):
                self._emit_each(op, any(decided.need(y) is Need.SUM for y in op.results))

    def _emit_each(self, op: Definition, is_summed: bool) -> None:
        """Emits an op for all examples, if possible as a factor times a core (`factors.py`)."""
        if not any(x in self.values or x in self.products for x in op.reads):
            copy_op(self.b, op, self.plain)
            return
        self.b.location = op.location
        factors = [self._factors(x) for x in op.operands]
        product = factored(self.b, op, factors, is_summed) if not op.captures else None
        if product is not None:
            self.products[op.result] = product
            return
        for x in op.reads:
            self._multiply_out(x)
        batch_op(self.request, self.b, op, self.values, self.plain)

    def _factors(self, x: Value) -> Factored:
        if x in self.products:
            return self.products[x]
        return Factored(None, self.values[x]) if x in self.values else Factored(self.plain.get(x, x), None)

    def _multiply_out(self, x: Value) -> None:
        if x in self.products and x not in self.values:
            product = self.products[x]
            assert product.factor is not None
            self.values[x] = self.b.multiply(spread(self.b, product.factor), product.core)

    def _emit_on_sums(self, op: Definition, decided: CollapsePlan) -> None:
        def given(x: Value) -> Value:
            return self.sum_of(x) if x in decided.dependent else self.plain.get(x, x)

        results = self.b.copy(op, tuple(map(given, op.operands)), tuple(map(given, op.captures)))
        self.b.graph.definitions[-1].active = None  # the flags of active operands do not hold here
        self.sums.update(zip(op.results, results, strict=True))

    def _given(self, x: Value, need: Need | None) -> Value:
        if need is None:
            return self.plain.get(x, x)
        if need is Need.EACH:
            self._multiply_out(x)
            return self.values[x] if x in self.values else spread(self.b, self.plain.get(x, x))
        return self.sum_of(x) if need is Need.SUM else self.b.zero(x.type)

    def _emit_inside(self, op: Definition, inner: Inner) -> None:
        b, record = self.b, inner.record
        operands = [self._given(x, need) for x, need in zip(record.operands, inner.inputs, strict=True)]
        n = len(op.results)
        if isinstance(record, Loop):
            n, m = len(record.inits), len(record.sequences)
            for i in range(n, n + m):
                operands[i] = elements(b, operands[i]) if inner.inputs[i] is Need.EACH else operands[i]
            body = self._graph(record.body, inner)
            ends = tuple(operands[:n]), tuple(operands[n : n + m]), tuple(operands[n + m :])
            results = emit_loop(b, Loop(*ends, body, None, record.reverse, record.trip_count, body.name))
        elif record.index is None:
            results = emit_call(b, self._graph(record.graphs[0], inner), operands)
        else:
            graphs = [self._graph(graph, inner) for graph in record.graphs]
            results = emit_case(b, self.plain.get(record.index, record.index), graphs, operands)
        for i, (x, y, need) in enumerate(zip(op.results, results, inner.outputs, strict=True)):
            if need is Need.EACH:
                self.values[x] = y if i < n else b.transpose(y, [1, 0, *range(2, rank(y))])
            elif need is not Need.NOTHING:
                (self.plain if need is None else self.sums)[x] = y

    def _graph(self, graph: Graph, inner: Inner) -> Graph:
        key = graph, inner.inputs, inner.linear, inner.outputs, self.request.size
        return _COLLAPSED.get(self.request.view, key, lambda: _collapsed_graph(self.request, graph, inner))


def _collapsed_graph(request: Request, graph: Graph, inner: Inner) -> Graph:
    """Builds a closed graph that computes `graph` on sums and batches, as `inner` plans. Unread outputs are zeros."""
    view = request.view
    b = private_builder(view, request.opset, f"{stem(graph)}.collapsed")
    b.engine = request.engine()
    emitter = _Emitter(request, b, {}, {}, {}, {})
    for i, (x, need) in enumerate(zip(graph.inputs.values(), inner.inputs, strict=True)):
        each = need is Need.EACH
        given = b.input(f"{b.graph.name}.{i}", stacked(x.type, request.size) if each else x.type)
        of_form = emitter.values if each else emitter.sums if need is Need.SUM else emitter.plain
        of_form[x] = given
    outputs = [y for y in graph.outputs if y is not None]
    emitter.emit(
        view.schedule(outputs, graph.inputs.values()),
        _plan_graph(view, request.opset, graph, inner),
        closed=True,
    )
    built: Graph = b.finish([emitter._given(y, need) for y, need in zip(outputs, inner.outputs, strict=True)])
    return built
