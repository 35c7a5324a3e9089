"""A graph of one iteration of fused loops. `loops.py`, `segmented.py` and `checkpointed.py` build loops from it."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from tiduc.dialect.control.control import Loop
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.graph import Value
from tiduc.dialect.ops.control_ops import element_type
from tiduc.passes.engine.close import inline
from tiduc.passes.engine.recompute import induction_value
from tiduc.passes.structure.clusters import Cluster, MemberResult
from tiduc.passes.structure.scope import Scope, index_type
from tiduc.passes.structure.while_loops import Iteration, carries_read, read_entry


@dataclass
class ClusterIteration:
    """One iteration of a cluster of fused loops, as a graph under construction.

    The inputs are the `number` of the iteration, the `carries`, and values of the outer graph (`loop.outside`). `nexts`
    are the next carries, and `elements` the values that the iteration adds to sequences. `backwards` says whether the
    loop of a carry, or of a value that a member computes, runs backwards. `recomputed` holds values of other loops that
    this iteration has recomputed from residuals.
    """

    loop: Iteration
    number: Value
    carries: dict[MemberResult, Value] = field(default_factory=dict)
    nexts: dict[MemberResult, Value] = field(default_factory=dict)
    elements: dict[MemberResult, Value] = field(default_factory=dict)
    backwards: dict[Value, bool] = field(default_factory=dict)
    recomputed: dict[Any, dict[Value, Value]] = field(default_factory=dict)

    @property
    def b(self) -> Any:
        """The builder of the iteration."""
        return self.loop.b

    @property
    def inputs(self) -> list[Value]:
        """The inputs that stand for values of the outer graph."""
        return list(self.loop.outside.values())


@dataclass(frozen=True, eq=False)
class Residuals:
    """The residuals of a loop: arrays (stacks) of values, with one entry per iteration.

    From the entries of an iteration, other loops recompute the values `wanted` of that iteration.
    `starts` maps each induction variable of the step to its initial value in the outer graph, and to its increment.
    """

    step: ClusterIteration
    wanted: tuple[Value, ...]
    stacks: dict[Value, Value]
    starts: dict[Value, tuple[Value, int]]

    def element(self, reader: ClusterIteration, at: MemberResult) -> Value:
        """Emits the element of a sequence in iteration `reader.number` into `reader`, an iteration of another loop."""
        local = reader.recomputed.get(self)
        if local is None:
            stacks = {
                x: read_entry(reader.b, reader.loop.read(stack), reader.number)
                for x, stack in self.stacks.items()
            }
            local = reader.recomputed[self] = (
                self.free_inputs(reader.b, reader.number, reader.loop.read) | stacks
            )
            # Inlines the computation of all wanted values at once, not only of this one; dead ops are removed later.
            inline(reader.b, reader.b.view, self.wanted, local)
        return local[self.step.elements[at]]

    def free_inputs(
        self, b: StablehloBuilder, number: Value, read: Callable[[Value], Value]
    ) -> dict[Value, Value]:
        """The inputs of the iteration that need not be stored: outer values, its number, and induction variables."""
        local = {inner: read(x) for x, inner in self.step.loop.outside.items()} | {self.step.number: number}
        return local | {
            x: induction_value(b, read(start), by, number) for x, (start, by) in self.starts.items()
        }


def build_step(scope: Scope, cluster: Cluster) -> ClusterIteration:
    """Builds one iteration of a cluster's loop, preceded by the iterations of other loops that are recomputed for it.

    All these iterations have the same iteration number, even if their loops run in opposite directions.
    """
    loop = Iteration(scope)
    step, b = ClusterIteration(loop, loop.carry(index_type())), loop.b
    for member in scope.plan.members(cluster):
        record, first = member.record, len(b.graph.definitions)
        n, idle = len(record.inits), unchanged_carries(record)
        for i, x in enumerate(record.inits):
            if i not in idle:
                step.carries[member, i] = loop.carry(x.type)
                step.backwards[step.carries[member, i]] = record.reverse
        own = [
            loop.read(scope.local[x]) if i in idle else step.carries[member, i]
            for i, x in enumerate(record.inits)
        ]
        own += [_element(scope, step, x) for x in record.sequences]
        own += [loop.read(scope.local[x]) for x in record.invariants]
        for i, y in enumerate(scope.inlined(b, record.body, own)):
            if i not in idle:
                (step.nexts if i < n else step.elements)[member, i] = y
        for op in b.graph.definitions[first:]:
            step.backwards.update(dict.fromkeys(op.results, record.reverse))
    return step


def unchanged_carries(loop: Loop) -> set[int]:
    """The indices of loop-carried values that no iteration changes, such as the cotangent of a sum over iterations."""
    inputs = list(loop.body.inputs.values())[: len(loop.inits)]
    return {i for i, (x, y) in enumerate(zip(inputs, loop.body.outputs, strict=False)) if x is y}


def _element(scope: Scope, step: ClusterIteration, x: Value) -> Value:
    """The element of the sequence x for this iteration: computed in it, recomputed, or read from an array."""
    at = scope.plan.fusion.places.get(x)
    if at in step.elements:
        return step.elements[at]
    b = step.b
    if 0 in x.type.shape[1:]:  # a sequence of empty elements has only a length
        return b.zero(element_type(x.type))  # type: ignore[no-any-return]
    if at in scope.residuals:
        return scope.residuals[at].element(step, at)  # type: ignore[no-any-return]
    return read_entry(b, step.loop.read(scope.local[x]), step.number)


def state_of(
    scope: Scope, step: ClusterIteration, wanted: Sequence[Value], excluded: Collection[Value] = ()
) -> list[MemberResult]:
    """The loop-carried values, except `excluded`, on which `wanted` depends in this or through earlier iterations."""
    places = {x: at for at, x in step.carries.items() if x not in excluded}
    nexts = {x: step.nexts[at] for x, at in places.items()}
    return [places[x] for x in carries_read(scope, nexts, wanted)]


def own_places(
    scope: Scope,
    cluster: Cluster,
    step: ClusterIteration,
    more: Sequence[Value],
    excluded: Collection[Value] = (),
) -> list[MemberResult]:
    """The values that a cluster's loop must carry: those used after it, and those on which these or `more` depend.

    Includes values of loops that are recomputed in the same direction. Leaves out `excluded`.
    """
    used = [at for at in step.carries if cluster.is_used(at)]
    needed = state_of(scope, step, [*(step.nexts[at] for at in used), *more], excluded)
    return list(
        dict.fromkeys([*used, *(at for at in needed if at[0].record.reverse == cluster.leader.reverse)])
    )
