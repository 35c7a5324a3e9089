"""The types of `b.engine`, by which the rules of calls, branches and loops call the compiler stage that runs them.

The stage `linearize` sets `b.engine` to a `Linearizing`, and the stage `linear_transpose` to a `Transposing`. A graph
is closed if it reads no values of other graphs.
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
    """Loop-invariant linear ops, and the loop-invariant tangents that the linear ops left in the loop read."""

    ops: Sequence[Definition]
    tangents: Sequence[Value]


class LentSplit(Protocol):
    """A linearized closed graph: a linear graph, and the primal values that it reads. See `engine/split.py`."""

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
        """Returns a copy whose residuals take the fewest bytes. Other values are recomputed, also from `given`."""

    def extended(self, b: StablehloBuilder, more: Sequence[Value | ir.Type]) -> Graph:
        """Returns the primal graph with `more` as further outputs. A type stands for zeros."""

    def hoisted(self, b: StablehloBuilder, count: int) -> Hoisted:
        """Returns the linear ops to hoist out of a loop. The last `count` active inputs are loop invariants."""

    def closed(self, b: StablehloBuilder, wanted: Sequence[Value | ir.Type], given: Sequence[Value]) -> Graph:
        """Returns the closed linear graph that computes `wanted` from `given`. A type in `wanted` stands for zeros."""


class SplitGraph(Protocol):
    def __call__(self, graph: Graph, active: Sequence[bool], varying: int | None = None) -> LentSplit:
        """Linearizes a closed graph in its active inputs. The inputs after the first `varying` are loop invariants."""


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
        """Transposes a closed graph in its inputs `linear`, given cotangents of the outputs in `wanted`.

        See `transpose_closed` in `passes/linear_transpose.py`.
        """


class CloseGraph(Protocol):
    def __call__(
        self, view: View, wanted: Sequence[Value | ir.Type], given: Sequence[Value], *, name: str
    ) -> Graph:
        """Returns the closed graph `name` that computes `wanted` from `given`. A type in `wanted` stands for zeros."""


class BatchGraph(Protocol):
    def __call__(self, view: View, graph: Graph, at: Sequence[bool], size: int) -> Graph:
        """Batches a closed graph over `size` examples. `at` flags the batched inputs. All outputs are batched."""


@dataclass
class Linearizing:
    """The functions and data that the stage `linearize` provides to the rules that it calls.

    - `split` linearizes a closed graph, and `batch` batches one.
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
