"""Sorts on CPUs: merge sort, or insertion sort for short rows; stable, with any comparator."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from harness.allocations import allocated
from numpy.typing import NDArray

import tiduc
from tiduc.backends.iree import legalize_for_iree
from tiduc.backends.iree.compile import compile_module
from tiduc.dialect.context import parse, stage
from tiduc.runtime.run import Executable

Array = NDArray[Any]
RNG = np.random.default_rng(0)


def sorting(shape: tuple[int, ...], elements: list[str], dimension: int, comparator: str) -> str:
    """A stable sort; the comparator reads %a and %b, a pair of the first array's, then %c and %d, and so on."""
    sizes = "x".join(map(str, shape))
    types = [f"tensor<{sizes}x{e}>" for e in elements]
    names = ", ".join(f"%x{i}" for i in range(len(types)))
    pairs = ", ".join(
        f"%{chr(97 + 2 * i + j)}: tensor<{e}>" for i, e in enumerate(elements) for j in range(2)
    )
    takes, gives = ", ".join(f"%x{i}: {t}" for i, t in enumerate(types)), ", ".join(types)
    results = ", ".join(f"%r#{i}" for i in range(len(types))) if len(types) > 1 else "%r"
    count = f":{len(types)}" if len(types) > 1 else ""
    return f"""func.func @FUNCTION({takes}) -> ({gives}) {{
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
    """Keys that order floats by IEEE 754's total order."""
    bits = x.view(np.int64)
    return bits ^ ((bits >> 63) & np.int64(2**63 - 1))


def by_two() -> Array:
    """The permutation that sorts by KEYS, then by SECOND in descending order."""
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


@pytest.fixture(scope="module")
def sorts() -> Callable[[str], Executable]:
    module = parse("\n".join(text.replace("FUNCTION", name) for name, (text, *_) in SORTS.items()))
    legalize_for_iree(module)
    text = stage(str)(module)
    assert "stablehlo.sort" not in text
    vmfb = compile_module(text)
    return lambda name: Executable(vmfb, entry=name)


@pytest.mark.parametrize("name", SORTS)
def test_sorts_are_stable(sorts: Callable[[str], Executable], name: str) -> None:
    _, arguments, places = SORTS[name]
    axis = {"two": 1, "short": 1, "unsigned": 1}.get(name, 0)
    for y, x in zip(sorts(name)(*arguments), arguments, strict=True):
        expected = np.take_along_axis(x, places(), axis)
        assert y.tobytes() == expected.tobytes()


@pytest.mark.parametrize(("rows", "n", "counts"), [(4, 50, (3, 7)), (1, 200, (1, 1)), (300, 5, (5, 1))])
def test_only_slices_that_are_read_are_sorted(rows: int, n: int, counts: tuple[int, int]) -> None:
    """If only the first elements are read, neither the full sort nor rounds of merging remain."""
    x = RNG.integers(0, 9, (rows, n)).astype(np.float32)
    places = np.argsort(-x, axis=1, kind="stable").astype(np.int32)
    t, i = f"tensor<{rows}x{n}xf32>", f"tensor<{rows}x{n}xi32>"
    types = [f"tensor<{rows}x{count}x{e}>" for count, e in zip(counts, ("f32", "i32"), strict=True)]
    program = tiduc.load(f"""func.func @main(%x: {t}) -> ({", ".join(types)}) {{
      %i = stablehlo.iota dim = 1 : {i}
      %r:2 = "stablehlo.sort"(%x, %i) ({{
        ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>):
          {less("f32", "GT")}
      }}) {{dimension = 1 : i64, is_stable = true}} : ({t}, {i}) -> ({t}, {i})
      %0 = stablehlo.slice %r#0 [0:{rows}, 0:{counts[0]}] : ({t}) -> {types[0]}
      %1 = stablehlo.slice %r#1 [0:{rows}, 0:{counts[1]}] : ({i}) -> {types[1]}
      return %0, %1 : {", ".join(types)}
    }}""")
    source = program.source().stablehlo
    assert isinstance(source, str) and "stablehlo.while" not in source and "stablehlo.sort" not in source
    values, positions = program.compile()(x)
    np.testing.assert_array_equal(positions, places[:, : counts[1]])
    np.testing.assert_array_equal(values, np.take_along_axis(x, places, 1)[:, : counts[0]])


@pytest.mark.parametrize("n", [9, 300])
@pytest.mark.parametrize(("dimension", "integer"), [(0, "i32"), (1, "i64")])
def test_sorted_numbers_are_not_stored(n: int, dimension: int, integer: str) -> None:
    """An iota along the sorted dimension is no array: the sort permutes numbers. The comparator may read it."""
    shape = (n, 2) if dimension == 0 else (2, n)
    x = RNG.integers(0, 5, shape).astype(np.float32)
    t, i = (f"tensor<{shape[0]}x{shape[1]}x{e}>" for e in ("f32", integer))
    program = tiduc.load(f"""func.func @main(%x: {t}) -> ({i}, {t}) {{
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
    }}""")
    numbers = np.broadcast_to(np.arange(n).reshape((n, 1) if dimension == 0 else (1, n)), shape)
    places = np.lexsort((-numbers, x), axis=dimension)
    positions, values = program.compile()(x)
    np.testing.assert_array_equal(positions, places)
    np.testing.assert_array_equal(values, np.take_along_axis(x, places, dimension))


def test_the_gradient_of_a_weighted_sort_takes_one_array() -> None:
    """It keeps the numbers of the sorted elements: the scatter reads them, and the sum is not padded."""
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
