"""Some ops that exporters leave in a program are not StableHLO. tiduc rewrites each to ops with equal results, or
refuses the op by name.
"""

from typing import Any

import numpy as np
import pytest

import tiduc
from tiduc.backends.reference.interpreter import evaluate
from tiduc.dialect.mlir.context import parse
from tiduc.models.legalize import legalize


def legal(body: str, signature: str) -> str:
    module = parse(f"func.func @main({signature} {{\n{body}\n}}")
    legalize(module)
    text = str(module)
    for dialect in ("arith.", "tensor.", "shape.", "index>"):
        assert dialect not in text, text
    return text


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("arith.addi %0, %1 : i64", 1),
        ("arith.subi %0, %1 : i64", -15),
        ("arith.muli %0, %1 : i64", -56),
        ("arith.divsi %1, %0 : i64", -1),
        ("arith.divui %1, %1 : i64", 1),
        ("arith.floordivsi %1, %0 : i64", -2),
        ("arith.ceildivsi %1, %0 : i64", -1),
        ("arith.floordivsi %0, %1 : i64", -1),
        ("arith.remsi %1, %0 : i64", 1),
        ("arith.maxsi %0, %1 : i64", 8),
        ("arith.minsi %0, %1 : i64", -7),
    ],
)
def test_integers(op: str, expected: int) -> None:
    body = f"""
      %0 = tensor.extract %x[] : tensor<i64>
      %1 = tensor.extract %y[] : tensor<i64>
      %2 = {op}
      %3 = tensor.from_elements %2 : tensor<i64>
      return %3 : tensor<i64>"""
    text = legal(body, "%x: tensor<i64>, %y: tensor<i64>) -> tensor<i64>")
    assert evaluate(text, [np.array(-7), np.array(8)])[0] == expected


@pytest.mark.parametrize(
    ("predicate", "compare"),
    [
        ("eq", np.equal),
        ("ne", np.not_equal),
        ("slt", np.less),
        ("sle", np.less_equal),
        ("sgt", np.greater),
        ("sge", np.greater_equal),
    ],
)
def test_comparisons_choose(predicate: str, compare: Any) -> None:
    body = f"""
      %0 = tensor.extract %x[] : tensor<i64>
      %1 = tensor.extract %y[] : tensor<i64>
      %2 = arith.cmpi {predicate}, %0, %1 : i64
      %3 = arith.constant 10 : i64
      %4 = arith.constant 20 : i64
      %5 = arith.select %2, %3, %4 : i64
      %6 = tensor.from_elements %5 : tensor<i64>
      return %6 : tensor<i64>"""
    text = legal(body, "%x: tensor<i64>, %y: tensor<i64>) -> tensor<i64>")
    for x, y in ((1, 2), (2, 1), (3, 3)):
        assert evaluate(text, [np.array(x), np.array(y)])[0] == (10 if compare(x, y) else 20)


def test_constants_and_conversions() -> None:
    body = """
      %0 = arith.constant dense<[1.0, 2.0]> : tensor<2xf64>
      %1 = stablehlo.convert %0 : (tensor<2xf64>) -> tensor<2xf32>
      %c = arith.constant 3 : i32
      %d = arith.sitofp %c : i32 to f32
      %e = arith.extf %d : f32 to f64
      %f = arith.truncf %e : f64 to f32
      %g = arith.mulf %d, %f : f32
      %h = tensor.from_elements %g, %d : tensor<2xf32>
      %r = stablehlo.add %1, %h : tensor<2xf32>
      return %r : tensor<2xf32>"""
    (got,) = evaluate(legal(body, ") -> tensor<2xf32>"), [])
    assert got.tolist() == [10, 5]


def test_sizes() -> None:
    body = """
      %s = shape.shape_of %x : tensor<?x3xf32> -> tensor<2xindex>
      %n = shape.num_elements %s : tensor<2xindex> -> index
      %i = arith.index_cast %n : index to i64
      %c1 = arith.constant 1 : index
      %d = tensor.dim %x, %c1 : tensor<?x3xf32>
      %j = arith.index_cast %d : index to i64
      %k = tensor.extract %s[%c1] : tensor<2xindex>
      %l = arith.index_cast %k : index to i64
      %r = tensor.from_elements %i, %j, %l : tensor<3xi64>
      return %r : tensor<3xi64>"""
    program = tiduc.load(legal(body, "%x: tensor<?x3xf32>) -> tensor<3xi64>"))
    assert program.compile()(np.zeros((4, 3), np.float32))[0].tolist() == [12, 3, 3]


