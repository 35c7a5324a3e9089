"""Tests stable sorts on CPUs with any comparator. tiduc emits a merge sort, or an insertion sort for short rows."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from harness.allocations import allocated
from harness.one_module import Given, compiled_as_one
from harness.sources import source_of
from numpy.typing import NDArray

import tiduc

Array = NDArray[Any]
RNG = np.random.default_rng(0)


def sorting(shape: tuple[int, ...], elements: list[str], dimension: int, comparator: str) -> str:
    """The text of a stable sort of several arrays.

    The comparator reads two elements of the first array, %a and %b; of the second, %c and %d; and so on.
    """
    sizes = "x".join(map(str, shape))
    types = [f"tensor<{sizes}x{e}>" for e in elements]
    names = ", ".join(f"%x{i}" for i in range(len(types)))
    pairs = ", ".join(
        f"%{chr(97 + 2 * i + j)}: tensor<{e}>" for i, e in enumerate(elements) for j in range(2)
    )
    takes, gives = ", ".join(f"%x{i}: {t}" for i, t in enumerate(types)), ", ".join(types)
    results = ", ".join(f"%r#{i}" for i in range(len(types))) if len(types) > 1 else "%r"
    count = f":{len(types)}" if len(types) > 1 else ""
    return f"""func.func @main({takes}) -> ({gives}) {{
      %r{count} = "stablehlo.sort"({names}) ({{
        ^bb0({pairs}):
          {comparator}
      }}) {{dimension = {dimension} : i64, is_stable = true}} : ({gives}) -> ({gives})
      return {results} : {gives}
    }}
    """


def less(element: str, direction: str = "LT", how: str = "") -> str:
    return f"""%p = stablehlo.compare {direction}, %a, %b{how} : (tensor<{element}>, tensor<{element}>) -> tensor<i1>
          stablehlo.return %p : tensor<i1>"""


BY_TWO = """%p = stablehlo.compare LT, %a, %b : (tensor<i32>, tensor<i32>) -> tensor<i1>
          %q = stablehlo.compare EQ, %a, %b : (tensor<i32>, tensor<i32>) -> tensor<i1>
          %s = stablehlo.compare GT, %c, %d : (tensor<f32>, tensor<f32>) -> tensor<i1>
          %t = stablehlo.and %q, %s : tensor<i1>
          %u = stablehlo.or %p, %t : tensor<i1>
          stablehlo.return %u : tensor<i1>"""
BY_REAL = """%re = stablehlo.real %a : (tensor<complex<f32>>) -> tensor<f32>
          %im = stablehlo.real %b : (tensor<complex<f32>>) -> tensor<f32>
          %p = stablehlo.compare LT, %re, %im : (tensor<f32>, tensor<f32>) -> tensor<i1>
          stablehlo.return %p : tensor<i1>"""

ODD = np.concatenate([RNG.standard_normal(300), [np.nan, -0.0, 0.0, np.inf, -np.inf, -np.nan]])
KEYS = RNG.integers(-3, 3, (3, 101, 2)).astype(np.int32)
SECOND = RNG.integers(-3, 3, (3, 101, 2)).astype(np.float32)
NUMBERS = np.arange(101, dtype=np.uint8)[None, :, None] + np.zeros((3, 1, 2), np.uint8)
COMPLEX = (RNG.integers(0, 9, 1000) + 1j * np.arange(1000)).astype(np.complex64)
TIED = RNG.integers(0, 20, 1025).astype(np.float64)
FIELDS = [(n, RNG.integers(0, 7, n).astype(np.int16)) for n in (2, 40, 127, 128, 300)]


def total_order(x: Array) -> Array:
    """Integer keys whose order is IEEE 754's total order of the f64 numbers x."""
    bits = x.view(np.int64)
    return bits ^ ((bits >> 63) & np.int64(2**63 - 1))


def by_two() -> Array:
    """The permutation that sorts by KEYS, and sorts elements with equal keys by SECOND in descending order."""
    return np.lexsort((-SECOND, KEYS), axis=1)


