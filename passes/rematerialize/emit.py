"""emit: builds the flat graph of a schedule, in which recomputed ops read their operands through barriers.

    y = sin x             y = sin x
    ...                   ...
    ct = ...       ->     ct = ...
    c = cos y             x', _ = optimization_barrier x, ct
                          y' = sin x'
                          c = cos y'

A recomputed op is the second run of an op. Without a barrier, a compiler would merge both runs, and keep the first
result in memory. The barrier also takes the value that was computed last, so that compilers that reorder ops do not
move the second run up. A second run that reads the result of another second run needs no barrier, because it already
differs from the first run. Any other second run needs a barrier for one operand. The smallest operand is chosen.

Compilers convert the operands of a product to another layout, and would keep the converted operands for the second run.
All operands of a recomputed product are therefore behind the barrier.

Values computed from constants alone are not recomputed: compilers fold them, and would then merge the ops that read
them.

A compiler fuses a virtual op with its reader (`liveness.py`), and does not store the result. If the second run of the
reader, or a barrier, read this result, it would be stored. Therefore the virtual op has a second run, too.
"""

from collections.abc import Iterable, Sequence

from torch_mlir import ir

from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.facts.costs import size_in_bytes
from tiduc.dialect.graph.graph import Definition, Graph, Value
from tiduc.dialect.ops.traits import PRODUCTS
from tiduc.dialect.ops.verify import RECOMPUTED
from tiduc.passes.rematerialize.liveness import FUSED, Liveness
from tiduc.passes.rematerialize.recompute import can_rerun

BARRIER = "stablehlo.optimization_barrier"
_CONVOLUTION = "stablehlo.convolution"


def emit(b: StablehloBuilder, graph: Graph, model: Liveness) -> Graph:
    """Builds the graph with its ops in the order of the model. The first run of an op is the op of `graph` itself."""
    b.graph.inputs, b.graph.attributes, b.graph.location = (
        dict(graph.inputs),
        graph.attributes,
        graph.location,
    )
    b.graph.held += (graph, *graph.held)
    emitter = _Emitter(b, model)
    for place in range(len(model.ops)):
        emitter.run(place)
    return b.finish(graph.outputs)


