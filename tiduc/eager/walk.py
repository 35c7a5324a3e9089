"""backward: walks a trace from its outputs to its leaves, in two parts.

    plan    lists the traces in reverse order of execution, each with its outputs that have cotangents, and a transpose
    run     runs each transpose on its residuals and cotangents; adds cotangents of a value that is read several times

The plan reads no arrays. An op without a rule therefore raises an error before anything runs, and an executor that
compiles can compile all graphs together. Both parts are loops that take linear time in the length of the trace.

Source: Griewank, Walther, "Evaluating Derivatives" (2008), section 3.2.
"""

from collections.abc import Collection, Container, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from tiduc.dialect.errors import RequestError
from tiduc.eager.executors import Compiling, Executor
from tiduc.eager.graphs import Data, RecordedGraph, TransposedLinear
from tiduc.eager.joined import Arithmetic, Joined
from tiduc.eager.record import EagerInput, EagerOutput, Recorder, Trace
from tiduc.runtime.signature import TensorType

Root = EagerInput | EagerOutput
Cotangent = TypeVar("Cotangent")


def backward(
    outputs: Sequence[Root],
    seeds: Sequence[Data],
    executor: Executor,
    *,
    retain: bool = False,
    wanted: Collection[Hashable] | None = None,
    intermediates: Container[Hashable] = (),
) -> dict[Hashable, Data]:
    """The cotangents, by key, of the leaves on which the outputs depend. `seeds` are the cotangents of the outputs.

    Cotangents of values whose keys are in `intermediates` are returned as well. With `wanted`, the result has only the
    cotangents of these keys, and their values need not be leaves. If a requested value is an input of a trace but its
    cotangent is zero, the result has an array of zeros. Traces are released unless `retain` is set. Raises
    `RequestError` if an output depends on nothing that requires grad, or if a trace was released. Raises `Unsupported`
    if an op has no rule. After an error, no trace is released.
    """
    _check(outputs, seeds)
    plan = _Plan(outputs, _asked(wanted, intermediates), recorded=False)
    by_key = _run_joined(plan, outputs, seeds, executor)
    if by_key is None:
        _prepare(plan, executor)
        by_key = _run(plan, outputs, seeds, _Plain(executor))
    for step in plan.steps:
        if not retain:
            step.trace.release()
    for key, type_ in plan.types.items():
        if key not in by_key:
            by_key[key] = np.zeros(type_.shape, type_.dtype)
    return by_key


def recorded_backward(
    outputs: Sequence[Root],
    seeds: Sequence[EagerInput],
    executor: Executor,
    recorder: Recorder,
    *,
    wanted: Collection[Hashable] | None = None,
    intermediates: Container[Hashable] = (),
) -> dict[Hashable, EagerInput]:
    """Like `backward`, but records the ops of the reverse pass, so that its results can be differentiated.

    It does not release traces.
    """
    _check(outputs, [seed.data for seed in seeds])
    plan = _Plan(outputs, _asked(wanted, intermediates), recorded=True)
    _prepare(plan, executor)
    by_key = _run(plan, outputs, seeds, _Recorded(executor, recorder))
    for key, type_ in plan.types.items():
        if key not in by_key:
            by_key[key] = EagerInput(recorder.key_source.fresh(), np.zeros(type_.shape, type_.dtype))
    return by_key


def _check(outputs: Sequence[Root], seeds: Sequence[Data]) -> None:
    """Raises `RequestError` if seeds do not match the outputs, or if an output does not require grad."""
    if len(outputs) != len(seeds):
        raise RequestError(f"{len(outputs)} outputs need as many seeds, got {len(seeds)}")
    for i, (root, seed) in enumerate(zip(outputs, seeds, strict=True)):
        if not root.requires_grad:
            raise RequestError(f"output {i} depends on nothing that requires grad")
        if root.trace is not None and not root.trace.released:
            type_ = root.trace.graph.output_types[root.trace.keys.index(root.key)]
            given = TensorType.of(np.asarray(seed))
            if given != type_:
                raise RequestError(f"the seed of output {i} is {given}, expects {type_}")