SORTS: dict[str, tuple[str, list[Array], Callable[[], Array]]] = {
    "total": (
        sorting(ODD.shape, ["f64"], 0, less("f64", how=", TOTALORDER")),
        [ODD],
        lambda: np.argsort(total_order(ODD), kind="stable"),
    ),
    "two": (
        sorting(KEYS.shape, ["i32", "f32", "ui8"], 1, BY_TWO),
        [KEYS, SECOND, NUMBERS],
        by_two,
    ),
    "complex": (
        sorting(COMPLEX.shape, ["complex<f32>"], 0, BY_REAL),
        [COMPLEX],
        lambda: np.argsort(COMPLEX.real, kind="stable"),
    ),
    "down": (
        sorting(TIED.shape, ["f64", "i64"], 0, less("f64", "GT")),
        [TIED, np.arange(len(TIED))],
        lambda: np.argsort(-TIED, kind="stable"),
    ),
    "unsigned": (
        sorting((2, 300), ["ui64"], 1, less("ui64")),
        [RNG.integers(0, 2**64, (2, 300), np.uint64)],
        lambda: np.argsort(SORTS["unsigned"][1][0], axis=1, kind="stable"),
    ),
    "first": (
        sorting((150, 3), ["i1", "i32"], 0, less("i1", how=", UNSIGNED")),
        [RNG.integers(0, 2, (150, 3)).astype(bool), np.arange(450, dtype=np.int32).reshape(150, 3)],
        lambda: np.argsort(SORTS["first"][1][0], axis=0, kind="stable"),
    ),
    "short": (
        sorting((3, 9, 2), ["i32", "f32", "ui8"], 1, BY_TWO),
        [x[:, :9] for x in (KEYS, SECOND, NUMBERS)],
        lambda: np.lexsort((-SECOND[:, :9], KEYS[:, :9]), axis=1),
    ),
    "short_complex": (
        sorting((20,), ["complex<f32>"], 0, BY_REAL),
        [COMPLEX[:20]],
        lambda: np.argsort(COMPLEX[:20].real, kind="stable"),
    ),
    "one": (sorting((1,), ["i16"], 0, less("i16")), [np.ones(1, np.int16)], lambda: np.zeros(1, np.int64)),
    **{
        f"of{n}": (
            sorting((n,), ["i16"], 0, less("i16")),
            [x],
            lambda x=x: np.argsort(x, kind="stable"),  # type: ignore[misc]
        )
        for n, x in FIELDS
    },
}


FIRST = {"some": (4, 50, (3, 7)), "one": (1, 200, (1, 1)), "all": (300, 5, (5, 1))}
"""For each name: the number of rows, the elements of a row, and how many sorted values and positions are read."""


def first(rows: int, n: int, counts: tuple[int, int]) -> Given:
    """A program that sorts rows in descending order and returns the first elements and their original positions."""
    t, i = f"tensor<{rows}x{n}xf32>", f"tensor<{rows}x{n}xi32>"
    types = [f"tensor<{rows}x{count}x{e}>" for count, e in zip(counts, ("f32", "i32"), strict=True)]
    text = f"""func.func @main(%x: {t}) -> ({", ".join(types)}) {{
      %i = stablehlo.iota dim = 1 : {i}
      %r:2 = "stablehlo.sort"(%x, %i) ({{
        ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>):
          {less("f32", "GT")}
      }}) {{dimension = 1 : i64, is_stable = true}} : ({t}, {i}) -> ({t}, {i})
      %0 = stablehlo.slice %r#0 [0:{rows}, 0:{counts[0]}] : ({t}) -> {types[0]}
      %1 = stablehlo.slice %r#1 [0:{rows}, 0:{counts[1]}] : ({i}) -> {types[1]}
      return %0, %1 : {", ".join(types)}
    }}"""
    return text, [RNG.integers(0, 9, (rows, n)).astype(np.float32)]


def numbered(n: int, dimension: int, integer: str) -> Given:
    """A program that sorts positions and floats by a comparator that reads both."""
    shape = (n, 2) if dimension == 0 else (2, n)
    t, i = (f"tensor<{shape[0]}x{shape[1]}x{e}>" for e in ("f32", integer))
    text = f"""func.func @main(%x: {t}) -> ({i}, {t}) {{
      %i = stablehlo.iota dim = {dimension} : {i}
      %r:2 = "stablehlo.sort"(%i, %x) ({{
        ^bb0(%a: tensor<{integer}>, %b: tensor<{integer}>, %c: tensor<f32>, %d: tensor<f32>):
          %p = stablehlo.compare LT, %c, %d : (tensor<f32>, tensor<f32>) -> tensor<i1>
          %q = stablehlo.compare EQ, %c, %d : (tensor<f32>, tensor<f32>) -> tensor<i1>
          %s = stablehlo.compare GT, %a, %b : (tensor<{integer}>, tensor<{integer}>) -> tensor<i1>
          %t = stablehlo.and %q, %s : tensor<i1>
          %u = stablehlo.or %p, %t : tensor<i1>
          stablehlo.return %u : tensor<i1>
      }}) {{dimension = {dimension} : i64}} : ({i}, {t}) -> ({i}, {t})
      return %r#0, %r#1 : {i}, {t}
    }}"""
    return text, [RNG.integers(0, 5, shape).astype(np.float32)]


