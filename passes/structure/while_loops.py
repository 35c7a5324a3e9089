"""Emits `stablehlo.while` loops that have carries but no sequences, and the ops that read and write entries of stacks.

A stack is an array with one entry for each iteration. The body of a loop is built before its condition.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch_mlir import ir

from tiduc.dialect.control.control import Loop, emit_loop
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.graph import Graph, Value
from tiduc.dialect.shapes.types import shape
from tiduc.passes.structure.clusters import MemberResult
from tiduc.passes.structure.scope import Scope


class Iteration:
    """The body of a loop under construction.

    `b` is the builder of the body. `outside` maps values of the outer graph to inputs of the body.
    """

    def __init__(self, scope: Scope) -> None:
        self.b: Any = scope.builder("S")
        self.outside: dict[Value, Value] = {}

    def carry(self, type_: ir.RankedTensorType) -> Value:
        """Adds an input for a loop-carried value of this type to the body, and returns the input."""
        return self.b.input(f"{self.b.graph.name}.{len(self.b.graph.inputs)}", type_)  # type: ignore[no-any-return]

    def carries(self, values: Sequence[Value]) -> list[Value]:
        """Adds an input for each of these values, with the type of the value, and returns the inputs."""
        return [self.carry(x.type) for x in values]

    def read(self, x: Value) -> Value:
        """Returns the input of the body that stands for the loop-invariant value `x` of the outer graph.

        Adds the input when `x` is read for the first time.
        """
        if x not in self.outside:
            self.outside[x] = self.carry(x.type)
        return self.outside[x]


@dataclass(frozen=True)
class Carry:
    """A loop-carried value.

    `x` is the value at the start of an iteration, `after` the value at the start of the next iteration, and `init` the
    value at the start of the first iteration. `is_used` says whether the final value is used after the loop.
    """

    x: Value
    init: Value
    after: Value
    is_used: bool = True


Test = Callable[[Any, dict[Value, Value]], Value]
"""A function that emits the condition of a loop and returns its boolean value.

Its arguments are the builder of the condition, and a map from the inputs of the loop body to the inputs of the
condition.
"""


Results = tuple[dict[MemberResult, Value], list[Value]]
"""The results of a cluster's loop: the final values of its live carries, and the final arrays of its `Records`."""


def emit_while(
    scope: Scope,
    b: StablehloBuilder,
    iteration: Iteration,
    carries: Sequence[Carry],
    test: Test,
    memory: str | None = None,
    bound: int | None = None,
) -> dict[Value, Value]:
    """Emits a loop without its dead carries. Returns a map from `Carry.x` to the final value of the carry.

    A carry is dead if neither the code after the loop nor the condition depends on it. `memory` and `bound` are the
    options that the source program sets on the loop.
    """
    raw = iteration.b.finish([carry.after for carry in carries])
    invariants = list(iteration.outside.values())
    cond_builder = scope.builder("C")
    of = {
        x: cond_builder.input(f"{cond_builder.graph.name}.{i}", x.type)
        for i, x in enumerate([*(carry.x for carry in carries), *invariants])
    }
    cond = cond_builder.finish([test(cond_builder, of)])
    by_test = read_inputs(cond)
    used = {carry.x: carry.after for carry in carries if carry.is_used or of[carry.x] in by_test}
    nexts = {carry.x: carry.after for carry in carries}
    needed = {*used, *carries_read(scope, nexts, list(used.values()))}
    live = [carry for carry in carries if carry.x in needed]
    body = scope.closed([carry.after for carry in live], [*(carry.x for carry in live), *invariants])
    cond = scope.closed(cond.outputs, [of[x] for x in (*(carry.x for carry in live), *invariants)])
    inits = tuple([carry.init for carry in live])
    loop = Loop(
        inits, (), tuple(iteration.outside), body, cond, False, None, body.name, memory=memory, bound=bound
    )
    for graph in (raw, cond_builder.graph):
        scope.view.discard(graph)
    return dict(zip([carry.x for carry in live], emit_loop(b, loop), strict=True))


def carries_read(scope: Scope, nexts: Mapping[Value, Value], wanted: Sequence[Value]) -> list[Value]:
    """Returns the carries on which the values `wanted` depend, directly or through earlier iterations.

    `nexts` maps each carry to its value in the next iteration.
    """
    carries: dict[Value, None] = {}
    while wanted:
        order = scope.view.schedule(wanted)
        read = dict.fromkeys(x for op in order for x in op.reads) | dict.fromkeys(wanted)
        more = [x for x in read if x in nexts and x not in carries]
        carries |= dict.fromkeys(more)
        wanted = [nexts[x] for x in more]
    return list(carries)


def read_inputs(graph: Graph) -> set[Value]:
    """Returns the inputs of a graph that its ops or its outputs read."""
    read = {x for op in graph.definitions for x in op.reads} | set(graph.outputs)
    return {x for x in graph.inputs.values() if x in read}


def index_test(k: Value, limit: Value | int, comparison: str) -> Test:
    """Returns the condition `k comparison limit`. `k` is the iteration number; `limit` is an integer or an input of the
    body.
    """

    def test(b: StablehloBuilder, of: dict[Value, Value]) -> Value:
        end = b.constant(limit, k.type) if isinstance(limit, int) else of[limit]
        return b.compare(of[k], end, comparison)

    return test


# ---- entries of arrays ----------------------------------------------------------------------------------------


def read_entry(b: StablehloBuilder, stack: Value, i: Value) -> Value:
    """Emits the read of entry i of a stack, and returns the entry."""
    sizes = shape(stack)[1:]
    start = [i] + [b.constant(0, i.type)] * len(sizes)
    return b.reshape(b.dynamic_slice(stack, start, [1, *sizes]), sizes)


def filled(b: StablehloBuilder, type_: ir.Type, x: Value) -> Value:
    """Emits a stack of type `type_` whose entries all equal `x`."""
    return b.broadcast_in_dim(x, range(1, 1 + len(shape(x))), type_)


def write_entry(b: StablehloBuilder, stack: Value, x: Value, i: Value) -> Value:
    """Emits a copy of the stack in which entry i is `x`, and returns the copy."""
    sizes = shape(x)
    start = [i] + [b.constant(0, i.type)] * len(sizes)
    return b.dynamic_update_slice(stack, b.reshape(x, [1, *sizes]), start)