# ---- the plan ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Asked:
    """A predicate on the key of a value: whether the caller requests the cotangent of the value."""

    wanted: Collection[Hashable] | None
    intermediates: Container[Hashable]

    def __call__(self, key: Hashable, is_leaf: bool) -> bool:
        if self.wanted is not None:
            return key in self.wanted
        return is_leaf or key in self.intermediates


def _asked(wanted: Collection[Hashable] | None, intermediates: Container[Hashable]) -> _Asked:
    return _Asked(None if wanted is None else set(wanted), intermediates)


@dataclass(eq=False, slots=True)
class _Step:
    """The transpose of one trace. The trace's outputs at `slots` have cotangents."""

    trace: Trace
    slots: tuple[int, ...]
    linear: TransposedLinear


class _Plan:
    """The transposes that `backward` runs, in order.

    `requested` has the keys of the values whose cotangents are returned. `types` maps those of these keys that belong
    to inputs of traces to the types of the inputs.
    """

    def __init__(self, outputs: Sequence[Root], asked: _Asked, recorded: bool) -> None:
        self.asked = asked
        self.types: dict[Hashable, Any] = {}
        self.steps: list[_Step] = []
        order = _sorted([root.trace for root in outputs if root.trace is not None])
        wrt = self._leading(order)
        self.requested = {
            root.key for root in outputs if asked(root.key, root.trace is None)
        } | self.types.keys()
        reached = {root.key for root in outputs}
        for trace in reversed(order):
            slots = tuple([i for i, key in enumerate(trace.keys) if key in reached])
            if slots and wrt[trace]:
                # A recorded `backward` reads only values with a key, because frontends know no other values.
                given = trace.visible if recorded else trace.given
                linear = trace.graph.transposed(slots, wrt[trace], given)
                edges = trace.edges
                reached.update([edges[i].key for i in linear.results])
                self.steps.append(_Step(trace, slots, linear))

    def _leading(self, order: Sequence[Trace]) -> dict[Trace, tuple[int, ...]]:
        """For each trace, the indices of the inputs that are requested, or that depend on a requested value."""
        wrt: dict[Trace, tuple[int, ...]] = {}
        asked, types = self.asked, self.types
        for trace in order:
            positions = []
            for i, edge in enumerate(trace.edges):
                if edge.requires_grad:
                    source = edge.trace
                    if asked(edge.key, source is None):
                        if edge.key not in types:
                            types[edge.key] = trace.graph.input_types[i]
                        positions.append(i)
                    elif source is not None and wrt[source]:
                        positions.append(i)
            wrt[trace] = tuple(positions)
        return wrt


def _sorted(roots: Sequence[Trace]) -> list[Trace]:
    """The roots and all traces on which the roots depend, in topological order: a trace follows its dependencies."""
    order: list[Trace] = []
    placed: dict[Trace, bool] = {}  # False while the dependencies of the trace are visited
    stack = list(roots)
    while stack:
        trace = stack[-1]
        if trace in placed:
            stack.pop()
            if not placed[trace]:
                placed[trace] = True
                order.append(trace)
            continue
        if trace.released:
            raise RequestError(
                "the trace was released by an earlier backward: keep it with retain=True, or compute the outputs again"
            )
        placed[trace] = False
        for edge in trace.edges:
            if edge.requires_grad and edge.trace is not None and edge.trace not in placed:
                stack.append(edge.trace)
    return order


# ---- the run -----------------------------------------------------------------------------------------------


class _Plain:
    """Arithmetic on cotangents that are arrays of the executor."""

    def __init__(self, executor: Executor) -> None:
        self.executor = executor

    def run(self, step: _Step, cotangents: Sequence[Data]) -> Sequence[Data]:
        residuals = [step.trace.saved[x] for x in step.linear.residuals]
        return self.executor.run_transposed_linear(step.linear, residuals, cotangents)

    def add(self, x: Data, y: Data) -> Data:
        return self.executor.add_operands(x, y)


