"""cut: splits a linear graph at some values into two linear graphs, which can be transposed or batched separately.

    L0: dx = input            cut at h       C0: dx = input          C1: dh = input
        dh = mul a, dx           ->              dh = mul a, dx          dy = mul b, dh
        dy = mul b, dh

The composition of the two graphs, C1 C0, is the map of the whole graph. If h has few elements, reverse mode computes
the Jacobian of C0 with few seeds, and forward mode that of C1. The Jacobian of the whole graph is the product of the
two. Applying the chain rule in such an order is called cross-country elimination. The new graphs refer to the primal
values by which linear ops multiply, instead of copying them.

Source: Griewank, Walther, "Evaluating Derivatives" (2008), chapter 10.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch_mlir import ir

from tiduc.dialect.errors import RequestError
from tiduc.dialect.facts.costs import seconds, size
from tiduc.dialect.facts.rates import rates
from tiduc.dialect.graph.flow import UNLIMITED, minimum_cut
from tiduc.dialect.graph.graph import Definition, Graph, Value
from tiduc.dialect.graph.view import View
from tiduc.dialect.mlir.context import stage
from tiduc.dialect.shapes.types import is_float
from tiduc.passes.rules.registry import OpSet


@stage
def cut(view: View, linear: Graph, at: Sequence[Value], opset: OpSet) -> tuple[Graph, Graph]:
    """Splits a linear graph at the tangents of the primal values `at`, into two linear graphs.

    The first graph maps the inputs of `linear` to these tangents, and the second maps these tangents to the outputs.
    `at` are primal values, or references to them. The second graph has one input for each of them, in order. Raises
    `RequestError` if a value has no tangent in the graph, if two values share a tangent, or if an output depends on an
    input by a path that avoids the values `at`.
    """
    values, tangents = view.values(at), list[Value]()
    for x in values:
        if x not in linear.tangent_of:
            raise RequestError(
                f"the cut lists {view.reference(x)}, which has no tangent in graph @{linear.name}"
            )
        if linear.tangent_of[x] in tangents:
            raise RequestError(f"the cut lists {view.reference(x)}, or a value with the same tangent, twice")
        tangents.append(linear.tangent_of[x])
    inputs = list(linear.inputs.values())
    first = _part(view, linear, opset, dict(zip(inputs, linear.input_of, strict=True)), tangents, values)
    outputs, primals = linear.outputs, linear.output_of
    second = _part(view, linear, opset, dict(zip(tangents, values, strict=True)), outputs, primals)
    return first, second


def _part(
    view: View,
    linear: Graph,
    opset: OpSet,
    given: Mapping[Value, Value],
    wanted: Sequence[Value | None],
    primals: Sequence[Value],
) -> Graph:
    """Builds the linear graph that computes the tangents `wanted` from the tangents `given`, by the ops of `linear`.

    `given` maps each tangent to its primal value. `primals` are the primal values of `wanted`.
    """
    b: Any = opset.builder(view, view.fresh("C"))
    local = {
        t: b.input(f"{b.graph.name}.{i}", t.type, linear=True) for i, t in enumerate(dict.fromkeys(given))
    }
    for op in active_ops(view, linear, [y for y in wanted if y is not None and y not in given], given):
        assert op.active is not None
        replaced = {}
        for i, (x, flag) in enumerate(zip(op.operands, op.active, strict=True)):
            if flag and x not in local:
                raise RequestError(
                    f"graph @{linear.name} has a path from inputs to outputs that avoids the cut"
                )
            if flag:
                replaced[i] = local[x]
        b.location = op.location
        local.update(zip(op.results, b.reapply(op, replaced), strict=True))
    outputs = [None if y is None else local.get(y) for y in wanted]
    if any(y is not None and z is None for y, z in zip(wanted, outputs, strict=True)):
        raise RequestError(f"graph @{linear.name} has a path from inputs to outputs that avoids the cut")
    graph: Graph = b.finish_linear(outputs, [given[t] for t in local if t in given], primals)
    return graph


def active_ops(
    view: View, linear: Graph, wanted: Sequence[Value], given: Mapping[Value, object] | Sequence[Value] = ()
) -> list[Definition]:
    """The linear ops of a graph, in order, that compute the tangents `wanted` from `given`."""
    order = view.schedule(wanted, given)
    return [op for op in order if op.graph is linear and op.active is not None]


# ---- these functions estimate whether a cut pays off -------------------------------------------------------------


@dataclass(frozen=True)
class CutPlan:
    """Estimated seconds of a whole Jacobian: by forward mode, by reverse mode, and through a cut at the values `at`.

    `at` is empty, and `through` infinite, if no nonempty values of static shape separate the inputs from the outputs.
    """

    forward: float
    reverse: float
    through: float
    at: Sequence[Value]

    @property
    def cheapest(self) -> str:
        """Returns "cut" if a cut takes at most `_WORTH` of the faster mode's time, else "forward" or "reverse"."""
        best = min(self.forward, self.reverse)
        if self.through <= _WORTH * best:
            return "cut"
        return "forward" if self.forward <= self.reverse else "reverse"


