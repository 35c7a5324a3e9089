"""Emits loops without sequences (`stablehlo.while`), and reads and writes entries of the arrays that they carry.

The iteration is built first, then the test. A stack is an array with one entry for each iteration.
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
    """One iteration of a loop. `b` builds its raw graph; `outside` maps outer values to inputs of the graph."""

    def __init__(self, scope: Scope) -> None:
        self.b: Any = scope.builder("S")
        self.outside: dict[Value, Value] = {}

    def carry(self, type_: ir.RankedTensorType) -> Value:
        """Adds an input for a value that changes from iteration to iteration."""
        return self.b.input(f"{self.b.graph.name}.{len(self.b.graph.inputs)}", type_)  # type: ignore[no-any-return]

    def carries(self, values: Sequence[Value]) -> list[Value]:
        """Adds inputs of the types of these values."""
        return [self.carry(x.type) for x in values]

    def read(self, x: Value) -> Value:
        """The input that stands for a loop-invariant value of the outer graph. It is added on first use."""
        if x not in self.outside:
            self.outside[x] = self.carry(x.type)
        return self.outside[x]


@dataclass(frozen=True)
class Carry:
    """A loop-carried value.

    `x` is the value in an iteration, `after` the value in the next iteration, and `init` the initial value. `is_used`
    says whether the final value is used after the loop.
    """

    x: Value
    init: Value
    after: Value
    is_used: bool = True


Test = Callable[[Any, dict[Value, Value]], Value]
"""A function that emits a loop's test. It takes a builder, and a map from an iteration's inputs to the test's inputs.
"""


Results = tuple[dict[MemberResult, Value], list[Value]]
"""The results of a cluster's loop: the final values of its live carries, and the arrays of its `Records`."""


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

    `memory` and `bound` are the options that the program gives for the loop.
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
    """The carries on which the values `wanted` depend, directly or through earlier iterations.

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
    """The inputs that a graph reads."""
    read = {x for op in graph.definitions for x in op.reads} | set(graph.outputs)
    return {x for x in graph.inputs.values() if x in read}


def index_test(k: Value, limit: Value | int, comparison: str) -> Test:
    """A test that compares an iteration number with `limit`, which is an integer or an input of the iteration."""

    def test(b: StablehloBuilder, of: dict[Value, Value]) -> Value:
        end = b.constant(limit, k.type) if isinstance(limit, int) else of[limit]
        return b.compare(of[k], end, comparison)

    return test


# ---- entries of arrays ----------------------------------------------------------------------------------------


def read_entry(b: StablehloBuilder, stack: Value, i: Value) -> Value:
    """Entry i of a stack."""
    sizes = shape(stack)[1:]
    start = [i] + [b.constant(0, i.type)] * len(sizes)
    return b.reshape(b.dynamic_slice(stack, start, [1, *sizes]), sizes)


def filled(b: StablehloBuilder, type_: ir.Type, x: Value) -> Value:
    """A stack with `x` in every entry."""
    return b.broadcast_in_dim(x, range(1, 1 + len(shape(x))), type_)


def write_entry(b: StablehloBuilder, stack: Value, x: Value, i: Value) -> Value:
    """The stack with `x` as entry i."""
    sizes = shape(x)
    start = [i] + [b.constant(0, i.type)] * len(sizes)
    return b.dynamic_update_slice(stack, b.reshape(x, [1, *sizes]), start)