NUMBERED = [(n, dimension, integer) for n in (9, 300) for dimension, integer in ((0, "i32"), (1, "i64"))]
PROGRAMS: dict[Any, Given] = {
    **{name: (text, arguments) for name, (text, arguments, _) in SORTS.items()},
    **{("first", name): first(*case) for name, case in FIRST.items()},
    **{("numbered", *case): numbered(*case) for case in NUMBERED},
}


@pytest.fixture(scope="module")
def results() -> dict[Any, tuple[Array, ...]]:
    """Fixture: the results of all programs, computed by one function."""
    return compiled_as_one(PROGRAMS).results


def source(name: Any) -> str:
    text = source_of(tiduc.load(PROGRAMS[name][0])).stablehlo
    assert isinstance(text, str)
    return text


@pytest.mark.parametrize("name", SORTS)
def test_sorts_are_stable(results: dict[Any, tuple[Array, ...]], name: str) -> None:
    assert "stablehlo.sort" not in source(name)
    _, arguments, places = SORTS[name]
    axis = {"two": 1, "short": 1, "unsigned": 1}.get(name, 0)
    for y, x in zip(results[name], arguments, strict=True):
        expected = np.take_along_axis(x, places(), axis)
        assert y.tobytes() == expected.tobytes()


@pytest.mark.parametrize("name", FIRST)
def test_only_slices_that_are_read_are_sorted(results: dict[Any, tuple[Array, ...]], name: str) -> None:
    """If only the first elements of a sort are read, no full sort is emitted, and their values are right."""
    _, _, counts = FIRST[name]
    (x,) = PROGRAMS["first", name][1]
    places = np.argsort(-x, axis=1, kind="stable").astype(np.int32)
    assert "stablehlo.while" not in source(("first", name))
    assert "stablehlo.sort" not in source(("first", name))
    values, positions = results["first", name]
    np.testing.assert_array_equal(positions, places[:, : counts[1]])
    np.testing.assert_array_equal(values, np.take_along_axis(x, places, 1)[:, : counts[0]])


@pytest.mark.parametrize("case", NUMBERED)
def test_sorted_numbers_are_not_stored(
    results: dict[Any, tuple[Array, ...]], case: tuple[int, int, str]
) -> None:
    """A sort of an iota and floats is right, also if the comparator reads the iota.

    The iota is not stored, because the sort permutes positions anyway.
    """
    n, dimension, _ = case
    (x,) = PROGRAMS["numbered", *case][1]
    numbers = np.broadcast_to(np.arange(n).reshape((n, 1) if dimension == 0 else (1, n)), x.shape)
    places = np.lexsort((-numbers, x), axis=dimension)
    positions, values = results["numbered", *case]
    np.testing.assert_array_equal(positions, places)
    np.testing.assert_array_equal(values, np.take_along_axis(x, places, dimension))


def test_the_gradient_of_a_weighted_sort_takes_one_array() -> None:
    """The gradient of a weighted sum of a sorted array is right, and takes at most four arrays of the input's size.

    Only one temporary array is needed, for the positions of the sorted elements.
    """
    n = 10_000
    program = tiduc.load(f"""func.func @main(%x: tensor<{n}xf32>, %w: tensor<{n}xf32>) -> tensor<f32> {{
      %y = "stablehlo.sort"(%x) ({{
        ^bb0(%a: tensor<f32>, %b: tensor<f32>):
          {less("f32")}
      }}) {{dimension = 0 : i64, is_stable = true}} : (tensor<{n}xf32>) -> tensor<{n}xf32>
      %p = stablehlo.multiply %y, %w : tensor<{n}xf32>
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %s = stablehlo.reduce(%p init: %zero) applies stablehlo.add across dimensions = [0]
        : (tensor<{n}xf32>, tensor<f32>) -> tensor<f32>
      return %s : tensor<f32>
    }}""").grad("x", value=True)
    x, w = RNG.standard_normal((2, n)).astype(np.float32)
    compiled = program.compile()
    places = np.argsort(x, kind="stable")
    value, dx = compiled(x, w)
    np.testing.assert_allclose(value, x[places].astype(np.float64) @ w, rtol=1e-5)
    np.testing.assert_array_equal(dx[places], w)
    assert allocated(compiled.vmfb, [x, w]) <= 4 * 4 * n / 1024 + 2
