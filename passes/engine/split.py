"""split: linearizes the body of a call, branch or loop, and separates the linear graph from the primal values that it
reads.

@f: p2 = a*x; y = exp p2       linear: dx -> t1 = a*dx; t2 = y*t1        reads: a, an input; y, a residual
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod

from torch_mlir import ir

from tiduc.dialect.control.control import draws, is_control
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.graph import Definition, Graph, Value, stem
from tiduc.dialect.ops.control_ops import BOUND, CARRIES, LOOP, TRIP_COUNT
from tiduc.dialect.ops.verify import CHECKPOINT
from tiduc.dialect.shapes.types import is_dynamic
from tiduc.passes.engine.close import close
from tiduc.passes.engine.recompute import cheapest_residuals
from tiduc.passes.rules.lent import Hoisted
from tiduc.passes.rules.registry import OpSet

BARRIER = "stablehlo.optimization_barrier"
MOST_CARRIED = 1024
"""The largest number of residuals that a called graph gets from the graphs it calls and passes on to its own caller.

If each graph calls the next one twice, the number of residuals doubles from callee to caller. Beyond this bound, the
linear graph reruns the primal graph, so that the size of a derivative grows with the number of call sites instead of
the number of call paths.
"""


@dataclass(frozen=True)
class LinearSplit:
    """The linear graph of a graph `primal`, and the primal values that its linear ops read.

    `tangents` are the tangents of the active inputs. `outputs` are the tangents of the outputs; None if inactive.
    There are three kinds of primal values that linear ops read:
    - `inputs` of the primal graph;
    - `residuals`, which the primal graph must return;
    - `invariant` values of a loop's body, which are equal in all iterations.

    The `level` of a primal value is 0 if it is computed from constants, 1 if it is a loop invariant, and 2 if it varies
    between iterations.
    """

    primal: Graph
    tangents: tuple[Value, ...]
    outputs: tuple[Value | None, ...]
    inputs: tuple[Value, ...]
    invariant: tuple[Value, ...]
    residuals: tuple[Value, ...]
    linear: Graph
    level: dict[Value, int]
    opset: OpSet

    def fewest(self, b: StablehloBuilder, given: Sequence[Value]) -> "LinearSplit":
        """A copy whose residuals take the fewest bytes. Cheap ops recompute the other values.

        Recomputing ops may read `inputs` and the values `given`. The values of `given` that they read become residuals.
        If more than `MOST_CARRIED` residuals are results of calls, branches and loops, all values are recomputed from
        the graph's inputs and `given`, unless the graph draws random numbers.
        """
        free = dict.fromkeys([*self.inputs, *given])
        kept = set(cheapest_residuals(self.residuals, free))
        carried = sum(x.definition is not None and is_control(x.definition) for x in kept)
        if carried > MOST_CARRIED and not draws(b.view, self.primal):
            kept, free = set(), dict.fromkeys([*self.primal.inputs.values(), *given])
        order = b.view.schedule(self.residuals, [*free, *kept])
        read = dict.fromkeys([*self.residuals, *(x for op in order for x in op.reads)])
        needed = [x for x in read if x in kept or x in free]
        inputs = {*self.inputs, *(x for x in needed if x.definition is None)}
        return replace(
            self,
            inputs=tuple([x for x in self.primal.inputs.values() if x in inputs]),
            residuals=tuple([x for x in needed if x.definition is not None]),
        )

    @property
    def dynamic_inputs(self) -> list[Value]:
        """The active inputs of dynamic shape. A transposed graph reads their dimensions."""
        primals = [self.linear.primal_of(t) for t in self.tangents if is_dynamic(t.type)]
        return [x for x in primals if x is not None]

    def extended(self, b: StablehloBuilder, more: Sequence[Value | ir.Type]) -> Graph:
        """The primal graph with the further outputs `more`. A type in `more` stands for an output of zeros."""
        if not more:
            return self.primal
        inputs, name = list(self.primal.inputs.values()), f"{stem(self.primal)}.primal"
        outputs = [y for y in self.primal.outputs if y is not None]
        graph = close(b.view, [*outputs, *more], inputs, self.opset, self.primal.keys, name)
        graph.extends = self.primal
        return graph

    def hoisted(self, b: StablehloBuilder, count: int) -> Hoisted:
        """The loop-invariant linear ops to hoist, and the invariant tangents that the remaining ops read.

        The tangents of the last `count` active inputs are loop invariants. An op whose result is larger than its active
        operands is not hoisted.
        """
        fixed = set(self.tangents[len(self.tangents) - count :])
        ops: list[Definition] = []
        read = dict.fromkeys(y for y in self.outputs if y is not None)
        for op in b.view.schedule(list(read)):
            if op.graph is not self.linear or op.active is None:
                continue
            flags = list(zip(op.operands, op.active, strict=True))
            is_fixed = all(x in fixed if flag else self.level.get(x, 2) < 2 for x, flag in flags)
            if is_fixed and not op.captures and not is_control(op) and _is_smaller(op):
                ops.append(op)
                fixed.update(op.results)
            else:
                read.update(dict.fromkeys(x for x, flag in flags if flag))
        return Hoisted(ops, [x for x in read if x in fixed])

    def closed(self, b: StablehloBuilder, wanted: Sequence[Value | ir.Type], given: Sequence[Value]) -> Graph:
        """The closed linear graph that computes `wanted` from `given`. A type in `wanted` means an output of zeros.

        If `given` has a tangent and also its primal value, the tangent takes its dynamic dimensions from that value.
        Removes `linear` from the view.
        """
        graph = close(b.view, wanted, given, self.opset, name=f"{stem(self.primal)}.jvp")
        inside = dict(zip(given, graph.inputs.values(), strict=True))
        primals = [self.linear.primal_of(x) for x in given]
        graph.input_of = tuple([inside.get(x) if x is not None else None for x in primals])
        if self.linear.name in b.view.graphs:
            b.view.discard(self.linear)
        return graph


def split(
    b: StablehloBuilder,
    opset: OpSet,
    linearize: Callable[..., Graph],
    graph: Graph,
    active: Sequence[bool],
    varying: int | None = None,
) -> LinearSplit:
    """Linearizes a closed graph with respect to its active inputs, and finds the primal values that linear ops read.

    If `varying` is given, the graph is a loop's body, and its inputs with an index of at least `varying` are
    invariants.
    """
    values = [y for y in graph.outputs if y is not None]
    distinct = dict.fromkeys(y for y in values if b.tangent_type(y.type) is not None)
    wrt = [key for key, flag in zip(graph.keys, active, strict=True) if flag]
    linear = linearize(b.view, list(distinct), wrt, opset)
    tangent = dict(zip(distinct, linear.outputs, strict=True))
    outputs = tuple([tangent.get(y) for y in values])
    order = b.view.schedule([y for y in outputs if y is not None])
    inputs = list(graph.inputs.values())
    is_linear = [op.graph is linear and op.active is not None for op in order]
    primal = [op for op, flag in zip(order, is_linear, strict=True) if not flag]
    level = _levels(opset, primal, dict.fromkeys(inputs[varying:] if varying is not None else (), 1))
    recomputed = _computed_from_barriers(opset, primal, level)
    unbounded = _unbounded_sequences(primal)
    read: dict[Value, None] = {}
    stack = [x for op, flag in zip(order, is_linear, strict=True) if flag for x in _read_by(op)][::-1]
    while stack:
        x = stack.pop()
        op = x.definition
        if not level.get(x, 2) or x in read:
            continue
        if op is None or not (x in recomputed or x in unbounded):
            read[x] = None
        elif (
            x in recomputed and op.name == BARRIER
        ):  # the linear graph repeats the barrier, so it reads the barrier's operands
            stack += (y for y in op.reads if y in unbounded)
            read |= dict.fromkeys(y for y in op.reads if y not in unbounded and level.get(y, 2))
        else:
            stack += op.reads
    kept = [x for x in read if x.definition is not None]
    of_inputs = {x for x in read if x.definition is None}
    return LinearSplit(
        graph,
        tuple(linear.inputs.values()),
        outputs,
        tuple([x for x in inputs if x in of_inputs]),
        tuple([x for x in kept if level[x] == 1]),
        tuple([x for x in kept if level[x] == 2]),
        linear,
        level,
        opset,
    )


def _levels(opset: OpSet, primal: Sequence[Definition], level: dict[Value, int]) -> dict[Value, int]:
    """The level of each value: 0 if it is computed from constants, 1 if from loop invariants, else 2."""
    for op in primal:
        of_operands = max([level.get(x, 2) for x in op.reads], default=0)
        for y in op.results:
            level[y] = 2 if op.name in opset.stateful else of_operands
    return level


def _computed_from_barriers(
    opset: OpSet, primal: Sequence[Definition], level: dict[Value, int]
) -> set[Value]:
    """The varying values (of level 2) to recompute rather than store.

    These are the values that are computed from results of optimization barriers, because `jax.checkpoint` (remat)
    places barriers for this purpose. Values in functions with `tidu.checkpoint` are recomputed, too, but not the values
    that are computed from them.
    """
    recomputed: set[Value] = set()
    checkpointed: set[Value] = set()
    for op in primal:
        if op.name == BARRIER or (op.name not in opset.stateful and not recomputed.isdisjoint(op.reads)):
            recomputed.update(y for y in op.results if level[y] == 2)
        elif CHECKPOINT in op.attributes and op.name not in opset.stateful and not is_control(op):
            checkpointed.update(y for y in op.results if level[y] == 2)
    return recomputed | checkpointed


def _read_by(op: Definition) -> list[Value]:
    """The primal values that a linear op reads."""
    assert op.active is not None
    return [x for x, active in zip(op.operands, op.active, strict=True) if not active] + list(op.captures)


def _is_smaller(op: Definition) -> bool:
    """Whether all results together have at most as many elements as the largest active operand.

    False if a result or an active operand has a dynamic shape.
    """
    types = (
        [y.type for y in op.results],
        [x.type for x, flag in zip(op.operands, op.active or (), strict=True) if flag],
    )
    if any(is_dynamic(type_) for side in types for type_ in side):
        return False
    results, read = ([prod(type_.shape) for type_ in side] for side in types)
    return bool(sum(results) <= max(read))


def _unbounded_sequences(primal: Sequence[Definition]) -> set[Value]:
    """The sequences that loops of unknown trip count return, and the values that are computed from these sequences.

    They cannot be residuals, because their number of elements is unknown outside the graph. It is unknown even if the
    trip count has a known upper bound.
    """
    unbounded: set[Value] = set()
    for op in primal:
        if op.name == LOOP:
            is_bounded = BOUND in op.attributes and TRIP_COUNT not in op.attributes
            sequences = op.results[op.attributes[CARRIES].value :]
            unbounded.update(y for y in sequences if is_bounded or not y.type.has_static_shape)
        elif not is_control(op) and not unbounded.isdisjoint(op.operands):
            unbounded.update(op.results)
    return unbounded
