"""Sorts on CPUs: merged, stable, by any comparator."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tiduc.dialect.context import parse, stage
from tiduc.passes.iree import legalize_for_iree
from tiduc.runtime.compile import compile_module
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
FIELDS = [(n, RNG.integers(0, 7, n).astype(np.int16)) for n in (112, 127, 128, 129)]


def total_order(x: Array) -> Array:
    """Keys of floats in IEEE 754's total order."""
    bits = x.view(np.int64)
    return bits ^ ((bits >> 63) & np.int64(2**63 - 1))


def by_two() -> Array:
    """The places that sort KEYS, then SECOND downwards."""
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
def test_sorts_are_stable_merges(sorts: Callable[[str], Executable], name: str) -> None:
    _, arguments, places = SORTS[name]
    axis = {"two": 1, "unsigned": 1}.get(name, 0)
    for y, x in zip(sorts(name)(*arguments), arguments, strict=True):
        expected = np.take_along_axis(x, places(), axis)
        assert y.tobytes() == expected.tobytes()
