"""tuple and get_tuple_element, with elements of several types, and nested tuples."""

import numpy as np
import pytest
from harness.check_rule import check_rule

from tiduc.dialect.errors import ParseError
from tiduc.loading import load

R, N, C = "tensor<3xf64>", "tensor<i32>", "tensor<2xcomplex<f64>>"
TEXT = f"""
func.func @main(%x: {R}, %i: {N}, %z: {C}) -> ({R}, {N}, {C}) {{
  %0 = stablehlo.sine %x : {R}
  %1 = stablehlo.tuple %0, %i : tuple<{R}, {N}>
  %2 = stablehlo.tuple %1, %z : tuple<tuple<{R}, {N}>, {C}>
  %3 = stablehlo.get_tuple_element %2[0] : (tuple<tuple<{R}, {N}>, {C}>) -> tuple<{R}, {N}>
  %4 = stablehlo.get_tuple_element %3[0] : (tuple<{R}, {N}>) -> {R}
  %5 = stablehlo.get_tuple_element %3[1] : (tuple<{R}, {N}>) -> {N}
  %6 = stablehlo.get_tuple_element %2[1] : (tuple<tuple<{R}, {N}>, {C}>) -> {C}
  %7 = stablehlo.multiply %4, %0 : {R}
  %8 = stablehlo.multiply %6, %6 : {C}
  return %7, %5, %8 : {R}, {N}, {C}
}}"""


def test_parts() -> None:
    check_rule(TEXT, np.array([0.3, -1.0, 2.0]), np.array(4, np.int32), np.array([1 + 2j, -0.3j]))


def test_no_tuple_is_left() -> None:
    assert "tuple" not in str(load(TEXT).jvp().vjp())


def test_a_function_returns_no_tuple() -> None:
    text = f"""
    func.func @main(%x: {R}) -> tuple<{R}, {R}> {{
      %0 = stablehlo.tuple %x, %x : tuple<{R}, {R}>
      return %0 : tuple<{R}, {R}>
    }}"""
    with pytest.raises(ParseError, match="must be variadic of ranked tensor"):
        load(text)
