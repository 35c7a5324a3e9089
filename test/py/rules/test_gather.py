"""gather: indices in and out of range, windows, batches, any numbers, small and unsigned index types."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from check_rule import check_rule, run
from hypothesis import given, settings
from hypothesis import strategies as st

from tiduc.program import load

RNG = np.random.default_rng(0)
ONES = "%c = stablehlo.constant dense<1.0> : tensor<5x2xf64>"
INDEX = {
    "i8": np.int8,
    "ui8": np.uint8,
    "i32": np.int32,
    "ui32": np.uint32,
    "i64": np.int64,
    "ui64": np.uint64,
}


def tensor(sizes: list[int], element: str) -> str:
    return f"tensor<{''.join(f'{n}x' for n in sizes)}{element}>"


def random(sizes: list[int], element: str = "f64") -> Any:
    x = np.asarray(RNG.standard_normal(sizes))
    return x + 1j * RNG.standard_normal(sizes) if element.startswith("complex") else x


@dataclass
class Gather:
    """A gather's shapes and numbers, and so its text."""

    operand: list[int]
    indices: list[int]
    sizes: list[int]
    offset: list[int]
    collapsed: list[int]
    where: list[int]
    vector_dim: int
    batching: list[int] = field(default_factory=list)
    index_batching: list[int] = field(default_factory=list)

    @property
    def result(self) -> list[int]:
        batch = iter([n for i, n in enumerate(self.indices) if i != self.vector_dim])
        window = iter([n for i, n in enumerate(self.sizes) if i not in self.collapsed + self.batching])
        rank = len(self.offset) + len(self.indices) - (self.vector_dim < len(self.indices))
        return [next(window) if i in self.offset else next(batch) for i in range(rank)]

    def text(self, element: str = "f64", index: str = "i32", sorted_: bool = False) -> str:
        x, i, y = tensor(self.operand, element), tensor(self.indices, index), tensor(self.result, element)
        colon = ":" if self.sizes else ""
        return f"""
        func.func @main(%x: {x}, %i: {i}) -> {y} {{
          %0 = "stablehlo.gather"(%x, %i) {{
            dimension_numbers = #stablehlo.gather<
              offset_dims = {self.offset}, collapsed_slice_dims = {self.collapsed},
              operand_batching_dims = {self.batching}, start_indices_batching_dims = {self.index_batching},
              start_index_map = {self.where}, index_vector_dim = {self.vector_dim}>,
            slice_sizes = array<i64{colon} {str(self.sizes)[1:-1]}>,
            indices_are_sorted = {str(sorted_).lower()}
          }} : ({x}, {i}) -> {y}
          %1 = stablehlo.multiply %0, %0 : {y}
          return %1 : {y}
        }}"""


ROWS = Gather([4, 3], [5, 1], [1, 3], [1], [0], [0], 1)
CASES = {
    "rows": ROWS,
    "columns, implicit vector": Gather([4, 3], [5], [4, 1], [0], [1], [1], 1),
    "elements": Gather([4, 3], [5, 2], [1, 1], [], [0, 1], [0, 1], 1),
    "elements, vector first, reversed": Gather([4, 3], [2, 5], [1, 1], [], [0, 1], [1, 0], 0),
    "windows": Gather([5, 6], [3, 2], [2, 3], [1, 2], [], [0, 1], 1),
    "windows, result dimensions apart": Gather([5, 6], [3, 2], [2, 3], [0, 2], [], [1, 0], 1),
    "a window along one dimension": Gather([5, 6], [2, 2, 1], [2, 1], [1], [1], [0], 2),
    "batches": Gather([2, 5, 3], [4, 2, 1], [1, 1, 3], [2], [1], [1], 2, [0], [1]),
    "two batches, a window": Gather([2, 5, 3], [3, 2, 4, 1], [1, 2, 1], [1], [], [1], 3, [0, 2], [1, 0]),
    "one slice": Gather([5, 6], [2], [2, 3], [0, 1], [], [0, 1], 0),
    "a scalar": Gather([], [3, 0], [], [], [], [], 1),
    "no vectors": Gather([4, 3], [0, 1], [1, 3], [1], [0], [0], 1),
    "no components": Gather([4, 3], [5, 0], [2, 3], [1, 2], [], [], 1),
    "empty windows": Gather([4, 3], [5, 1], [1, 0], [1], [0], [0], 1),
}