class _Recorded:
    """Arithmetic on cotangents that are recorded values."""

    def __init__(self, executor: Executor, recorder: Recorder) -> None:
        self.executor, self.recorder = executor, recorder

    def run(self, step: _Step, cotangents: Sequence[EagerInput]) -> Sequence[EagerInput]:
        linear = step.linear
        residuals = [step.trace.read(x) for x in linear.residuals]
        data = self.executor.run_transposed_linear(
            linear, [x.data for x in residuals], [x.data for x in cotangents]
        )
        assert linear.graph is not None
        return self._recorded(linear.graph, [*residuals, *cotangents], data)

    def add(self, x: EagerInput, y: EagerInput) -> EagerInput:
        spec = x.data.dtype, tuple(x.data.shape)
        graph = self.recorder.graphs.op("cotangents.add", (spec, spec), lambda b, x, y: [b.add(x, y)])
        return self._recorded(graph, [x, y], [self.executor.add_operands(x.data, y.data)])[0]

    def _recorded(
        self, graph: RecordedGraph, inputs: Sequence[EagerInput], data: Sequence[Data]
    ) -> list[EagerInput]:
        outputs = self.recorder.record(graph, inputs, dict(zip(graph.outputs, data, strict=True)))
        return [y.read(x) for y, x in zip(outputs, data, strict=True)]


def _prepare(plan: _Plan, executor: Executor) -> None:
    """Compiles all graphs of the plan, if the executor compiles graphs."""
    if isinstance(executor, Compiling):
        executor.prepare([step.linear.graph for step in plan.steps if step.linear.graph is not None])


def _run_joined(
    plan: _Plan, outputs: Sequence[Root], seeds: Sequence[Data], executor: Executor
) -> dict[Hashable, Data] | None:
    """Computes the requested cotangents, except zeros, by one graph. Returns None if no graph fits the plan."""
    joined = getattr(executor, "joined", None)
    if not isinstance(joined, Joined) or any(root.trace is None for root in outputs):
        return None
    types = [root.trace.graph.outputs[root.trace.keys.index(root.key)].type for root in outputs if root.trace]
    found = joined.find(types, lambda arithmetic, given: _run(plan, outputs, given, arithmetic))
    if found is None:
        return None
    linear, keys = found
    steps = [step for step in plan.steps if step.linear.graph is not None]
    residuals = [step.trace.saved[x] for step in steps for x in step.linear.residuals]
    return dict(zip(keys, executor.run_transposed_linear(linear, residuals, seeds), strict=True))


def _run(
    plan: _Plan,
    outputs: Sequence[Root],
    seeds: Sequence[Cotangent],
    arithmetic: Arithmetic[Cotangent],
) -> dict[Hashable, Cotangent]:
    """Computes the requested cotangents, except zeros, by key."""
    cotangents: dict[Hashable, Cotangent] = {}

    def accumulate(key: Hashable, ct: Cotangent) -> None:
        before = cotangents.get(key)
        cotangents[key] = ct if before is None else arithmetic.add(before, ct)

    for root, seed in zip(outputs, seeds, strict=True):
        accumulate(root.key, seed)
    by_key: dict[Hashable, Cotangent] = {}
    requested = plan.requested
    for step in plan.steps:
        keys = [step.trace.keys[slot] for slot in step.slots]
        ct = [cotangents.pop(key) for key in keys]
        for key, x in zip(keys, ct, strict=True):
            if key in requested:
                by_key[key] = x
        if step.linear.graph is not None:
            results = arithmetic.run(step, [ct[i] for i in step.linear.seeds])
            for i, x in zip(step.linear.results, results, strict=True):
                accumulate(step.trace.edges[i].key, x)
    by_key.update([(key, x) for key, x in cotangents.items() if key in requested])
    return by_key
