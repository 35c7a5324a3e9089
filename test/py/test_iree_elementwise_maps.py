"""Tests the pass that groups elementwise ops as `stablehlo.map`, which IREE compiles faster.

The tests check which ops are grouped, and that values do not change.
"""

from unittest.mock import patch

import numpy as np
import pytest
from harness.one_module import compiled_as_one
from harness.sources import source_of

from tiduc.backends.iree import pipeline
from tiduc.backends.iree.fast.compile_time.elementwise_maps import elementwise_maps
from tiduc.dialect.mlir.context import parse
from tiduc.loading import load

ARRAY, ROW = "tensor<4x5xf32>", "tensor<5xf32>"


def maps_of(
    body: str, result: str = ARRAY, arguments: str = f"%x: {ARRAY}, %y: {ARRAY}, %r: {ROW}"
) -> list[int]:
    """Runs the pass on a function, and returns the number of ops in each map, not counting constants and `return`."""
    module = parse(f"func.func @main({arguments}) -> ({result}) {{ {body} }}")
    count = elementwise_maps(module)
    assert module.operation.verify()
    _, *maps = str(module).split('"stablehlo.map"')
    assert len(maps) == count
    inside = [text.partition("stablehlo.return")[0] for text in maps]
    return [text.count(" = stablehlo.") - text.count(" = stablehlo.constant") for text in inside]


TWO = f"%0 = stablehlo.multiply %x, %y : {ARRAY} %1 = stablehlo.negate %0 : {ARRAY}"
"""Two ops that become one map if %0 has no other reader."""

GROUPS = {
    "a chain": (f"{TWO} return %1 : {ARRAY}", [2]),
    "two readers in one map": (f"{TWO} %2 = stablehlo.add %1, %0 : {ARRAY} return %2 : {ARRAY}", [3]),
    "an operand twice": (f"{TWO} %2 = stablehlo.add %1, %1 : {ARRAY} return %2 : {ARRAY}", [3]),
    "a constant": (
        f"%c = stablehlo.constant dense<2.0> : {ARRAY} {TWO} %2 = stablehlo.clamp %c, %1, %c : {ARRAY}"
        f" return %2 : {ARRAY}",
        [3],
    ),
    "a scalar constant": (
        f"%c = stablehlo.constant dense<2.0> : tensor<f32> {TWO}"
        f"%2 = stablehlo.clamp %c, %1, %c : (tensor<f32>, {ARRAY}, tensor<f32>) -> {ARRAY} return %2 : {ARRAY}",
        [3],
    ),
    "one op": (f"%0 = stablehlo.negate %x : {ARRAY} return %0 : {ARRAY}", []),
    "constants alone": (
        f"%c = stablehlo.constant dense<2.0> : {ARRAY} %0 = stablehlo.sine %c : {ARRAY}"
        f" %1 = stablehlo.negate %0 : {ARRAY} return %1 : {ARRAY}",
        [],
    ),
    "a reader that is not elementwise": (
        f"{TWO} %2 = stablehlo.reverse %1, dims = [0] : {ARRAY} %3 = stablehlo.add %2, %0 : {ARRAY}"
        f" return %3 : {ARRAY}",
        [],
    ),
    "two maps": (
        f"{TWO} %2 = stablehlo.reverse %1, dims = [0] : {ARRAY} %3 = stablehlo.sine %2 : {ARRAY}"
        f" %4 = stablehlo.negate %3 : {ARRAY} return %4 : {ARRAY}",
        [2, 2],
    ),
    "another shape": (
        f"%0 = stablehlo.negate %r : {ROW} %1 = stablehlo.broadcast_in_dim %0, dims = [1] : ({ROW}) -> {ARRAY}"
        f" %2 = stablehlo.add %1, %x : {ARRAY} return %2 : {ARRAY}",
        [],
    ),
    "a barrier": (
        f"%0 = stablehlo.negate %x : {ARRAY} %1 = stablehlo.optimization_barrier %0 : {ARRAY}"
        f" %2 = stablehlo.add %1, %y : {ARRAY} return %2 : {ARRAY}",
        [],
    ),
}


@pytest.mark.parametrize("name", GROUPS)
def test_ops_that_join_a_map(name: str) -> None:
    body, wanted = GROUPS[name]
    assert maps_of(body) == wanted


