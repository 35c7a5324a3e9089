"""Writes programs that draw random numbers."""

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def rng(name: str, a: str, b: str, type_: str, distribution: str = "UNIFORM") -> str:
    """Returns the line of an op that draws an array. Its type is for example 4xf32. Its sizes are the value %sizes."""
    scalar, rank = type_.split("x")[-1], type_.count("x")
    return (
        f"%{name} = stablehlo.rng %{a}, %{b}, %sizes, distribution = {distribution}"
        f" : (tensor<{scalar}>, tensor<{scalar}>, tensor<{rank}xi64>) -> tensor<{type_}>"
    )


def drawn(distribution: str, element: str, a: str, b: str, count: int) -> str:
    """Returns the text of a program that draws numbers and returns them."""
    return f"""func.func @main() -> tensor<{count}x{element}> {{
      %a = stablehlo.constant dense<{a}> : tensor<{element}>
      %b = stablehlo.constant dense<{b}> : tensor<{element}>
      %sizes = stablehlo.constant dense<{count}> : tensor<1xi64>
      {rng("y", "a", "b", f"{count}x{element}", distribution)}
      return %y : tensor<{count}x{element}>
    }}"""


UNIT = """
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %sizes = stablehlo.constant dense<[4]> : tensor<1xi64>
"""
DROPOUTS = f"""func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {{
  {UNIT}
  {rng("u", "zero", "one", "4xf32")}
  {rng("v", "zero", "one", "4xf32")}
  %y = stablehlo.multiply %x, %u : tensor<4xf32>
  %z = stablehlo.multiply %x, %v : tensor<4xf32>
  return %y, %z : tensor<4xf32>, tensor<4xf32>
}}"""


def loop(count: int, body: str, value: str = "%u") -> str:
    """Returns the text of a program with a loop. Iteration i writes row i of x times the value that `body` computes."""
    rows, row = f"tensor<{count}x4xf32>", "tensor<1x4xf32>"
    return f"""func.func @main(%x: {rows}) -> {rows} {{
      {UNIT}
      %first = stablehlo.constant dense<0> : tensor<i64>
      %next = stablehlo.constant dense<1> : tensor<i64>
      %last = stablehlo.constant dense<{count}> : tensor<i64>
      %zeros = stablehlo.constant dense<0.0> : {rows}
      %r:2 = stablehlo.while(%i = %first, %a = %zeros) : tensor<i64>, {rows}
      cond {{
        %more = stablehlo.compare LT, %i, %last : (tensor<i64>, tensor<i64>) -> tensor<i1>
        stablehlo.return %more : tensor<i1>
      }} do {{
        {body}
        %w = stablehlo.reshape {value} : (tensor<4xf32>) -> {row}
        %xi = stablehlo.dynamic_slice %x, %i, %first, sizes = [1, 4] : ({rows}, tensor<i64>, tensor<i64>) -> {row}
        %y = stablehlo.multiply %xi, %w : {row}
        %b = stablehlo.dynamic_update_slice %a, %y, %i, %first : ({rows}, {row}, tensor<i64>, tensor<i64>) -> {rows}
        %j = stablehlo.add %i, %next : tensor<i64>
        stablehlo.return %j, %b : tensor<i64>, {rows}
      }}
      return %r#1 : {rows}
    }}"""


LOOP = loop(1000, rng("u", "zero", "one", "4xf32"))
NESTED = loop(
    5,
    f"""{rng("v", "zero", "one", "4xf32")}
    %q:2 = stablehlo.while(%k = %first, %s = %v) : tensor<i64>, tensor<4xf32>
    cond {{
      %few = stablehlo.compare LT, %k, %next : (tensor<i64>, tensor<i64>) -> tensor<i1>
      stablehlo.return %few : tensor<i1>
    }} do {{
      {rng("t", "zero", "one", "4xf32")}
      %l = stablehlo.add %k, %next : tensor<i64>
      stablehlo.return %l, %t : tensor<i64>, tensor<4xf32>
    }}
    %sum = stablehlo.add %q#1, %v : tensor<4xf32>""",
    "%sum",
)
IN_BRANCH = loop(
    6,
    f"""%two = stablehlo.constant dense<2> : tensor<i64>
    %odd = stablehlo.remainder %i, %two : tensor<i64>
    %is_odd = stablehlo.compare EQ, %odd, %next : (tensor<i64>, tensor<i64>) -> tensor<i1>
    %u = "stablehlo.if"(%is_odd) ({{
      {rng("t", "zero", "one", "4xf32")}
      stablehlo.return %t : tensor<4xf32>
    }}, {{
      {rng("t", "zero", "one", "4xf32")}
      stablehlo.return %t : tensor<4xf32>
    }}) : (tensor<i1>) -> tensor<4xf32>""",
)


def seed(number: int = 7, step: int = 0) -> Array:
    return np.array([number, step], np.uint64)
