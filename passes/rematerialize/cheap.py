"""cheap: recomputes values whose recomputation takes almost no time, with or without a memory budget.

    e = exp s; p = e / r | ct ... reads e and p       ->      e = exp s; p = e / r | ct ... p' = e / r

A value that is live at the peak is recomputed for its readers after the peak under two conditions: cheap ops compute it
from values that stay in memory anyway, and all these readers are elementwise ops or reductions. Compilers fuse the
recomputed op with such a reader. The values to keep are a minimum cut (`engine/recompute.py`).
"""

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cache, cached_property

from tiduc.dialect.facts.costs import computed
from tiduc.dialect.facts.rates import rates
from tiduc.dialect.graph.flow import minimum_cut
from tiduc.dialect.graph.graph import Definition, Graph, Value
from tiduc.dialect.ops.traits import CHEAP, DOUBLE, ELEMENTWISE, VECTORIZED
from tiduc.passes.engine.recompute import capacity
from tiduc.passes.rematerialize.liveness import Liveness
from tiduc.passes.rematerialize.order import ordered
from tiduc.passes.rematerialize.recompute import can_rerun
from tiduc.passes.rematerialize.second_runs import RerunSchedule, evicting, unchanged

_RECOMPUTED = CHEAP | VECTORIZED
"""The names of ops that may be recomputed. For example, a GELU keeps only its argument, and recomputes `erf` of it."""

_SHARE = 0.02
"""The largest share of a graph's estimated time that recomputation may take."""

_LARGE = 2**20
_SHARE_OF_SMALL = 0.015
"""Replaces `_SHARE` for graphs whose peak, without arguments and results, is at most `_LARGE` bytes.

The share is smaller because such graphs fit into caches, and an additional dispatch takes longer than estimated.
"""

SMALL = 2**16
"""Graphs whose peak, without arguments and results, is at most this many bytes recompute nothing."""

_RATES = 1e9, 3.2e10
"""The lowest and the highest price of a second of recomputation, in bytes. `_STEPS` prices between them are tried."""
_STEPS = 4

_GAIN = 0.95
"""Values are recomputed only if the peak, without arguments and results, falls to this share or less."""


def cheaper(graph: Graph, model: Liveness, seconds: Callable[[], float], stored: bool) -> Liveness:
    """Returns the schedule in which readers after the peak recompute cheap values, or `model` if the gain is too small.

    `seconds` estimates the time of the graph. `stored` says whether the results of all second runs take memory.
    """
    base = unchanged(model)
    transient = base.peak - model.throughout
    if transient <= SMALL:
        return model
    share = _SHARE if transient > _LARGE else _SHARE_OF_SMALL
    peak = _before_fused(model, int(model.live(range(len(model.ops))).argmax()))
    fused, best = _fuse_operands(model, peak), base

    @cache
    def limit() -> float:
        return share * seconds()

    @cache
    def costs() -> dict[Definition, float]:
        return _seconds_of_second_runs(model, peak, fused)

    @cache
    def recomputing(evicted: frozenset[int]) -> RerunSchedule:
        if not evicted:
            return base
        recomputed = evicting(base, peak, dict.fromkeys(evicted, (0, peak)), stored).model
        return unchanged(ordered(recomputed, has_budget=True))

    for readers in (fused, range(len(model.ops))):
        candidates = _Candidates(graph, model, peak, readers, costs, recomputing)
        choice = candidates.within_time(limit)
        if choice.peak - model.throughout <= _GAIN * (best.peak - model.throughout):
            best = choice
    return best.model


def _before_fused(model: Liveness, peak: int) -> int:
    """Returns the place of the last op up to the peak that is neither virtual (`liveness.py`) nor elementwise, or 0.

    The elementwise ops after this place are fused, so they can recompute their operands, too.
    """
    while peak > 0 and (not model.size[peak] or model.ops[peak].name in ELEMENTWISE):
        peak -= 1
    return peak


def _seconds_of_second_runs(model: Liveness, peak: int, fused: Collection[int]) -> dict[Definition, float]:
    """The estimated time of a second run of each op: of its transcendental functions, and of the bytes that it moves.

    A reader in `fused` reads the op's operands instead of its result. For any other reader, the result is stored.
    """
    rate, costs = rates(), dict[Definition, float]()
    stored = {j for i in range(peak + 1, len(model.ops)) if i not in fused for j in model.reads[i]}
    for i, op in enumerate(model.ops):
        functions, _ = computed(op) or (0, 0)
        read = sum(model.size[j] for j in model.reads[i])
        moved = read + model.size[i] if i in stored else max(0, read - model.size[i])
        costs[op] = (1 + (op.name in DOUBLE)) * functions / rate.functions + moved / rate.bytes
    return costs