def plan(
    view: View,
    linear: Graph,
    inputs: Sequence[tuple[Value, float]],
    outputs: Sequence[tuple[Value | None, float]],
) -> CutPlan:
    """Estimates the time of a linear graph's Jacobian by each mode. `inputs` and `outputs` are pairs of a value and its
    number of seeds.

    The time of a mode is the sum, over linear ops, of the op's time (`dialect/facts/costs.py`) times the number of
    seeds that reach the op. With a cut, each of the two graphs runs for one seed per element of the values at the cut,
    and the time to multiply the two Jacobians is added.
    """
    wanted = [dy for dy in linear.outputs if dy is not None]
    ops = active_ops(view, linear, wanted)
    times = [seconds(op) for op in ops]
    by_forward = _time(times, _seeds_before(ops, inputs))
    by_reverse = _time(times, _seeds_after(ops, outputs))
    at = bottleneck(view, linear, _elements, wanted)
    count = sum(map(size, at))
    if not count or any(_elements(x) == UNLIMITED for x in at):
        return CutPlan(by_forward, by_reverse, math.inf, ())
    tangents = [linear.tangent_of[x] for x in at]
    both = active_ops(view, linear, tangents) + active_ops(view, linear, wanted, tangents)
    sizes = [[size(t) for t in side] for side in (linear.inputs.values(), wanted)]
    product = 2 * count * sum(sizes[0]) * sum(sizes[1]) / rates().flops
    read = 8 * count * (sum(sizes[0]) + sum(sizes[1])) / rates().bytes
    through = count * sum(map(seconds, both)) + max(product, read)
    return CutPlan(by_forward, by_reverse, through, at)


_WORTH = 0.8
"""A cut is used only if its estimated time is at most this fraction of the faster mode's time."""


def _elements(x: Value) -> int:
    """The number of elements of a value; `UNLIMITED` if it is not a tensor of real floats with a static shape."""
    is_real = isinstance(x.type, ir.RankedTensorType) and x.type.has_static_shape and is_float(x.type)
    return size(x) if is_real else UNLIMITED


def _time(times: Iterable[float], seeds: Iterable[float]) -> float:
    return sum(time * count for time, count in zip(times, seeds, strict=True))


def _seeds_before(ops: Sequence[Definition], inputs: Sequence[tuple[Value, float]]) -> list[float]:
    """For each linear op, the number of seeds of the inputs on which it depends."""
    reached: dict[Value | None, int] = {dx: 1 << i for i, (dx, _) in enumerate(inputs)}
    masks = []
    for op in ops:
        mask = _union(reached.get(x, 0) for x in op.operands)
        reached.update(dict.fromkeys(op.results, mask))
        masks.append(mask)
    return _totals(masks, [count for _, count in inputs])


def _seeds_after(ops: Sequence[Definition], outputs: Sequence[tuple[Value | None, float]]) -> list[float]:
    """For each linear op, the number of seeds of the outputs that depend on it."""
    reaching: dict[Value | None, int] = {}
    for i, (dy, _) in enumerate(outputs):
        reaching[dy] = reaching.get(dy, 0) | 1 << i
    masks = []
    for op in reversed(ops):
        mask = _union(reaching.get(y, 0) for y in op.results)
        for x in op.operands:
            reaching[x] = reaching.get(x, 0) | mask
        masks.append(mask)
    return _totals(masks[::-1], [count for _, count in outputs])


def _union(masks: Iterable[int]) -> int:
    result = 0
    for mask in masks:
        result |= mask
    return result


def _totals(masks: Sequence[int], counts: Sequence[float]) -> list[float]:
    totals = {
        mask: sum(count for i, count in enumerate(counts) if mask >> i & 1) for mask in dict.fromkeys(masks)
    }
    return [totals[mask] for mask in masks]


def bottleneck(
    view: View, linear: Graph, capacity: Callable[[Value], int], wanted: Sequence[Value]
) -> list[Value]:
    """Returns the primal values at which `cut` should split a linear graph.

    Their tangents separate the graph's inputs from `wanted`, and have the least total capacity among all such tangents.
    A tangent without a primal value, such as a partial sum, is never chosen.
    """
    primal = {t: x for x, t in linear.tangent_of.items()}
    before: dict[Value, list[Value]] = {t: [] for t in linear.inputs.values()}
    for op in active_ops(view, linear, wanted):
        assert op.active is not None
        reads = [x for x, flag in zip(op.operands, op.active, strict=True) if flag]
        before.update((y, list(dict.fromkeys(reads))) for y in op.results)
    tangents = minimum_cut(before, lambda t: capacity(t) if t in primal else UNLIMITED, wanted)
    return [primal[t] for t in tangents]
