"""simplify: each pattern, and similar ops that it must not change."""

import numpy as np
import pytest
from harness.check_rule import run
from harness.compare import compare
from harness.stages import F64, V, body, function

from tiduc.dialect.mlir.context import parse
from tiduc.passes.lower.simplify import simplify
from tiduc.program import load

C = "tensor<3xcomplex<f64>>"


def simplified(*lines: str, **more: str) -> str:
    module = parse(function(*lines, **more))
    simplify(module.operation)
    return str(module)


def constant(name: str, value: str, type_: str = V) -> str:
    return f"%{name} = stablehlo.constant dense<{value}> : {type_}"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([constant("c", "1.0"), f"%y = stablehlo.multiply %x, %c : {V}"], []),
        ([constant("c", "1.0"), f"%y = stablehlo.multiply %c, %x : {V}"], []),
        ([constant("c", "1.0"), f"%y = stablehlo.divide %x, %c : {V}"], []),
        ([constant("c", "0.0"), f"%y = stablehlo.add %x, %c : {V}"], []),
        ([constant("c", "0.0"), f"%y = stablehlo.add %c, %x : {V}"], []),
        ([constant("c", "0.0"), f"%y = stablehlo.subtract %x, %c : {V}"], []),
        ([f"%0 = stablehlo.negate %x : {V}", f"%y = stablehlo.negate %0 : {V}"], []),
        ([f"%0 = stablehlo.negate %x : {V}", f"%y = stablehlo.add %x, %0 : {V}"], ["subtract"]),
        # what is not neutral stays
        ([constant("c", "1.0"), f"%y = stablehlo.divide %c, %x : {V}"], ["constant", "divide"]),
        ([constant("c", "1.0"), f"%y = stablehlo.add %c, %x : {V}"], ["constant", "add"]),
        (
            [constant("c", "[1.0, 1.0, 2.0]"), f"%y = stablehlo.multiply %c, %x : {V}"],
            ["constant", "multiply"],
        ),
        # x * 0 is NaN where x is not finite
        ([constant("c", "0.0"), f"%y = stablehlo.multiply %c, %x : {V}"], ["constant", "multiply"]),
        ([constant("c", "0x7FF8000000000000"), f"%y = stablehlo.add %c, %x : {V}"], ["constant", "add"]),
    ],
)
def test_simplify(lines: list[str], expected: list[str]) -> None:
    assert body(simplified(*lines)) == expected


def test_simplify_complex_and_small_types() -> None:
    for type_, one in (
        (C, "(1.0, 0.0)"),
        ("tensor<3xbf16>", "1.0"),
        ("tensor<f32>", "1.0"),
        ("tensor<3xi32>", "1"),
    ):
        lines = [constant("c", one, type_), f"%y = stablehlo.multiply %x, %c : {type_}"]
        assert body(simplified(*lines, inputs=f"x: {type_}", output=f"%y: {type_}")) == []
    lines = [constant("c", "(1.0, 1.0)", C), f"%y = stablehlo.multiply %x, %c : {C}"]
    assert body(simplified(*lines, inputs=f"x: {C}", output=f"%y: {C}")) == ["constant", "multiply"]


def test_simplify_in_regions() -> None:
    """Bodies of reducers are simplified, and stay valid."""
    text = simplified(
        constant("zero", "0.0", F64),
        f"""%y = "stablehlo.reduce"(%x, %zero) ({{
        ^bb0(%p: {F64}, %q: {F64}):
          %one = stablehlo.constant dense<1.0> : {F64}
          %m = stablehlo.multiply %p, %one : {F64}
          %s = stablehlo.add %m, %q : {F64}
          "stablehlo.return"(%s) : ({F64}) -> ()
        }}) {{dimensions = array<i64: 0>}} : ({V}, {F64}) -> {F64}""",
        output="%y: tensor<f64>",
    )
    assert "multiply" not in text
    compare(run(load(text), [np.arange(3.0)]), [3.0])