@dataclass(frozen=True)
class _Candidates:
    """The values up to the place `peak` that later readers may recompute, and the time of a second run of each op.

    `recomputing` maps a set of ops to the schedule that recomputes their results. `costs` is a function, because costs
    take longer to compute than most schedules, and are often not needed.
    """

    graph: Graph
    model: Liveness
    peak: int
    readers: Collection[int]
    costs: Callable[[], Mapping[Definition, float]]
    recomputing: Callable[[frozenset[int]], RerunSchedule]

    def within_time(self, seconds: Callable[[], float]) -> RerunSchedule:
        """Returns the schedule that recomputes the most values found for a time of at most `seconds()`."""
        best = self._recomputing(0.0)
        if best.model is self.model or self._time(best.model) <= seconds():
            return best
        best, (low, high) = unchanged(self.model), _RATES
        for _ in range(_STEPS):
            rate = math.sqrt(low * high)
            choice = self._recomputing(rate)
            if self._time(choice.model) <= seconds():
                best, high = choice, rate
            else:
                low = rate
        return best

    def _recomputing(self, rate: float) -> RerunSchedule:
        """Returns the schedule with the fewest kept bytes, where a second of recomputation counts as `rate` bytes."""
        return self.recomputing(frozenset(self._evicted(rate)))

    def _time(self, model: Liveness) -> float:
        """The estimated time of second runs."""
        seen, time, costs = set[Definition](), 0.0, self.costs()
        for op in model.ops:
            time += costs[op] if op in seen else 0
            seen.add(op)
        return time

    def _evicted(self, rate: float) -> set[int]:
        """The ops, by number, whose results are recomputed if a second of recomputation counts as `rate` bytes."""
        ops, number = self.model.ops, self._number

        def price(x: Value) -> int:
            return int(rate * self.costs()[ops[number[x]]])

        def bytes_(x: Value) -> int:
            return 0 if x in self._kept else capacity(x)

        cut = minimum_cut(self._before, bytes_, self._wanted, price if rate else None)
        kept = self._kept.union(cut)
        evicted: set[int] = set()
        stack = [x for x in self._wanted if x not in kept]
        while stack:
            x = stack.pop()
            place = number.get(x)
            if place is not None and place not in evicted and x not in kept and can_rerun(ops[place]):
                evicted.add(place)
                stack += ops[place].operands
        return evicted

    @cached_property
    def _number(self) -> dict[Value, int]:
        """Maps the results of ops up to the peak to the places of these ops in the schedule."""
        return {y: i for i, op in enumerate(self.model.ops[: self.peak + 1]) for y in op.results}

    @cached_property
    def _wanted(self) -> dict[Value, None]:
        """The results of ops up to the peak that ops after the peak read."""
        later = self.model.ops[self.peak + 1 :]
        return dict.fromkeys(x for op in later for x in op.reads if x in self._number)

    @cached_property
    def _kept(self) -> frozenset[Value]:
        """The values that are not recomputed.

        These are inputs, outputs, results of ops without operands, values tested for equality, and the operands of ops
        after the peak that are not in `readers`.
        """
        kept = {*self.graph.inputs.values(), *(y for y in self.graph.outputs if y is not None)}
        for i, op in enumerate(self.model.ops):
            if i <= self.peak:
                kept.update(() if op.operands and i not in self.model.compared else op.results)
            elif i not in self.readers:
                kept.update(op.reads)
        return frozenset(kept)

    @cached_property
    def _before(self) -> dict[Value, tuple[Value, ...]]:
        """Maps each value to the operands of the cheap op that recomputes it, or to () if no cheap op does.

        The keys are the wanted values, and the values from which they can be recomputed. The operands are those of the
        op in the schedule, because they may differ from those of `x.definition` (`Definition.reading`).
        """
        before: dict[Value, tuple[Value, ...]] = {}
        stack = list(self._wanted)
        while stack:
            x = stack.pop()
            if x in before:
                continue
            op = self.model.ops[self._number[x]] if x in self._number and x not in self._kept else None
            is_cheap = op is not None and op.name in _RECOMPUTED and not op.captures
            before[x] = op.operands if op is not None and is_cheap else ()
            stack += before[x]
        return before


def _fuse_operands(model: Liveness, peak: int) -> set[int]:
    """Returns the ops after the peak that compilers fuse with the ops that recompute their operands."""
    readers: dict[int, list[int]] = {}
    fuses: set[int] = set()
    for i in reversed(range(peak + 1, len(model.ops))):
        name = model.ops[i].name
        is_renaming = not model.size[i] and name not in ELEMENTWISE
        if (
            name in ELEMENTWISE
            or name == "stablehlo.reduce"
            or (is_renaming and fuses.issuperset(readers.get(i, ())))
        ):
            fuses.add(i)
        for j in model.needs[i]:
            readers.setdefault(j, []).append(i)
    return fuses
