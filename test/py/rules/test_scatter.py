"""scatter: each body; indices out of range, partly and wholly; updates that meet; any dimension numbers."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from check_rule import check_rule, run
from hypothesis import given, settings
from hypothesis import strategies as st

from tiduc.dialect.errors import Unsupported
from tiduc.program import load

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
OPS = ["add", "swapped", "set", "minimum", "maximum"]


@pytest.mark.parametrize("op", ["add", "set", "subtract"])
@pytest.mark.parametrize("element", ["f64", "complex<f64>"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_cases(case: Scatter, op: str, element: str) -> None:
    """Indices from -2 to past the end: updates are dropped, in part or whole, and some meet."""
    case.check(RNG.integers(-2, 7, case.indices).astype(np.int32), op, element)


@pytest.mark.parametrize("op", ["swapped", "minimum", "maximum"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_other_bodies(case: Scatter, op: str) -> None:
    case.check(RNG.integers(-2, 7, case.indices).astype(np.int32), op)


@pytest.mark.parametrize("op", ["add", "set", "multiply", "minimum"])
def test_unique_indices(op: str) -> None:
    """Some of them out of range, in one or the other way."""
    ROWS.check(np.array([[2], [-1], [0], [9], [3]], np.int32), op, unique=True)
    CASES["windows"].check(np.array([[0, 0], [2, 4], [4, -1]], np.int32), op, unique=True)


@pytest.mark.parametrize("op", ["add", "set", "multiply"])
def test_unique_complex(op: str) -> None:
    ROWS.check(np.array([[2], [-1], [0], [9], [3]], np.int32), op, "complex<f64>", unique=True)


@pytest.mark.parametrize("element", ["f64", "complex<f64>"])
def test_multiply_with_one_window(element: str) -> None:
    CASES["one window"].check(np.array([4, 1], np.int32), "multiply", element)


@pytest.mark.parametrize("element", ["f64", "complex<f64>"])
def test_multiply_by_inactive_updates_that_meet(element: str) -> None:
    text = ROWS.text("multiply", element)
    t = tensor(ROWS.updates, element)
    text = text.replace(f", %u: {t}", "").replace(
        "%0 =", f"%u = stablehlo.constant dense<{'2.5' if element == 'f64' else '(2.5, -1.0)'}> : {t}\n%0 ="
    )
    check_rule(text, random(ROWS.operand, element), np.array([[2], [2], [0], [9], [2]], np.int32))


@pytest.mark.parametrize("op", ["add", "set"])
@pytest.mark.parametrize("index", INDEX)
def test_index_types(index: str, op: str) -> None:
    """The operand is longer than the greatest index of the small types, so a bound would overflow."""
    least = np.iinfo(INDEX[index]).min
    for case in (
        Scatter([300, 2], [5, 1], [1, 2], [1], [0], [0], 1),
        Scatter([300, 2], [5, 1], [200, 1], [1], [1], [0], 1),
        Scatter([3, 2], [5, 1], [1, 2], [1], [0], [0], 1),
    ):
        indices = np.array([0, 3, 100, least, 100], INDEX[index]).reshape(5, 1)
        case.check(indices, op, index=index, order=1)


@pytest.mark.parametrize("op", ["add", "set", "maximum"])
@pytest.mark.parametrize(
    ("index", "masked"), [((2, 3), False), ((0, 0), False), ((4, 3), True), ((2, 5), True), ((-1, 2), True)]
)
def test_constant_indices(index: tuple[int, int], masked: bool, op: str) -> None:
    """A window that is known to be inside needs neither mask nor padding."""
    case = CASES["one window"]
    made = f"%i = stablehlo.constant dense<{list(index)}> : tensor<2xi32>\n%0 ="
    text = case.text(op).replace(", %i: tensor<2xi32>", "", 1).replace("%0 =", made, 1)
    assert ("stablehlo.pad" in str(load(text).vjp())) == masked
    check_rule(text, random(case.operand), random(case.updates))


@pytest.mark.parametrize("op", ["minimum", "maximum"])
def test_ties_are_shared(op: str) -> None:
    """Each of the k elements that attain the result gets 1 / k."""
    case = Scatter([3], [4, 1], [1], [], [0], [0], 1)
    text = case.text(op).replace("%0, %0", "%0, %one").replace("%1 =", f"{ONE} %1 =")
    x, u = np.array([1.0, 5.0, 2.0]), np.array([1.0, 1.0, 5.0, 7.0])
    *_, cx, cu = run(
        load(text).vjp(), [x, np.array([[0], [0], [1], [9]], np.int32), u, np.array([3.0, 4.0, 5.0])]
    )
    np.testing.assert_allclose(cx, [1, 2, 5])
    np.testing.assert_allclose(cu, [1, 1, 2, 0])


ONE = "%one = stablehlo.constant dense<1.0> : tensor<3xf64>"


def test_the_winner_takes_all() -> None:
    """Where updates meet, only the one that is in the result has a cotangent."""
    text = ROWS.text("set")
    x, u, ct = random(ROWS.operand), random(ROWS.updates), random(ROWS.operand)
    indices = np.array([[1], [1], [3], [9], [1]], np.int32)
    y, cx, cu = run(load(text).vjp(), [x, indices, u, ct])
    np.testing.assert_array_equal(y[1], u[4] ** 2)
    expected = np.zeros_like(u)
    expected[4], expected[2] = 2 * u[4] * ct[1], 2 * u[2] * ct[3]
    np.testing.assert_allclose(cu, expected)
    np.testing.assert_allclose(cx, 2 * x * ct * [[1], [0], [1], [0]])


def test_infinite_values_do_not_spread() -> None:
    """What does not reach a result is selected away, not multiplied by zero."""
    text = ROWS.text("set")
    u = random(ROWS.updates)
    u[0] = np.inf
    ct = random(ROWS.operand)
    *_, cu = run(
        load(text).vjp([2]), [random(ROWS.operand), np.array([[1], [1], [3], [9], [1]], np.int32), u, ct]
    )
    assert np.isfinite(cu).all()


@pytest.mark.parametrize("op", ["add", "set", "maximum"])
def test_operand_as_updates(op: str) -> None:
    case = Scatter([4, 3], [4, 1], [1, 3], [1], [0], [0], 1)
    text = case.text(op, operands="%x, %i, %x")
    indices = np.array([[2], [0], [0], [5]], np.int32)
    check_rule(text, random([4, 3]), indices, random([4, 3]))


@pytest.mark.parametrize("op", ["add", "set", "min", "max", "multiply"])
def test_against_jax(op: str) -> None:
    indices = np.array([[2], [0], [1], [9], [3]] if op == "multiply" else [[2], [0], [2], [9], [2]], np.int32)
    name = {"min": "minimum", "max": "maximum"}.get(op, op)
    text = ROWS.text(name, unique=op == "multiply")

    def function(x: Any, i: Any, u: Any) -> Any:
        at = x.at[i[:, 0]]
        return getattr(at, op)(u, mode="drop", unique_indices=op == "multiply") ** 2

    x, u = random(ROWS.operand), random(ROWS.updates)
    check_rule(text, x, indices, u, order=1, jax_function=function)


@st.composite
def scatters(draw: Any) -> Scatter:
    """Any numbers: each operand dimension is inserted, a batch or of the window, and indexed or not."""
    kinds = draw(st.lists(st.sampled_from(["inserted", "batch", "window"]), max_size=3))
    operand = [draw(st.integers(1, 3)) for _ in kinds]
    sizes = [draw(st.integers(1, n)) if k == "window" else 1 for k, n in zip(kinds, operand, strict=True)]
    of = {k: [i for i, kind in enumerate(kinds) if kind == k] for k in ("inserted", "batch", "window")}
    indexable = draw(st.permutations(of["inserted"] + of["window"]))
    where = indexable[: draw(st.integers(0, len(indexable)))]
    batches = [operand[i] for i in of["batch"]]
    free = draw(st.lists(st.integers(1, 2), max_size=2))
    order: list[int | None] = list(draw(st.permutations(range(len(batches) + len(free)))))
    indices = [[*batches, *free][i] for i in order]
    vector_dim = draw(st.integers(0, len(indices)))
    if len(where) != 1 or vector_dim < len(indices) or draw(st.booleans()):
        indices.insert(vector_dim, len(where))
        order.insert(vector_dim, None)
    rank = len(of["window"]) + len([i for i in range(len(indices)) if i != vector_dim])
    window = sorted(draw(st.permutations(range(rank)))[: len(of["window"])])
    index_batching = [order.index(i) for i in range(len(batches))]
    return Scatter(
        operand, indices, sizes, window, of["inserted"], where, vector_dim, of["batch"], index_batching
    )


@settings(max_examples=80, deadline=None, derandomize=True)
@given(scatters(), st.sampled_from(OPS))
def test_random_numbers(case: Scatter, op: str) -> None:
    case.check(RNG.integers(-2, 4, case.indices).astype(np.int32), op, order=1)


@pytest.mark.parametrize(
    ("op", "element", "reason"),
    [
        ("multiply", "f64", "two may meet"),
        ("maximum", "complex<f64>", "complex"),
        ("%c = stablehlo.subtract %b, %a : tensor<f64>", "f64", "body"),
        ("%c = stablehlo.power %a, %b : tensor<f64>", "f64", "body"),
        ("%c = stablehlo.add %b, %b : tensor<f64>", "f64", "body"),
        ("%d = stablehlo.add %a, %b : tensor<f64> %c = stablehlo.add %d, %b : tensor<f64>", "f64", "body"),
    ],
)
def test_refused(op: str, element: str, reason: str) -> None:
    with pytest.raises(Unsupported, match=reason):
        load(ROWS.text(op, element)).jvp()


def test_several_operands_are_refused() -> None:
    x, i, s = "tensor<3xf64>", "tensor<2x1xi32>", "tensor<f64>"
    u = "tensor<2xf64>"
    text = f"""
    func.func @main(%x: {x}, %y: {x}, %i: {i}, %u: {u}, %v: {u}) -> ({x}, {x}) {{
      %0:2 = "stablehlo.scatter"(%x, %y, %i, %u, %v) ({{
        ^bb0(%a: {s}, %b: {s}, %c: {s}, %d: {s}): stablehlo.return %c, %d : {s}, {s}
      }}) {{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
        scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}} : ({x}, {x}, {i}, {u}, {u}) -> ({x}, {x})
      return %0#0, %0#1 : {x}, {x}
    }}"""
    with pytest.raises(Unsupported, match="several operands"):
        load(text).jvp()
