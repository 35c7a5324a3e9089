"""Programs with gathers and scatters for all kinds of shapes and dimension numbers."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

import numpy as np
from harness.tensors import normal, tensor
from hypothesis import strategies as st

RNG = np.random.default_rng(0)
random = partial(normal, RNG)


def body(op: str, element: str) -> str:
    """Returns the body of a scatter that combines the old and the new element by an op.

    If `op` contains "%", it is the text of the ops in the body.
    """
    t = f"tensor<{element}>"
    of = {"set": "", "swapped": f"%c = stablehlo.add %b, %a : {t}"}
    text = of.get(op, op if "%" in op else f"%c = stablehlo.{op} %a, %b : {t}")
    return f"^bb0(%a: {t}, %b: {t}): {text} stablehlo.return {'%c' if text else '%b'} : {t}"


@dataclass
class Indexing:
    """The shapes and dimension numbers of a gather or a scatter.

    The updates of the scatter have the shape of the gather's result. `sizes` contains the slice size of each dimension
    of the operand. `window` contains the window dimensions of the result or of the updates.
    """

    operand: list[int]
    indices: list[int]
    sizes: list[int]
    window: list[int]
    collapsed: list[int]
    where: list[int]
    vector_dim: int
    batching: list[int] = field(default_factory=list)
    index_batching: list[int] = field(default_factory=list)

    @property
    def windows(self) -> list[int]:
        """The shape of the gather's result, or of the scatter's updates."""
        batch = iter([n for i, n in enumerate(self.indices) if i != self.vector_dim])
        window = iter([n for i, n in enumerate(self.sizes) if i not in self.collapsed + self.batching])
        rank = len(self.window) + len(self.indices) - (self.vector_dim < len(self.indices))
        return [next(window) if i in self.window else next(batch) for i in range(rank)]

    def gather(self, element: str = "f64", index: str = "i32", sorted_: bool = False) -> str:
        """Returns the text of a program that gathers elements and squares the result."""
        x, i, y = tensor(self.operand, element), tensor(self.indices, index), tensor(self.windows, element)
        colon = ":" if self.sizes else ""
        return f"""
        func.func @main(%x: {x}, %i: {i}) -> {y} {{
          %0 = "stablehlo.gather"(%x, %i) {{
            dimension_numbers = #stablehlo.gather<
              offset_dims = {self.window}, collapsed_slice_dims = {self.collapsed},
              operand_batching_dims = {self.batching}, start_indices_batching_dims = {self.index_batching},
              start_index_map = {self.where}, index_vector_dim = {self.vector_dim}>,
            slice_sizes = array<i64{colon} {str(self.sizes)[1:-1]}>,
            indices_are_sorted = {str(sorted_).lower()}
          }} : ({x}, {i}) -> {y}
          %1 = stablehlo.multiply %0, %0 : {y}
          return %1 : {y}
        }}"""

    def scatter(
        self,
        op: str = "add",
        element: str = "f64",
        index: str = "i32",
        unique: bool = False,
        operands: str = "%x, %i, %u",
    ) -> str:
        """Returns the text of a program that scatters elements and squares the result."""
        x, i, u = (
            tensor(s, e) for s, e in ((self.operand, element), (self.indices, index), (self.windows, element))
        )
        return f"""
        func.func @main(%x: {x}, %i: {i}, %u: {u}) -> {x} {{
          %0 = "stablehlo.scatter"({operands}) ({{
            {body(op, element)}
          }}) {{
            scatter_dimension_numbers = #stablehlo.scatter<
              update_window_dims = {self.window}, inserted_window_dims = {self.collapsed},
              input_batching_dims = {self.batching}, scatter_indices_batching_dims = {self.index_batching},
              scatter_dims_to_operand_dims = {self.where}, index_vector_dim = {self.vector_dim}>,
            unique_indices = {str(unique).lower()}
          }} : ({x}, {i}, {u}) -> {x}
          %1 = stablehlo.multiply %0, %0 : {x}
          return %1 : {x}
        }}"""


ROWS = Indexing([4, 3], [5, 1], [1, 3], [1], [0], [0], 1)
CASES = {
    "rows": ROWS,
    "columns, implicit vector": Indexing([4, 3], [5], [4, 1], [0], [1], [1], 1),
    "elements": Indexing([4, 3], [5, 2], [1, 1], [], [0, 1], [0, 1], 1),
    "elements, vector first, reversed": Indexing([4, 3], [2, 5], [1, 1], [], [0, 1], [1, 0], 0),
    "windows": Indexing([5, 6], [3, 2], [2, 3], [1, 2], [], [0, 1], 1),
    "windows, dimensions apart": Indexing([5, 6], [3, 2], [2, 3], [0, 2], [], [1, 0], 1),
    "a window along one dimension": Indexing([5, 6], [2, 2, 1], [2, 1], [1], [1], [0], 2),
    "batches": Indexing([2, 5, 3], [4, 2, 1], [1, 1, 3], [2], [1], [1], 2, [0], [1]),
    "two batches, a window": Indexing([2, 5, 3], [3, 2, 4, 1], [1, 2, 1], [1], [], [1], 3, [0, 2], [1, 0]),
    "one window": Indexing([5, 6], [2], [2, 3], [0, 1], [], [0, 1], 0),
    "a scalar": Indexing([], [3, 0], [], [], [], [], 1),
    "no vectors": Indexing([4, 3], [0, 1], [1, 3], [1], [0], [0], 1),
    "no components": Indexing([4, 3], [5, 0], [2, 3], [1, 2], [], [], 1),
    "empty windows": Indexing([4, 3], [5, 1], [1, 0], [1], [0], [0], 1),
}


@st.composite
def indexings(draw: Any) -> Indexing:
    """Draws shapes and dimension numbers with Hypothesis.

    Each dimension of the operand is a collapsed, batching or window dimension, and may have start indices.
    """
    kinds = draw(st.lists(st.sampled_from(["collapsed", "batch", "window"]), max_size=3))
    operand = [draw(st.integers(1, 3)) for _ in kinds]
    sizes = [draw(st.integers(1, n)) if k == "window" else 1 for k, n in zip(kinds, operand, strict=True)]
    of = {k: [i for i, kind in enumerate(kinds) if kind == k] for k in ("collapsed", "batch", "window")}
    indexable = draw(st.permutations(of["collapsed"] + of["window"]))
    where = indexable[: draw(st.integers(0, len(indexable)))]
    batches = [operand[i] for i in of["batch"]]
    free = draw(st.lists(st.integers(1, 2), max_size=2))
    order: list[int | None] = list(draw(st.permutations(range(len(batches) + len(free)))))
    indices = [[*batches, *free][i] for i in order if i is not None]
    vector_dim = draw(st.integers(0, len(indices)))
    if len(where) != 1 or vector_dim < len(indices) or draw(st.booleans()):
        indices.insert(vector_dim, len(where))
        order.insert(vector_dim, None)
    rank = len(of["window"]) + len([i for i in range(len(indices)) if i != vector_dim])
    window = sorted(draw(st.permutations(range(rank)))[: len(of["window"])])
    index_batching = [order.index(i) for i in range(len(batches))]
    return Indexing(
        operand, indices, sizes, window, of["collapsed"], where, vector_dim, of["batch"], index_batching
    )


def drawn(draw: Random, shape: Sequence[int], free_sizes: Sequence[int] = (1, 2, 3, 5, 9)) -> Indexing:
    """Draws dimension numbers for an operand of this shape.

    Each dimension is a collapsed, batching or window dimension, and may have start indices.
    """
    chosen = [
        draw.choice(["collapsed", "collapsed", "window", "window", "batch"]) if n else "window" for n in shape
    ]
    sizes = [
        draw.choice([n, min(n, 1), draw.randint(0, n)]) if k == "window" else 1
        for k, n in zip(chosen, shape, strict=True)
    ]
    of = {k: [i for i, each in enumerate(chosen) if each == k] for k in ("collapsed", "batch", "window")}
    indexable = draw.sample(of["collapsed"] + of["window"], len(of["collapsed"] + of["window"]))
    where = indexable[: draw.randint(min(1, len(indexable)), len(indexable))]
    batches = [shape[i] for i in of["batch"]]
    free = draw.choices(free_sizes, k=draw.choice([0, 1, 1, 2]))
    order: list[int | None] = [*draw.sample(range(len(batches + free)), len(batches + free))]
    indices = [[*batches, *free][i] for i in order if i is not None]
    vector_dim = draw.choice([len(indices), draw.randint(0, len(indices))])
    if len(where) != 1 or vector_dim < len(indices) or draw.random() < 0.5:
        indices.insert(vector_dim, len(where))
        order.insert(vector_dim, None)
    rank = len(of["window"]) + len([i for i in range(len(indices)) if i != vector_dim])
    window = sorted(draw.sample(range(rank), len(of["window"])))
    index_batching = [order.index(i) for i in range(len(batches))]
    return Indexing(
        list(shape),
        indices,
        sizes,
        window,
        of["collapsed"],
        where,
        vector_dim,
        of["batch"],
        index_batching,
    )
