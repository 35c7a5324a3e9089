"""Static libraries of small programs with computed indices, loops and branches, which are compiled to scalar ops."""

from typing import Any

import numpy as np
import pytest
from cases.index_cases import CASES, Indexing, indexings
from harness.interpret import interpret_at
from harness.scalars import evaluate, scalars
from hypothesis import given, settings
from hypothesis import strategies as st

from tiduc.backends.iree.static.scalars.numbers import ScalarOps, TooLarge
from tiduc.backends.iree.static.scalars.ranges import LIMITS, decided
from tiduc.dialect.mlir.context import parse
from tiduc.program import from_module


def check(text: str, *arrays: Any, is_scalars: bool = True) -> None:
    """Compares the results of a program's scalar ops with the reference engine's for several samples of the arguments.

    If not `is_scalars`, asserts instead that the program cannot be compiled to scalar ops.
    """
    found = scalars(from_module(parse(text)))
    assert (found is not None) == is_scalars
    if found is None:
        return
    samples = [[x[i] for x in arrays] for i in range(len(arrays[0]))]
    for i, wanted in enumerate(interpret_at(text, samples)):
        for x, y in zip(evaluate(found, arrays), wanted, strict=True):
            np.testing.assert_array_equal(x[i], y)


def check_indexing(case: Indexing, op: str, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    if 0 in (*case.operand, *case.indices, *case.windows):
        return
    indices = rng.integers(-2, 6, (4, *case.indices)).astype(np.int32)
    x, u = (np.asarray(rng.integers(-9, 9, (4, *sizes)), float) for sizes in (case.operand, case.windows))
    check(case.gather(), x, indices)
    check(case.scatter(op), x, indices, u)


@pytest.mark.parametrize("name", CASES)
def test_gathers_and_scatters(name: str) -> None:
    """Gathers and scatters give the reference's results, also for indices out of range: gathers clamp the indices, and
    scatters skip the windows.
    """
    check_indexing(CASES[name], "add" if "elements" in name else "set")


@pytest.mark.more
@settings(max_examples=150, deadline=None)
@given(indexings(), st.sampled_from(["add", "set", "maximum", "swapped"]), st.integers(0, 999))
def test_random_gathers_and_scatters(case: Indexing, op: str, seed: int) -> None:
    check_indexing(case, op, seed)


def test_dynamic_slices() -> None:
    text = """func.func @main(%x: tensor<4x3xf64>, %u: tensor<2x1xf64>, %i: tensor<i32>, %j: tensor<i64>)
        -> (tensor<2x2xf64>, tensor<4x3xf64>) {
      %k = stablehlo.convert %i : (tensor<i32>) -> tensor<i64>
      %0 = stablehlo.dynamic_slice %x, %k, %j, sizes = [2, 2]
        : (tensor<4x3xf64>, tensor<i64>, tensor<i64>) -> tensor<2x2xf64>
      %1 = stablehlo.dynamic_update_slice %x, %u, %k, %j
        : (tensor<4x3xf64>, tensor<2x1xf64>, tensor<i64>, tensor<i64>) -> tensor<4x3xf64>
      return %0, %1 : tensor<2x2xf64>, tensor<4x3xf64>
    }"""
    i, j = (x.ravel() for x in np.mgrid[-2:6, -2:5])
    rng = np.random.default_rng(0)
    x, u = rng.standard_normal((len(i), 4, 3)), rng.standard_normal((len(i), 2, 1))
    check(text, x, u, i.astype(np.int32), j)


@pytest.mark.parametrize("rows", [1, 3, 8])
def test_updates_along_the_lane(rows: int) -> None:
    """An update at constant indices is right if it replaces all rows of the vectorized dimension, or only some of
    them.
    """
    text = f"""func.func @main(%x: tensor<8x3xf64>) -> tensor<8x3xf64> {{
      %c = stablehlo.constant dense<0> : tensor<i32>
      %u = stablehlo.constant dense<99.0> : tensor<{rows}x3xf64>
      %0 = stablehlo.dynamic_update_slice %x, %u, %c, %c
        : (tensor<8x3xf64>, tensor<{rows}x3xf64>, tensor<i32>, tensor<i32>) -> tensor<8x3xf64>
      %1 = stablehlo.negate %0 : tensor<8x3xf64>
      return %1 : tensor<8x3xf64>
    }}"""
    check(text, np.random.default_rng(0).standard_normal((2, 8, 3)))


def test_indices_of_narrow_types() -> None:
    """Indices of type i8 are right for a dimension of 200 elements.

    They cannot be clamped to the largest index, because it exceeds 127.
    """
    text = """func.func @main(%x: tensor<200xf64>, %i: tensor<i8>) -> tensor<1xf64> {
      %0 = stablehlo.dynamic_slice %x, %i, sizes = [1] : (tensor<200xf64>, tensor<i8>) -> tensor<1xf64>
      return %0 : tensor<1xf64>
    }"""
    check(text, np.arange(800.0).reshape(4, 200), np.array([-128, -1, 5, 127], np.int8))


BRANCHES = """func.func @main(%i: tensor<i32>, %x: tensor<2xf64>) -> tensor<2xf64> {
  %0 = "stablehlo.case"(%i) ({
    %1 = stablehlo.sine %x : tensor<2xf64>
    stablehlo.return %1 : tensor<2xf64>
  }, {
    stablehlo.return %x : tensor<2xf64>
  }, {
    %1 = stablehlo.reverse %x, dims = [0] : tensor<2xf64>
    stablehlo.return %1 : tensor<2xf64>
  }) : (tensor<i32>) -> tensor<2xf64>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %2 = stablehlo.compare LT, %i, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %3 = "stablehlo.if"(%2) ({
    %4 = stablehlo.negate %0 : tensor<2xf64>
    stablehlo.return %4 : tensor<2xf64>
  }, {
    stablehlo.return %0 : tensor<2xf64>
  }) : (tensor<i1>) -> tensor<2xf64>
  return %3 : tensor<2xf64>
}"""
LOOP = """func.func @main(%x: tensor<3xf64>, %n: tensor<i32>) -> (tensor<3xf64>, tensor<f64>) {
  %0 = stablehlo.constant dense<0> : tensor<i32>
  %1 = stablehlo.constant dense<1> : tensor<i32>
  %m = stablehlo.constant dense<3> : tensor<i32>
  %s = stablehlo.constant dense<0.0> : tensor<f64>
  %2:3 = stablehlo.while(%i = %0, %y = %x, %t = %s) : tensor<i32>, tensor<3xf64>, tensor<f64>
  cond {
    %4 = stablehlo.compare LT, %i, LIMIT : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %4 : tensor<i1>
  } do {
    %4 = stablehlo.dynamic_slice %y, %i, sizes = [1] : (tensor<3xf64>, tensor<i32>) -> tensor<1xf64>
    %5 = stablehlo.reshape %4 : (tensor<1xf64>) -> tensor<f64>
    %6 = stablehlo.multiply %5, %5 : tensor<f64>
    %7 = stablehlo.reshape %6 : (tensor<f64>) -> tensor<1xf64>
    %8 = stablehlo.dynamic_update_slice %y, %7, %i : (tensor<3xf64>, tensor<1xf64>, tensor<i32>) -> tensor<3xf64>
    %9 = stablehlo.add %t, %6 : tensor<f64>
    %10 = stablehlo.add %i, %1 : tensor<i32>
    stablehlo.return %10, %8, %9 : tensor<i32>, tensor<3xf64>, tensor<f64>
  }
  return %2#1, %2#2 : tensor<3xf64>, tensor<f64>
}"""


def test_branches_and_loops() -> None:
    """Branches give the reference's results.

    A loop is unrolled if its trip count is known from the program; otherwise the program is not compiled to scalar ops.
    """
    rng = np.random.default_rng(0)
    check(BRANCHES, np.arange(-2, 5, dtype=np.int32), rng.standard_normal((7, 2)))
    arrays = rng.standard_normal((2, 3)), np.array([1, 3], np.int32)
    check(LOOP.replace("LIMIT", "%m"), *arrays)
    check(LOOP.replace("LIMIT", "%n"), *arrays, is_scalars=False)


def test_an_endless_loop_ends() -> None:
    check(LOOP.replace("LIMIT", "%m").replace("add %i, %1", "add %i, %0"), is_scalars=False)


@pytest.mark.parametrize("kind", ["i1", "i32"])
def test_ops_on_integers(kind: str) -> None:
    """Each op on integers and booleans has the reference's values, or is not compiled to scalar ops."""
    t = f"tensor<{kind}>"
    some = np.random.default_rng(0).integers(-3, 4, (2, 20))
    x, y = (each.ravel() for each in np.mgrid[:2, :2]) if kind == "i1" else some
    x, y = (each.astype(bool if kind == "i1" else np.int32) for each in (x, y))
    names = "and or xor maximum minimum".split() if kind == "i32" else "and or xor".split()
    lines = [f"%r{i} = stablehlo.{name} %x, %y : {t}" for i, name in enumerate(names)]
    if kind == "i1":
        lines.append(f"%r{len(names)} = stablehlo.not %x : {t}")
    for name in ("EQ", "NE", "LT", "LE", "GT", "GE") if kind == "i32" else ("EQ", "NE"):
        i = len(lines)
        lines.append(f"%c{i} = stablehlo.compare {name}, %x, %y : ({t}, {t}) -> tensor<i1>")
        lines[-1] += f"\n%r{i} = stablehlo.select %c{i}, %x, %y : tensor<i1>, {t}"
    lines.append(f"%f = stablehlo.convert %x : ({t}) -> tensor<f64>")
    results = [*(f"%r{i}" for i in range(len(lines) - 1)), "%f"]
    types = ", ".join([*[t] * (len(results) - 1), "tensor<f64>"])
    body = "\n".join(lines)
    check(
        f"func.func @main(%x: {t}, %y: {t}) -> ({types}) {{\n{body}\nreturn {', '.join(results)} : {types}\n}}",
        x,
        y,
    )


def test_ops_that_may_overflow_are_refused() -> None:
    """Integer sums that may overflow and some ops on booleans are refused.

    Sums must wrap around in StableHLO, and LLVM would compare booleans as signed numbers. Ops whose ranges exclude
    overflow are accepted.
    """
    numbers = ScalarOps(100)
    x, y, flag = numbers.input(0, 0, "i32"), numbers.input(1, 0, "i32"), numbers.input(2, 0, "i1")
    for name, kind, operands in (
        ("add", "i32", (x, y)),
        ("LT", "i1", (flag, flag)),
        ("maximum", "i1", (flag, flag)),
    ):
        with pytest.raises(TooLarge):
            numbers.apply(name, kind, *operands)
    small = numbers.apply("minimum", "i32", numbers.apply("maximum", "i32", x, numbers.constant(0, "i32")),
        numbers.constant(9, "i32"))  # fmt: skip
    assert numbers.range(small) == (0, 9)
    assert numbers.range(numbers.apply("add", "i32", small, small)) == (0, 18)
    assert numbers.value(numbers.apply("LT", "i1", small, numbers.constant(0, "i32"))) == 0


@given(st.tuples(*[st.integers(-3, 3)] * 4), st.sampled_from(["EQ", "NE", "LT", "LE", "GT", "GE"]))
def test_decided_comparisons(ends: tuple[int, ...], name: str) -> None:
    """A comparison of two integers in known ranges is folded to a constant if and only if its result is equal for all
    integers in these ranges.
    """
    a, b, c, d = ends
    x, y = (min(a, b), max(a, b)), (min(c, d), max(c, d))
    compare = {
        "EQ": "__eq__",
        "NE": "__ne__",
        "LT": "__lt__",
        "LE": "__le__",
        "GT": "__gt__",
        "GE": "__ge__",
    }[name]
    values = {getattr(i, compare)(j) for i in range(x[0], x[1] + 1) for j in range(y[0], y[1] + 1)}
    assert decided(name, x, y) == (values.pop() if len(values) == 1 else None)
    assert LIMITS["i8"] == (-128, 127)
