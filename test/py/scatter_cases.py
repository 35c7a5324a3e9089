"""Scatters of all kinds of dimension numbers, by shapes."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from check_rule import check_rule

RNG = np.random.default_rng(0)
INDEX = {"i8": np.int8, "ui8": np.uint8, "i32": np.int32, "i64": np.int64, "ui64": np.uint64}


def tensor(sizes: list[int], element: str) -> str:
    return f"tensor<{''.join(f'{n}x' for n in sizes)}{element}>"


def random(sizes: list[int], element: str = "f64") -> Any:
    x = np.asarray(RNG.standard_normal(sizes))
    return x + 1j * RNG.standard_normal(sizes) if element.startswith("complex") else x


def body(op: str, element: str) -> str:
    """A body by name; anything with a "%" is its text."""
    t = f"tensor<{element}>"
    of = {"set": "", "swapped": f"%c = stablehlo.add %b, %a : {t}"}
    text = of.get(op, op if "%" in op else f"%c = stablehlo.{op} %a, %b : {t}")
    return f"^bb0(%a: {t}, %b: {t}): {text} stablehlo.return {'%c' if text else '%b'} : {t}"


@dataclass
class Scatter:
    """A scatter's shapes and numbers, and so its text. `sizes` is a window's, of the operand's rank."""

    operand: list[int]
    indices: list[int]
    sizes: list[int]
    window: list[int]
    inserted: list[int]
    where: list[int]
    vector_dim: int
    batching: list[int] = field(default_factory=list)
    index_batching: list[int] = field(default_factory=list)

    @property
    def updates(self) -> list[int]:
        batch = iter([n for i, n in enumerate(self.indices) if i != self.vector_dim])
        window = iter([n for i, n in enumerate(self.sizes) if i not in self.inserted + self.batching])
        rank = len(self.window) + len(self.indices) - (self.vector_dim < len(self.indices))
        return [next(window) if i in self.window else next(batch) for i in range(rank)]

    def text(
        self,
        op: str = "add",
        element: str = "f64",
        index: str = "i32",
        unique: bool = False,
        operands: str = "",
    ) -> str:
        x, i, u = (
            tensor(s, e) for s, e in ((self.operand, element), (self.indices, index), (self.updates, element))
        )
        return f"""
        func.func @main(%x: {x}, %i: {i}, %u: {u}) -> {x} {{
          %0 = "stablehlo.scatter"({operands or "%x, %i, %u"}) ({{
            {body(op, element)}
          }}) {{
            scatter_dimension_numbers = #stablehlo.scatter<
              update_window_dims = {self.window}, inserted_window_dims = {self.inserted},
              input_batching_dims = {self.batching}, scatter_indices_batching_dims = {self.index_batching},
              scatter_dims_to_operand_dims = {self.where}, index_vector_dim = {self.vector_dim}>,
            unique_indices = {str(unique).lower()}
          }} : ({x}, {i}, {u}) -> {x}
          %1 = stablehlo.multiply %0, %0 : {x}
          return %1 : {x}
        }}"""

    def check(self, indices: Any, op: str = "add", element: str = "f64", **options: Any) -> None:
        text = self.text(op, element, options.pop("index", "i32"), options.pop("unique", False))
        check_rule(text, random(self.operand, element), indices, random(self.updates, element), **options)


ROWS = Scatter([4, 3], [5, 1], [1, 3], [1], [0], [0], 1)
CASES = {
    "rows": ROWS,
    "columns, implicit vector": Scatter([4, 3], [5], [4, 1], [0], [1], [1], 1),
    "elements": Scatter([4, 3], [5, 2], [1, 1], [], [0, 1], [0, 1], 1),
    "elements, vector first, reversed": Scatter([4, 3], [2, 5], [1, 1], [], [0, 1], [1, 0], 0),
    "windows": Scatter([5, 6], [3, 2], [2, 3], [1, 2], [], [0, 1], 1),
    "windows, update dimensions apart": Scatter([5, 6], [3, 2], [2, 3], [0, 2], [], [1, 0], 1),
    "a window along one dimension": Scatter([5, 6], [2, 2, 1], [2, 1], [1], [1], [0], 2),
    "batches": Scatter([2, 5, 3], [4, 2, 1], [1, 1, 3], [2], [1], [1], 2, [0], [1]),
    "two batches, a window": Scatter([2, 5, 3], [3, 2, 4, 1], [1, 2, 1], [1], [], [1], 3, [0, 2], [1, 0]),
    "one window": Scatter([5, 6], [2], [2, 3], [0, 1], [], [0, 1], 0),
    "a scalar": Scatter([], [3, 0], [], [], [], [], 1),
    "no vectors": Scatter([4, 3], [0, 1], [1, 3], [1], [0], [0], 1),
    "no components": Scatter([4, 3], [5, 0], [2, 3], [1, 2], [], [], 1),
    "empty windows": Scatter([4, 3], [5, 1], [1, 0], [1], [0], [0], 1),
    "an empty operand": Scatter([0, 3], [5, 1], [1, 3], [1], [0], [0], 1),
}
