"""cheap: recomputes values that cost almost nothing; needs no budget.

    e = exp s; p = e / r | ct ... reads e and p       ->      e = exp s; p = e / r | ct ... p' = e / r

A value that is live at the peak is recomputed for its readers after the peak if cheap ops compute it from values that
are kept in any case, and if all these readers are elementwise ops or reductions. Compilers fuse the recomputed op with
its reader. The values to keep are a minimum cut (`engine/recompute.py`).
"""

from tiduc.dialect.graph import Graph, Value
from tiduc.dialect.traits import CHEAP, ELEMENTWISE, VECTORIZED
from tiduc.passes.engine.recompute import cheapest_residuals
from tiduc.passes.rematerialize.liveness import Liveness
from tiduc.passes.rematerialize.order import SMALL
from tiduc.passes.rematerialize.recompute import can_rerun, evicting, unchanged

_RECOMPUTED = CHEAP | VECTORIZED
"""The ops that readers recompute. A GELU needs its argument only, and not `erf` of the argument as well."""

_GAIN = 0.95
"""Values are recomputed only if the peak, without arguments and results, falls to this share or less."""


def cheaper(graph: Graph, model: Liveness) -> Liveness:
    """The schedule in which readers after the peak recompute cheap values; `model` if the gain is too small."""
    base = unchanged(model)
    if base.peak - model.throughout <= SMALL:
        return model
    peak = int(model.live(range(len(model.ops))).argmax())
    choice = evicting(base, peak, _evicted(graph, model, peak))
    if choice.peak - model.throughout > _GAIN * (base.peak - model.throughout):
        return model
    return choice.model


def _evicted(graph: Graph, model: Liveness, peak: int) -> set[int]:
    """The ops up to the place `peak` that readers after it recompute."""
    number = {y: i for i, op in enumerate(model.ops[: peak + 1]) for y in op.results}
    definitions = {y: op for op in model.ops for y in op.results}
    fuses = _fuse_operands(model, peak)
    kept = {*graph.inputs.values(), *(y for y in graph.outputs if y is not None)}
    wanted: dict[Value, None] = {}
    for i in range(peak + 1, len(model.ops)):
        op = model.ops[i]
        wanted.update((x, None) for x in op.reads if x in number)
        if i not in fuses:
            kept.update(op.reads)
    recomputed = [x for x in wanted if x not in kept]
    kept.update(cheapest_residuals(recomputed, kept, _RECOMPUTED, definitions.get))
    evicted: set[int] = set()
    stack = [x for x in wanted if x not in kept]
    while stack:
        x = stack.pop()
        place = number.get(x)
        if place is not None and place not in evicted and x not in kept and can_rerun(model.ops[place]):
            evicted.add(place)
            stack += model.ops[place].operands
    return evicted


def _fuse_operands(model: Liveness, peak: int) -> set[int]:
    """The ops after the peak with which compilers fuse the ops of their operands, directly or through renaming ops."""
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
