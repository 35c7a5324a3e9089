"""Functions of stages that the rules of calls, branches and loops may call: the attribute `b.engine` of their builder.

In a linearize rule, `b.engine` is a `Linearizing`. In a transpose rule, it is a `Transposing`.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from torch_mlir import ir

from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.graph import Definition, Graph, Value
from tiduc.dialect.graph.view import View


@dataclass(frozen=True)
class Hoisted:
    """Loop-invariant linear ops, and the loop-invariant tangents that the other linear ops read."""

    ops: Sequence[Definition]
    tangents: Sequence[Value]


class LentSplit(Protocol):
    """A linearized closed graph: its linear graph, and the primal values that this graph reads (`engine/split.py`)."""

    @property
    def primal(self) -> Graph: ...
    @property
    def tangents(self) -> tuple[Value, ...]: ...
    @property
    def outputs(self) -> tuple[Value | None, ...]: ...
    @property
    def inputs(self) -> tuple[Value, ...]: ...
    @property
    def invariant(self) -> tuple[Value, ...]: ...
    @property
    def residuals(self) -> tuple[Value, ...]: ...
    @property
    def linear(self) -> Graph: ...
    @property
    def dynamic_inputs(self) -> list[Value]: ...

    def fewest(self, b: StablehloBuilder, given: Sequence[Value]) -> "LentSplit":
        """A copy whose residuals take as few bytes as possible."""

    def extended(self, b: StablehloBuilder, more: Sequence[Value | ir.Type]) -> Graph:
        """The primal graph with `more` as further outputs."""

    def hoisted(self, b: StablehloBuilder, count: int) -> Hoisted:
        """The linear ops to hoist out of a loop. The last `count` active inputs are loop invariants."""

    def closed(self, b: StablehloBuilder, wanted: Sequence[Value | ir.Type], given: Sequence[Value]) -> Graph:
        """The closed linear graph that computes `wanted` from `given`."""


class SplitGraph(Protocol):
    def __call__(self, graph: Graph, active: Sequence[bool], varying: int | None = None) -> LentSplit:
        """Linearizes a closed graph in its active inputs; inputs from number `varying` on are loop invariants."""


class TransposeGraph(Protocol):
    def __call__(
        self,
        view: View,
        graph: Graph,
        linear: Sequence[Value],
        wanted: Sequence[Value | None],
        sums: Sequence[Value] = (),
        steep: Sequence[Value] = (),
    ) -> Graph:
        """The transpose of a closed graph in its inputs `linear`, given cotangents of the outputs in `wanted`.

        See `transpose_closed` in `passes/linear_transpose.py`.
        """


class CloseGraph(Protocol):
    def __call__(
        self, view: View, wanted: Sequence[Value | ir.Type], given: Sequence[Value], *, name: str
    ) -> Graph:
        """The closed graph that computes `wanted` from `given`."""


class BatchGraph(Protocol):
    def __call__(self, view: View, graph: Graph, at: Sequence[bool], size: int) -> Graph:
        """A closed graph, batched over `size` examples. `at` flags the batched inputs. All outputs are batched."""


@dataclass
class Linearizing:
    """The functions and data that the stage `linearize` provides to the rules that it calls.

    - `batch` batches a closed graph.
    - `inline` copies values of other graphs into the graph under construction.
    - `rule` looks up an op's rule.
    - `tangent` gives the tangent of a primal value that is defined before the op.
    - `scheduled` are the ops being linearized, and `outputs` the values whose tangents are requested.
    - `sites` caches the tangents of each call site of a control-flow op.
    """

    split: SplitGraph
    batch: BatchGraph
    inline: Callable[[Any, Sequence[Value], dict[Value, Any]], dict[Value, Any]]
    rule: Callable[[Definition], Callable[..., Any] | None]
    tangent: Callable[[Any], Any | None] = lambda x: None  # noqa: E731
    scheduled: Sequence[Definition] = ()
    outputs: Collection[Value] = ()
    sites: dict[Any, Any] | None = None

    @cached_property
    def readers(self) -> Mapping[Value, Sequence[int]]:
        """Maps each value to the indices in `scheduled` of the ops that read the value."""
        places: dict[Value, list[int]] = {}
        for i, op in enumerate(self.scheduled):
            for x in op.reads:
                places.setdefault(x, []).append(i)
        return places


@dataclass(frozen=True)
class Transposing:
    """The functions that the stage `linear_transpose` provides to the rules that it calls."""

    transpose: TransposeGraph
    close: CloseGraph