def test_an_op_with_another_reader_stays() -> None:
    """An op whose value is also a result is not moved into a map, because it would be computed twice."""
    assert maps_of(f"{TWO} return %0, %1 : {ARRAY}, {ARRAY}", f"{ARRAY}, {ARRAY}") == []


@pytest.mark.parametrize("type_", ["tensor<f32>", "tensor<?xf32>", "tensor<3xcomplex<f32>>", "tensor<3xui8>"])
def test_types_that_stay(type_: str) -> None:
    """The pass makes no maps of ops on scalars, arrays of dynamic shape, complex numbers or unsigned integers."""
    body = f"%0 = stablehlo.multiply %x, %x : {type_} %1 = stablehlo.add %0, %x : {type_} return %1 : {type_}"
    assert maps_of(body, type_, f"%x: {type_}") == []


FLOATS = (
    "abs add atan2 cbrt ceil cosine divide exponential exponential_minus_one floor log log_plus_one logistic maximum"
    " minimum multiply negate power remainder round_nearest_afz round_nearest_even rsqrt sign sine sqrt subtract tan"
    " tanh"
).split()
INTEGERS = (
    "abs add and count_leading_zeros divide maximum minimum multiply negate not or popcnt power remainder shift_left"
    " shift_right_arithmetic shift_right_logical sign subtract xor"
).split()
BINARY = (
    "add and atan2 divide maximum minimum multiply or power remainder shift_left shift_right_arithmetic"
    " shift_right_logical subtract xor"
).split()


def applied(ops: list[str], type_: str) -> str:
    """The text of a function that sums the results of ops, compares the sum, selects, and converts.

    IREE compiles the function as one kernel.
    """
    array, others = f"tensor<3x7x{type_}>", f"tensor<3x7x{'i32' if type_[0] == 'f' else 'f32'}>"
    predicates, lines = "tensor<3x7xi1>", [f"%s = stablehlo.maximum %x, %y : {array}"]
    for i, op in enumerate(ops):
        lines.append(f"%v{i} = stablehlo.{op} {'%x, %y' if op in BINARY else '%x'} : {array}")
        lines.append(f"%s{i} = stablehlo.add {f'%s{i - 1}' if i else '%s'}, %v{i} : {array}")
    last = f"%s{len(ops) - 1}"
    body = "\n      ".join(lines)
    return f"""func.func @main(%x: {array}, %y: {array}) -> ({array}, {others}) {{
      {body}
      %0 = stablehlo.compare LT, {last}, %x : ({array}, {array}) -> {predicates}
      %1 = stablehlo.not %0 : {predicates}
      %2 = stablehlo.select %1, {last}, %y : {predicates}, {array}
      %3 = stablehlo.subtract %s, %x : {array}
      %4 = stablehlo.convert %3 : ({array}) -> {predicates}
      %5 = stablehlo.convert %4 : ({predicates}) -> {others}
      return %2, %5 : {array}, {others}
    }}"""


PROGRAMS = {
    "f16": applied(["add", "maximum", "divide", "sqrt", "negate"], "f16"),
    **{t: applied(FLOATS, t) for t in ("f32", "f64")},
    **{t: applied(INTEGERS, t) for t in ("i8", "i32", "i64")},
}


@pytest.mark.more
def test_values_stay_as_they_are() -> None:
    """All elementwise ops on real numbers give equal values in maps and without maps."""
    source = source_of(load(PROGRAMS["f32"])).stablehlo
    assert isinstance(source, str) and "stablehlo.map" in source
    entries = tuple(entry for entry in pipeline.PIPELINE if entry.function is not elementwise_maps)
    with_maps = compiled_as_one(PROGRAMS)
    with patch.object(pipeline, "PIPELINE", entries):
        without = compiled_as_one(PROGRAMS)
    random = np.random.default_rng(0)
    for name in PROGRAMS:
        kind = name.replace("f", "float").replace("i", "int")
        x, y = random.uniform(1, 7, (2, 3, 7)).astype(kind)
        for actual, expected in zip(with_maps[name](x, y), without[name](x, y), strict=True):
            assert np.isfinite(actual).all()
            np.testing.assert_array_equal(actual, expected, err_msg=name)