def test_numbers_of_elements_become_known_with_the_sizes() -> None:
    """A shape that the program computes from a number of elements, as for `x.view(-1, 3, 1)` of PyTorch, becomes static
    as soon as the sizes of the input are known.
    """
    body = """
      %s = shape.shape_of %x : tensor<?x3xf32> -> tensor<2xindex>
      %n = shape.num_elements %s : tensor<2xindex> -> index
      %c1 = arith.constant 1 : index
      %c3 = arith.constant 3 : index
      %d = arith.divsi %n, %c3 : index
      %e = tensor.from_elements %d, %c3, %c1 : tensor<3xindex>
      %r = stablehlo.dynamic_reshape %x, %e : (tensor<?x3xf32>, tensor<3xindex>) -> tensor<?x3x1xf32>
      return %r : tensor<?x3x1xf32>"""
    program = tiduc.load(legal(body, "%x: tensor<?x3xf32>) -> tensor<?x3x1xf32>"))
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    np.testing.assert_array_equal(program.compile(engine="reference")(x)[0], x[:, :, None])


def test_dynamic_sizes_that_meet_are_equal() -> None:
    body = """
      %a = shape.shape_of %x : tensor<?x3xf32> -> tensor<2xindex>
      %b = shape.const_shape [3] : tensor<1xindex>
      %w = shape.cstr_broadcastable %a, %b : tensor<2xindex>, tensor<1xindex>
      %r = shape.assuming %w -> (tensor<?x3xf32>) {
        %s = shape.broadcast %a, %b : tensor<2xindex>, tensor<1xindex> -> tensor<2xindex>
        %0 = stablehlo.dynamic_broadcast_in_dim %x, %s, dims = [0, 1]
          : (tensor<?x3xf32>, tensor<2xindex>) -> tensor<?x3xf32>
        %1 = stablehlo.dynamic_broadcast_in_dim %y, %s, dims = [1] : (tensor<3xf32>, tensor<2xindex>) -> tensor<?x3xf32>
        %2 = stablehlo.add %0, %1 : tensor<?x3xf32>
        shape.assuming_yield %2 : tensor<?x3xf32>
      }
      return %r : tensor<?x3xf32>"""
    text = legal(body, "%x: tensor<?x3xf32>, %y: tensor<3xf32>) -> tensor<?x3xf32>")
    assert text.count("dynamic_broadcast_in_dim") == 1
    x, y = np.arange(6, dtype=np.float32).reshape(2, 3), np.float32([10, 20, 30])
    np.testing.assert_array_equal(tiduc.load(text).compile()(x, y)[0], x + y)


def test_meshes_of_shardy_stay() -> None:
    module = parse('sdy.mesh @mesh = <["d"=2]>\nfunc.func @main(%x: tensor<2xf32>) { return }')
    before = str(module)
    legalize(module)
    assert "sdy.mesh" in before and str(module) == before


def test_stablehlo_stays_as_it_is() -> None:
    module = parse(
        "func.func @main() -> tensor<f32> {\n"
        "  %0 = stablehlo.constant dense<1.0> : tensor<f32>\n"
        "  %1 = stablehlo.add %0, %0 : tensor<f32>\n  return %1 : tensor<f32>\n}"
    )
    before = str(module)
    legalize(module)
    assert str(module) == before


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ("%0 = math.sin %x : tensor<f32>\nreturn %0 : tensor<f32>", "math.sin"),
        (
            "%0 = ml_program.global_load @seed : tensor<f32>\nreturn %0 : tensor<f32>",
            "ml_program.global_load",
        ),
        (
            "%0 = tensor.extract %x[] : tensor<f32>\n%1 = math.absf %0 : f32\n"
            "%2 = tensor.from_elements %1 : tensor<f32>\nreturn %2 : tensor<f32>",
            "math.absf",
        ),
    ],
)
def test_other_ops_are_refused_by_name(body: str, name: str) -> None:
    module = parse(
        "ml_program.global private mutable @seed(dense<0.0> : tensor<f32>) : tensor<f32>\n"
        f"func.func @main(%x: tensor<f32>) -> tensor<f32> {{\n{body}\n}}"
    )
    with pytest.raises(tiduc.Unsupported, match=f"{name} has no lowering to StableHLO") as raised:
        legalize(module)
    assert raised.value.location.startswith("-:")
