"""costs: what a program computes and moves: the sum over its ops of the costs in `dialect/costs.py`.

The body of a loop counts once per iteration of the known trip count.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tiduc.dialect.context import stage
from tiduc.dialect.control import Branches, control, is_control
from tiduc.dialect.control_ops import call_target
from tiduc.dialect.costs import computed, is_open, moved
from tiduc.dialect.dynamic.origins import DYNAMIC, sizes_in
from tiduc.dialect.errors import describe
from tiduc.dialect.graph import Definition, Graph
from tiduc.dialect.view import BINDING, View
from tiduc.ports import Function


@dataclass(frozen=True)
class OpCost:
    """One op that runs `times` times; flops, transcendentals and bytes are totals over all runs."""

    op: str
    type: str
    place: str
    flops: int
    transcendentals: int
    bytes: int
    times: int


@dataclass(frozen=True)
class Cost:
    """The cost of a program, and why it may be higher: unknown trip counts, dynamic shapes, ops without a formula."""

    ops: tuple[OpCost, ...]
    unknown_loops: tuple[str, ...] = ()
    open_sizes: bool = False
    uncounted: tuple[str, ...] = ()

    @property
    def flops(self) -> int:
        return sum(op.flops for op in self.ops)

    @property
    def transcendentals(self) -> int:
        return sum(op.transcendentals for op in self.ops)

    @property
    def bytes(self) -> int:
        return sum(op.bytes for op in self.ops)

    def most_expensive(self) -> list[OpCost]:
        """The five ops with the most FLOPs; among equals, with the most bytes."""
        return sorted(self.ops, key=lambda op: (op.flops, op.bytes), reverse=True)[:5]


@stage
def find_cost(program: Function) -> Cost:
    """The cost of a program and of everything that it calls."""
    walk = _Walk(program.view)
    ops = tuple(walk.graph(program.view.graph(program.name), 1))
    return Cost(
        ops, tuple(dict.fromkeys(walk.unknown_loops)), walk.open_sizes, tuple(dict.fromkeys(walk.uncounted))
    )


class _Walk:
    def __init__(self, view: View) -> None:
        self.view = view
        self.unknown_loops: list[str] = []
        self.uncounted: list[str] = []
        self.open_sizes = False

    def graph(self, graph: Graph, times: int) -> Iterator[OpCost]:
        """The costs of the ops of a graph that runs `times` times."""
        for op in graph.definitions:
            if is_control(op):
                yield from self.control(op, times)
            elif op.name not in FREE:
                yield self.op(op, times)

    def control(self, op: Definition, times: int) -> Iterator[OpCost]:
        """The costs of what a call runs, of the branch with most FLOPs, or of a loop's runs of body and condition."""
        structure = control(self.view, op)
        if isinstance(structure, Branches):
            branches = [list(self.graph(graph, times)) for graph in structure.graphs]
            yield from max(branches, key=lambda ops: sum(inner.flops for inner in ops))
            return
        count = structure.trip_count
        if count is None and structure.cond is None and structure.sequences:
            length = sizes_in(structure.sequences[0].type)[0]
            count = length if length != DYNAMIC else None
        if count is None:
            count = structure.bound or 1
            self.unknown_loops.append(describe(op.location) or op.name.removeprefix("stablehlo."))
        yield from self.graph(structure.body, times * count)
        if structure.cond is not None:
            yield from self.graph(structure.cond, times * (count + 1))

    def op(self, op: Definition, times: int) -> OpCost:
        self.open_sizes |= any(is_open(x) for x in (*op.operands, *op.results))
        name = op.name.removeprefix("stablehlo.")
        if (target := call_target(op)) is not None:
            name = f"custom_call @{target}"
        counted = computed(op)
        if counted is None:
            self.uncounted.append(name.removeprefix("custom_call ").removeprefix("chlo."))
        transcendentals, flops = counted or (0, 0)
        type_ = ", ".join(str(y.type).removeprefix("tensor<").removesuffix(">") for y in op.results)
        cost = OpCost(
            name, type_, describe(op.location), flops + transcendentals, transcendentals, moved(op), times
        )
        return replace(
            cost, flops=cost.flops * times, transcendentals=transcendentals * times, bytes=cost.bytes * times
        )


FREE = ("stablehlo.constant", "stablehlo.return", BINDING)
"""Ops without a cost."""
