"""costs: estimates the arithmetic and the memory traffic of a program, as the sum of the costs of its ops.

`dialect/facts/costs.py` gives the cost of an op. The cost of a loop's body is multiplied by the trip count, if known.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from tiduc.dialect.control.control import Branches, control, is_control
from tiduc.dialect.errors import describe
from tiduc.dialect.facts.costs import computed, is_open, moved
from tiduc.dialect.graph.graph import Definition, Graph
from tiduc.dialect.graph.view import BINDING, View
from tiduc.dialect.mlir.context import stage
from tiduc.dialect.ops.control_ops import call_target
from tiduc.dialect.shapes.origins import DYNAMIC, sizes_in
from tiduc.ports import Function


@dataclass(frozen=True)
class OpCost:
    """The cost of an op that runs `times` times. `flops`, `transcendentals` and `bytes` are totals over all runs."""

    op: str
    type: str
    place: str
    flops: int
    transcendentals: int
    bytes: int
    times: int

    def repeated(self, times: int) -> "OpCost":
        """The cost of the op if it runs `times` times as often."""
        totals = self.flops * times, self.transcendentals * times, self.bytes * times, self.times * times
        return OpCost(self.op, self.type, self.place, *totals)


@dataclass(frozen=True)
class Cost:
    """The cost of a program. The actual cost may be higher for three reasons.

    `unknown_loops` lists loops with unknown trip counts, `open_sizes` says whether shapes are dynamic, and `uncounted`
    lists ops whose arithmetic is not counted.
    """

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
        """The five ops with the most FLOPs. Ops with equal FLOPs are ordered by bytes."""
        return sorted(self.ops, key=lambda op: (op.flops, op.bytes), reverse=True)[:5]


@stage
def find_cost(program: Function) -> Cost:
    """The cost of a program and of everything that it calls."""
    walk = _Walk(program.view)
    runs = walk.runs(program.view.graph(program.name))
    ops = tuple([walk.cost(op).repeated(times) for op, times in runs.items()])
    return Cost(ops, tuple(walk.unknown_loops), walk.open_sizes, tuple(walk.uncounted))


class _Walk:
    """Counts how often each op runs. A graph is read once, even if many paths of calls lead to it."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.unknown_loops: dict[str, None] = {}
        self.uncounted: dict[str, None] = {}
        self.open_sizes = False
        self._runs: dict[Graph, Counter[Definition]] = {}
        self._costs: dict[Definition, OpCost] = {}

    def runs(self, graph: Graph) -> Counter[Definition]:
        """For each op of a graph: how often it runs when the graph runs once."""
        if graph not in self._runs:
            runs = Counter[Definition]()
            for op in graph.definitions:
                if is_control(op):
                    runs.update(self._control(op))
                elif op.name not in FREE:
                    runs[op] += 1
            self._runs[graph] = runs
        return self._runs[graph]

    def _control(self, op: Definition) -> Mapping[Definition, int]:
        """For each op inside a branch, loop or call: how often it runs when the control op `op` runs once.

        Of several branches, only the branch with the most FLOPs counts.
        """
        structure = control(self.view, op)
        if isinstance(structure, Branches):
            return max(map(self.runs, structure.graphs), key=self._flops)
        count = structure.trip_count
        if count is None and structure.cond is None and structure.sequences:
            length = sizes_in(structure.sequences[0].type)[0]
            count = length if length != DYNAMIC else None
        if count is None:
            count = structure.bound or 1
            self.unknown_loops[describe(op.location) or op.name.removeprefix("stablehlo.")] = None
        runs = Counter({inner: n * count for inner, n in self.runs(structure.body).items()})
        if structure.cond is not None:
            runs.update({inner: n * (count + 1) for inner, n in self.runs(structure.cond).items()})
        return runs

    def _flops(self, runs: Mapping[Definition, int]) -> int:
        return sum(self.cost(op).flops * times for op, times in runs.items())

    def cost(self, op: Definition) -> OpCost:
        """The cost of one run of an op."""
        if op not in self._costs:
            self._costs[op] = self._cost(op)
        return self._costs[op]

    def _cost(self, op: Definition) -> OpCost:
        self.open_sizes |= any(is_open(x) for x in (*op.operands, *op.results))
        name = op.name.removeprefix("stablehlo.")
        if (target := call_target(op)) is not None:
            name = f"custom_call @{target}"
        counted = computed(op)
        if counted is None:
            self.uncounted[name.removeprefix("custom_call ").removeprefix("chlo.")] = None
        transcendentals, flops = counted or (0, 0)
        type_ = ", ".join(str(y.type).removeprefix("tensor<").removesuffix(">") for y in op.results)
        return OpCost(
            name, type_, describe(op.location), flops + transcendentals, transcendentals, moved(op), 1
        )


FREE = ("stablehlo.constant", "stablehlo.return", BINDING)
"""The names of ops that cost nothing."""