class _Emitter:
    """Emits the ops of a schedule in order. The place of an op is its index in the schedule."""

    def __init__(self, b: StablehloBuilder, model: Liveness) -> None:
        self.b, self.model = b, model
        self.results: list[tuple[Value, ...]] = []  # the results of the op at each place
        self.runs: dict[Definition, int] = {}  # the place of each op's first run
        self.merged: dict[
            int, int
        ] = {}  # maps places of runs that are not emitted to the place of the first run
        self.distinct: set[tuple[Definition, tuple[int, ...]]] = set()
        self.fused: set[int] = set()  # places of the virtual ops in FUSED that a run has read
        self.multiplied: set[Value] = set()  # values that emitted products read, also through virtual ops
        self.constants: set[Value] = set()  # constants, and values computed from constants alone
        self.latest: Value | None = None

    def run(self, place: int) -> None:
        op, needs = self.model.ops[place], tuple([self.merged.get(j, j) for j in self.model.needs[place]])
        self.b.location = op.location
        if op not in self.runs:
            self.results.append(self._first(place))
        elif self.constants.issuperset(op.results):
            self.results.append(op.results)
            self.merged[place] = self.runs[op]
            return
        elif stored := [j for j in needs if j in self.fused]:
            virtual = self._virtual(stored)
            self._rerun(place, virtual, self._held(virtual, virtual))
        elif (op, needs) in self.distinct:
            virtual = self._virtual(needs)
            held = self._held([*virtual, place], virtual)
            self._rerun(place, virtual, [min(held, key=size_in_bytes)] if held else [])
        else:  # a reversed filter of a convolution is recomputed, because a shared one would be stored
            self._rerun(place, self._virtual(needs) if op.name == _CONVOLUTION else (), [])
        self.runs.setdefault(op, place)
        if not op.operands or (self.constants.issuperset(op.operands) and can_rerun(op)):
            self.constants.update(op.results)
        if self.model.size[place]:
            self.latest = self.results[place][0]
        if op.name in PRODUCTS:
            virtual = self._virtual(needs)
            self.multiplied.update(self._reads(place), self._held(virtual, virtual))
        self.distinct.add((op, needs))
        self.fused.update(j for j in needs if self._is_virtual(j) and self.model.ops[j].name in FUSED)

    def _first(self, place: int) -> tuple[Value, ...]:
        """Adds the first run of an op, and returns its results. The run is a copy of the op if it reads second runs."""
        op = self.model.ops[place]
        current = self._current(place)
        operands = tuple([current.get(x, x) for x in op.operands])
        captures = tuple([current.get(x, x) for x in op.captures])
        is_same = operands == op.operands and captures == op.captures
        self.b.graph.definitions.append(op if is_same else op.reading(operands, captures))
        return op.results

    def _current(self, place: int) -> dict[Value, Value]:
        """Maps operands of the op at a place to the values that replace them in this run of the op."""
        model = self.model
        pairs = (zip(model.ops[j].results, self.results[j], strict=True) for j in model.needs[place])
        return {x: y for both in pairs for x, y in both}

    def _is_virtual(self, place: int) -> bool:
        return self.model.roots[place] != (place,)

    def _virtual(self, places: Iterable[int]) -> list[int]:
        """The virtual ops in `places`, and the virtual ops that they read, directly or indirectly; sorted."""
        found: set[int] = set()
        stack = list(places)
        while stack:
            j = stack.pop()
            if self._is_virtual(j) and self.model.ops[j].operands and j not in found:
                found.add(j)
                stack += self.model.needs[j]
        return sorted(found)

    def _held(self, places: Sequence[int], virtual: Sequence[int]) -> list[Value]:
        """The values that the runs at these places read, without constants and results of the virtual ops."""
        own = {y for j in virtual for y in self.results[j]}
        read = dict.fromkeys(y for j in places for y in self._reads(j) if y not in own)
        return [y for y in read if y not in self.constants]

    def _rerun(self, place: int, virtual: Sequence[int], held: Sequence[Value]) -> None:
        """Emits a second run of an op, and of the virtual ops that it reads. The values `held` pass through a barrier.

        If the op is a product, operands that an earlier product has read pass through the barrier, too. A backend may
        remove the barrier of one operand if that of the other operand distinguishes the two runs.
        """
        model, copies = self.model, dict[Value, Value]()
        if model.ops[place].name in PRODUCTS:
            shared = [y for y in self._held([*virtual, place], virtual) if y in self.multiplied]
            held = tuple(dict.fromkeys([*held, *shared]))
        behind = self._behind_barrier(held) if held else {}
        for j in (*virtual, place):
            op = model.ops[j]
            operands = tuple([copies.get(y, behind.get(y, y)) for y in self._reads(j)])
            results = self.b.copy(op, operands, op.captures)
            if j == place:
                self.results.append(results)
            else:
                copies.update(zip(self.results[j], results, strict=True))

    def _reads(self, place: int) -> list[Value]:
        """The values that the run at a place reads, operand by operand."""
        current = self._current(place)
        return [current.get(x, x) for x in self.model.ops[place].operands]

    def _behind_barrier(self, held: Sequence[Value]) -> dict[Value, Value]:
        """Emits a barrier for these values and the latest value. Maps each value to its copy behind the barrier."""
        waited = [self.latest] if self.latest is not None and self.latest not in held else []
        types = [x.type for x in (*held, *waited)]
        behind = self.b.emit_all(BARRIER, [*held, *waited], types, {RECOMPUTED: ir.UnitAttr.get()})
        return dict(zip(held, behind, strict=False))
