"""Branches and loops: the choice of a branch, captured values, and trip counts.

Longer programs are tested in test/py.
"""

import numpy as np
import pytest
from harness.check_rule import check_rule

T = "tensor<3xf64>"
X, Y = np.array([0.3, -0.7, 1.1]), np.array([1.2, 0.4, -0.8])


def region(op: str) -> str:
    """The text of a branch that reads both arguments of the function."""
    return f"""{{
      %0 = stablehlo.{op} %x : {T}
      %1 = stablehlo.multiply %0, %y : {T}
      stablehlo.return %1 : {T}
    }}"""


@pytest.mark.parametrize("taken", [True, False])
def test_if(taken: bool) -> None:
    text = f"""func.func @main(%p: tensor<i1>, %x: {T}, %y: {T}) -> {T} {{
      %r = "stablehlo.if"(%p) ({region("sine")}, {region("exponential")}) : (tensor<i1>) -> {T}
      return %r : {T}
    }}"""
    check_rule(text, np.array(taken), X, Y)


@pytest.mark.parametrize("index", [-1, 0, 1, 2, 7])
def test_case(index: int) -> None:
    """Derivatives of `case` are those of the selected branch. An index out of range selects the last branch."""
    regions = ", ".join(region(op) for op in ("sine", "exponential", "tanh"))
    text = f"""func.func @main(%i: tensor<i32>, %x: {T}, %y: {T}) -> {T} {{
      %r = "stablehlo.case"(%i) ({regions}) : (tensor<i32>) -> {T}
      return %r : {T}
    }}"""
    check_rule(text, np.array(index, np.int32), X, Y)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_while(count: int) -> None:
    check_rule(loop(f"stablehlo.constant dense<{count}> : tensor<i32>"), np.array(0, np.int32), X, Y)


@pytest.mark.parametrize("count", [0, 3])
def test_while_of_unknown_length(count: int) -> None:
    check_rule(loop("stablehlo.add %m, %m : tensor<i32>"), np.array(count, np.int32), X, Y, order=1)


def loop(count: str) -> str:
    """A program with a loop that applies x -> tanh(x y). `count` is the op that computes the trip count."""
    return f"""func.func @main(%m: tensor<i32>, %x: {T}, %y: {T}) -> {T} {{
      %n = {count}
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %k, %r = stablehlo.while(%i = %zero, %c = %x) : tensor<i32>, {T}
        cond {{
          %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %p : tensor<i1>
        }} do {{
          %j = stablehlo.add %i, %one : tensor<i32>
          %0 = stablehlo.multiply %c, %y : {T}
          %1 = stablehlo.tanh %0 : {T}
          stablehlo.return %j, %1 : tensor<i32>, {T}
        }}
      return %r : {T}
    }}"""
