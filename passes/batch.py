"""The stage `batch` (vmap) computes outputs for k values of some inputs, stacked along a new leading dimension.

    L0: dx = input                             B0: dx = k inputs, stacked
        t1 = mul @F0::@a, dx           ->          a' = broadcast @F0::@a
        t2 = mul @F0::@p3, t1                      t1 = mul a', dx
                                                   ...

The stage visits the ops on which the outputs depend, in order. If an op reads a batched value, the stage applies the
batching rule of the op. The new graph does not copy unbatched values, but reads them from the graph that defines them.
If only the tangents of a linear graph are batched, its primal values are therefore computed once. An op without a rule
runs k times, in a loop. If most ops have no rule, or a value cannot have a batch dimension, a single loop runs all ops.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch_mlir import ir

from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.errors import RequestError, Unsupported
from tiduc.dialect.graph.cache import Cache
from tiduc.dialect.graph.graph import Definition, Graph, Value, stem
from tiduc.dialect.graph.view import BINDING, Reference, View
from tiduc.dialect.mlir.context import stage
from tiduc.dialect.ops.control_ops import LOOP
from tiduc.dialect.ops.control_ops import sequence_type as stacked
from tiduc.passes.batching import BATCHING
from tiduc.passes.batching.registry import (
    Batched,
    Batching,
    BatchRule,
    BatchRules,
    Unbatched,
    can_be_stacked,
    in_loop,
    mapped,
    spread,
    unbatchable,
)
from tiduc.passes.engine.close import close, inline, private_builder
from tiduc.passes.rules.registry import OpSet

BATCH_OF = "tidu.batch_of"
"""Attribute of a graph that `batch` creates: the names of the graphs whose outputs it computes for the batch."""

BATCHED = "tidu.batched"
"""Attribute of a graph that `batch` creates: for each of its inputs, the key of the original input."""


@dataclass(frozen=True)
class Request:
    """The arguments of a call of `batch` or `collapse` that apply to all graphs which that call creates."""

    view: View
    size: int
    opset: OpSet
    rules: BatchRules

    def engine(self) -> Batching:
        """The object with the functions of this stage that batching rules may call."""
        return Batching(
            self.size,
            partial(close, opset=self.opset),
            partial(_batched_graph, self),
            inline,
            partial(private_builder, self.view, self.opset),
            self.opset.stateful,
        )


@stage
def batch(
    view: View,
    outputs: Sequence[Value | Reference],
    inputs: Sequence[str],
    size: int,
    opset: OpSet,
    name: str | None = None,
    rules: BatchRules = BATCHING,
) -> Graph:
    """Returns a new graph that computes `outputs`, which are values or references, for `size` values of some inputs.

    `inputs` are the keys of these inputs. The inputs of the new graph have fresh keys. Its inputs and outputs have a
    leading dimension of size `size`, except outputs that do not depend on the inputs. Raises `RequestError` if an input
    is bound, repeated, of dynamic shape or not a tensor, or if `size` is less than 1. Raises `Unsupported` if an op
    cannot be batched.
    """
    outputs = view.values(outputs)
    own = [view.input(key) for key in inputs]
    check_inputs(own, inputs, size)
    b: Any = opset.builder(view, name or view.fresh("B"))
    values = {
        x: b.input(f"{b.graph.name}.{key}", stacked(x.type, size)) for x, key in zip(own, inputs, strict=True)
    }
    request = Request(view, size, opset, rules)
    b.engine = request.engine()
    plain: dict[Value, Value] = {}
    order = view.schedule(outputs)
    reached = reached_ops(order, values)
    try:
        if is_one_loop(request, reached):
            in_one_loop(b, reached, outputs, values)
        else:
            _batch_ops(request, b, order, values, plain, closed=False)
    except Unsupported as error:
        raise error.at(b.location) from None
    sources = dict.fromkeys(y.graph.name for y in outputs)
    b.graph.attributes[BATCH_OF] = ir.ArrayAttr.get([ir.FlatSymbolRefAttr.get(source) for source in sources])
    b.graph.attributes[BATCHED] = ir.ArrayAttr.get([ir.FlatSymbolRefAttr.get(key) for key in inputs])
    graph: Graph = b.finish([values.get(y) or plain.get(y, y) for y in outputs])
    return graph


def check_inputs(own: Sequence[Value], keys: Sequence[str], size: int) -> None:
    if size < 1:
        raise RequestError(f"the batch size must be at least 1, not {size}")
    seen = set()
    for x, key in zip(own, keys, strict=True):
        if x.definition is not None:
            raise RequestError(f"batched input @{key} is bound to another value")
        if x in seen:
            raise RequestError(f"batched input @{key} is given twice")
        seen.add(x)
        if not can_be_stacked(x.type):
            raise RequestError(
                f"input @{key} of type {x.type} cannot be batched; only tensors of static shape can"
            )


def _batch_ops(
    request: Request,
    b: StablehloBuilder,
    order: Sequence[Definition],
    values: dict[Value, Value],
    plain: dict[Value, Value],
    closed: bool,
) -> None:
    """Calls `batch_op` for each op that reads a batched value, that is, a value in `values`.

    `values` and `plain` map batched and unbatched values of the original graph to values of the new graph. If the new
    graph is `closed`, it may not read values of other graphs, so all other ops are copied into it. If it is not, an op
    is copied only if it reads a value in `plain`.
    """
    for op in order:
        if not values.keys().isdisjoint(op.reads):
            batch_op(request, b, op, values, plain)
        elif closed or not plain.keys().isdisjoint(op.reads):
            copy_op(b, op, plain)


def batch_op(
    request: Request,
    b: StablehloBuilder,
    op: Definition,
    values: dict[Value, Value],
    plain: dict[Value, Value],
) -> None:
    """Emits the batched form of an op that reads a batched value.

    Adds the op's batched results to `values`, and its unbatched results to `plain`.
    """
    if op.name == BINDING:
        values[op.result] = values[op.operands[0]]
        return
    b.location = op.location
    x = [values.get(v) or plain.get(v, v) for v in op.reads]
    at = [v in values for v in op.reads]
    results = _rule(request, op)(b, op, x, at)
    for y, result in zip(op.results, results, strict=True):
        if isinstance(result, Unbatched):
            plain[y] = result.value
        else:
            assert result.type == stacked(y.type, request.size), (op.name, result.type)
            values[y] = result


def copy_op(b: StablehloBuilder, op: Definition, plain: dict[Value, Value]) -> None:
    """Copies an op with unbatched operands. Replaces operands that `plain` maps, and adds the results to `plain`."""
    operands = tuple([plain.get(v, v) for v in op.operands])
    if op.name == BINDING:
        plain[op.result] = operands[0]
        return
    captures = tuple([plain.get(v, v) for v in op.captures])
    plain.update(zip(op.results, b.copy(op, operands, captures), strict=True))
    b.graph.definitions[-1].active = None  # an active mask is valid only in the op's own graph


def _rule(request: Request, op: Definition) -> BatchRule:
    """The batching rule for an op.

    The rule is `mapped`, a loop over the batch, if the op has no other rule, or if its regions capture values that are
    not constants and no rule supports that. Raises `Unsupported` if the op must not be batched, or if its rule is not
    `mapped` and a result is not a tensor of static shape. The results of loops may be sequences of dynamic length,
    because sequences between loops are never stored as a whole.
    """
    rule = request.rules.rule(op, request.opset.key(op))
    if op.name not in request.opset.capturing and not all(x.is_constant for x in op.captures):
        return mapped
    if rule is not mapped and op.name != LOOP and not all(can_be_stacked(y.type) for y in op.results):
        types = ", ".join(str(y.type) for y in op.results)
        raise unbatchable(op, f"a result of ({types}) cannot be batched")
    return rule


# ---- called graphs are batched, too ------------------------------------------------------------------------


_BATCHED = Cache[tuple[Graph, tuple[bool, ...], tuple[bool | None, ...], int, BatchRules], Batched]()


def _batched_graph(
    request: Request, graph: Graph, at: tuple[bool, ...], forced: Sequence[bool | None]
) -> Batched:
    """Batches a closed graph, which reads no values of other graphs. The inputs flagged in `at` get a batch dimension.

    `forced` has an entry for each output. True forces a batch dimension, even if the output does not depend on batched
    inputs. False asserts that the output does not depend on them. None gives the output a batch dimension only if it
    depends on them.
    """
    key = graph, at, tuple(forced), request.size, request.rules
    return _BATCHED.get(request.view, key, lambda: _batch_graph(request, graph, at, forced))


def batch_closed(view: View, graph: Graph, at: Sequence[bool], size: int, *, opset: OpSet) -> Graph:
    """Batches a graph that reads no values of other graphs, for `size` values of the inputs flagged in `at`.

    Returns the new graph, in which each output has a batch dimension.
    """
    request = Request(view, size, opset, BATCHING)
    return _batched_graph(request, graph, tuple(at), [True] * len(graph.outputs)).graph


def _batch_graph(
    request: Request, graph: Graph, at: tuple[bool, ...], forced: Sequence[bool | None]
) -> Batched:
    b = private_builder(request.view, request.opset, f"{stem(graph)}.batch")
    b.engine = request.engine()
    values: dict[Value, Value] = {}
    plain: dict[Value, Value] = {}
    for i, (x, flag) in enumerate(zip(graph.inputs.values(), at, strict=True)):
        type_ = stacked(x.type, request.size) if flag else x.type
        (values if flag else plain)[x] = b.input(f"{b.graph.name}.{i}", type_)
    outputs = [y for y in graph.outputs if y is not None]
    order = request.view.schedule(outputs, graph.inputs.values())
    _batch_ops(request, b, order, values, plain, closed=True)
    given = tuple([flag or y in values for y, flag in zip(outputs, forced, strict=True)])
    assert all(flag is not False or not has for flag, has in zip(forced, given, strict=True))
    ends = [
        plain[y] if not flag else values[y] if y in values else spread(b, plain[y])
        for y, flag in zip(outputs, given, strict=True)
    ]
    return Batched(b.finish(ends), given)


# ---- one loop over the batch runs all ops ------------------------------------------------------------------


def reached_ops(order: Sequence[Definition], inputs: Collection[Value]) -> list[Definition]:
    """The ops in `order` that depend on one of the values `inputs`."""
    reached, values = [], set(inputs)
    for op in order:
        if not values.isdisjoint(op.operands) or not values.isdisjoint(op.captures):
            reached.append(op)
            values.update(op.results)
    return reached


def is_one_loop(request: Request, reached: Sequence[Definition]) -> bool:
    """Whether one loop over the batch should run all ops, because most have no rule, or a result cannot be batched.

    Returns False if a stateful op must not be batched. Also returns False if one of the ops reads or returns a loop's
    sequence of dynamic length, because a loop that runs all ops cannot read such a sequence.
    """
    opset, rules = request.opset, request.rules
    if any(op.name in opset.stateful and rules.forms.get(op.name) == "refused" for op in reached):
        return False
    if any(_is_dynamic_sequence(x) for op in reached for x in (*op.operands, *op.results)):
        return False
    if not all(can_be_stacked(y.type) for op in reached for y in op.results):
        return True
    without = sum(rules.rule(op, opset.key(op)) is mapped for op in reached if op.name != BINDING)
    return 2 * without > len(reached)


def _is_dynamic_sequence(x: Value) -> bool:
    return x.definition is not None and x.definition.name == LOOP and not can_be_stacked(x.type)


def in_one_loop(
    b: StablehloBuilder, reached: Sequence[Definition], outputs: Sequence[Value], values: dict[Value, Value]
) -> None:
    """Emits one loop over the batch that runs the ops `reached`. Adds the outputs that they compute to `values`."""
    given: dict[Value, tuple[Any, bool]] = {x: (v, True) for x, v in values.items()}
    b.location = reached[0].location  # errors about the loop have this location
    computed = {y for op in reached for y in op.results}
    for op in reached:
        for x in op.reads:
            if x not in computed:
                given.setdefault(x, (x, False))
    wanted = [y for y in dict.fromkeys(outputs) if y in computed]
    values.update(zip(wanted, in_loop(b, wanted, given), strict=True))