@pytest.mark.parametrize("element", ["f64", "complex<f64>"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_cases(case: Gather, element: str) -> None:
    """Indices from -2 to past the end: some are clamped, some occur twice."""
    indices = RNG.integers(-2, 8, case.indices).astype(np.int32)
    check_rule(case.text(element), random(case.operand, element), indices)


@pytest.mark.parametrize("index", INDEX)
def test_index_types(index: str) -> None:
    """The operand is longer than the greatest index of the small types, so a bound would overflow."""
    case = Gather([300, 2], [5, 1], [1, 2], [1], [0], [0], 1)
    greatest = np.iinfo(INDEX[index]).max
    indices = np.array([0, 3, 120, 17 if index.startswith("u") else greatest, 120], INDEX[index])
    check_rule(case.text(index=index), random(case.operand), indices.reshape(5, 1), order=1)


@pytest.mark.parametrize("index", ["ui8", "ui32", "ui64"])
def test_great_unsigned_indices(index: str) -> None:
    """The forward gather of the reference interpreter takes them to be negative; the transpose is exact."""
    case = Gather([300, 2], [5, 1], [1, 2], [1], [0], [0], 1)
    greatest = np.iinfo(INDEX[index]).max
    indices = np.array([0, 200, greatest, greatest - 1, 200], INDEX[index])
    x, ct = random(case.operand), random([5, 2])
    text = case.text(index=index).replace("%0, %0", "%0, %c").replace("%1 =", f"{ONES}\n%1 =")
    _, cx = run(load(text).vjp(), [x, indices.reshape(5, 1), ct])
    expected = np.zeros_like(x)
    np.add.at(expected, np.minimum(indices.astype(float), 299).astype(int), ct)
    np.testing.assert_array_equal(cx, expected)


@pytest.mark.parametrize(("case", "kept"), [("rows", True), ("elements", False)])
def test_sorted_indices(case: str, kept: bool) -> None:
    """Clamping can change the order of pairs: (9, 2) < (10, 1), but then (3, 2) > (3, 1)."""
    text = str(load(CASES[case].text(sorted_=True)).vjp())
    assert ("indices_are_sorted = true" in text.split("stablehlo.scatter")[1]) == kept


def constant(text: str, indices: list[int]) -> str:
    """The same with the indices (5 x 1) made of constants, as JAX exports them."""
    parts = "".join(
        f"%c{i} = stablehlo.constant dense<{n}> : tensor<i32>\n"
        f"%b{i} = stablehlo.broadcast_in_dim %c{i}, dims = [] : (tensor<i32>) -> tensor<1x1xi32>\n"
        for i, n in enumerate(indices)
    )
    names, types = ", ".join(f"%b{i}" for i in range(5)), ", ".join(["tensor<1x1xi32>"] * 5)
    made = f"{parts} %i = stablehlo.concatenate {names}, dim = 0 : ({types}) -> tensor<5x1xi32>\n"
    return text.replace(", %i: tensor<5x1xi32>", "", 1).replace("%0 =", f"{made} %0 =", 1)


@pytest.mark.parametrize(
    ("indices", "clamped"),
    [([0, 3, 2, 2, 0], 0), ([0, 4, 2, 2, 0], 1), ([-1, 3, 2, 2, 0], 1), ([7, 9, 8, 8, 8], 1)],
)
def test_constant_indices(indices: list[int], clamped: int) -> None:
    """Those known to be inside are not clamped."""
    text = constant(ROWS.text(), indices)
    assert str(load(text).vjp()).count("stablehlo.clamp") == clamped
    check_rule(text, random(ROWS.operand))


def test_clamped_indices_are_known_to_be_inside() -> None:
    """The transpose of the transpose is a gather, with no mask."""
    assert "stablehlo.compare" not in str(load(ROWS.text()).vjp().vjp())


def test_against_jax() -> None:
    import jax.numpy as jnp

    indices = np.array([0, 9, 2, 2, -3], np.int32).reshape(5, 1)
    x = random(ROWS.operand)
    check_rule(
        ROWS.text(), x, indices, jax_function=lambda x, i: jnp.take(x, jnp.clip(i[:, 0], 0, 3), axis=0) ** 2
    )


@st.composite
def gathers(draw: Any) -> Gather:
    """Any numbers: each operand dimension is collapsed, a batch or of the window, and indexed or not."""
    kinds = draw(st.lists(st.sampled_from(["collapsed", "batch", "window"]), max_size=3))
    operand = [draw(st.integers(1, 3)) for _ in kinds]
    sizes = [draw(st.integers(1, n)) if k == "window" else 1 for k, n in zip(kinds, operand, strict=True)]
    of = {k: [i for i, kind in enumerate(kinds) if kind == k] for k in ("collapsed", "batch", "window")}
    indexable = draw(st.permutations(of["collapsed"] + of["window"]))
    where = indexable[: draw(st.integers(0, len(indexable)))]
    batches = [operand[i] for i in of["batch"]]
    free = draw(st.lists(st.integers(1, 2), max_size=2))
    order = draw(st.permutations(range(len(batches) + len(free))))
    indices = [[*batches, *free][i] for i in order]
    vector_dim = draw(st.integers(0, len(indices)))
    if len(where) != 1 or vector_dim < len(indices) or draw(st.booleans()):
        indices.insert(vector_dim, len(where))
        order = [*order[:vector_dim], None, *order[vector_dim:]]
    rank = len(of["window"]) + len([i for i in range(len(indices)) if i != vector_dim])
    offset = sorted(draw(st.permutations(range(rank)))[: len(of["window"])])
    index_batching = [order.index(i) for i in range(len(batches))]
    return Gather(
        operand, indices, sizes, offset, of["collapsed"], where, vector_dim, of["batch"], index_batching
    )


@settings(max_examples=60, deadline=None, derandomize=True)
@given(gathers(), st.sampled_from(["f64", "complex<f64>"]))
def test_random_numbers(case: Gather, element: str) -> None:
    indices = RNG.integers(-1, 4, case.indices).astype(np.int32)
    check_rule(case.text(element), random(case.operand, element), indices, order=1)
