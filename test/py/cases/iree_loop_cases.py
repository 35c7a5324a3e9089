"""Test cases with loops that IREE without tiduc cannot compile, or whose compilation exhausts the memory."""

import numpy as np

from cases.iree_case import Case

ROW, INDEX = "tensor<1x2xf64>", "tensor<i32>"


def counting_loop(condition: str, following: str, result: str, by_way_of: str = "i32") -> str:
    """Returns the body of a function with a loop that multiplies x by the counter.

    The counter has the values 3, 4 and 5. In the loop, %f is the counter as f64.
    """
    return f"""%start = stablehlo.constant dense<3> : tensor<i32>
      %limit = stablehlo.constant dense<6> : tensor<i32>
      %step = stablehlo.constant dense<1> : tensor<i32>
      %0:2 = stablehlo.while(%i = %start, %a = %x) : tensor<i32>, tensor<f64>
        cond {{
          %c = stablehlo.{condition} : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %c : tensor<i1>
        }} do {{
          {following}
          %k = stablehlo.convert %i : (tensor<i32>) -> tensor<{by_way_of}>
          %f = stablehlo.convert %k : (tensor<{by_way_of}>) -> tensor<f64>
          %y = stablehlo.multiply %a, %f : tensor<f64>
          stablehlo.return %n, {result} : tensor<i32>, tensor<f64>
        }}
      return %0#1 : tensor<f64>"""


REJECTED = {
    "convert_counter": Case(
        "convert",
        "(%x: tensor<f64>) -> tensor<f64>",
        counting_loop("compare LT, %i, %limit", "%n = stablehlo.add %i, %step : tensor<i32>", "%y"),
        (np.float64(1),),
        np.float64(3 * 4 * 5),
    ),
    "convert_unsigned_counter": Case(
        "convert",
        "(%x: tensor<f64>) -> tensor<f64>",
        counting_loop("compare LT, %i, %limit", "%n = stablehlo.add %i, %step : tensor<i32>", "%y", "ui16"),
        (np.float64(1),),
        np.float64(3 * 4 * 5),
    ),
    "while": Case(
        "while",
        "(%n: tensor<i32>) -> tensor<i32>",
        """%zero = stablehlo.constant dense<0> : tensor<i32>
        %0:2 = stablehlo.while(%i = %zero, %k = %n) : tensor<i32>, tensor<i32>
          cond {
            %c = stablehlo.compare LT, %i, %k : (tensor<i32>, tensor<i32>) -> tensor<i1>
            stablehlo.return %c : tensor<i1>
          } do {
            %one = stablehlo.constant dense<1> : tensor<i32>
            %j = stablehlo.add %i, %one : tensor<i32>
            stablehlo.return %j, %i : tensor<i32>, tensor<i32>
          }
        return %0#1 : tensor<i32>""",
        (np.int32(5),),
        np.int32(0),
    ),
    "while_constant": Case(
        "while",
        "(%x: tensor<f64>) -> tensor<f64>",
        """%zero = stablehlo.constant dense<0> : tensor<i32>
        %one = stablehlo.constant dense<1> : tensor<i32>
        %three = stablehlo.constant dense<3> : tensor<i32>
        %n = stablehlo.while(%i = %zero) : tensor<i32>
          cond {
            %c = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
            stablehlo.return %c : tensor<i1>
          } do {
            %j = stablehlo.add %i, %one : tensor<i32>
            stablehlo.return %j : tensor<i32>
          }
        %0:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, tensor<f64>
          cond {
            %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
            stablehlo.return %c : tensor<i1>
          } do {
            %j = stablehlo.add %i, %one : tensor<i32>
            %b = stablehlo.add %a, %a : tensor<f64>
            stablehlo.return %j, %b : tensor<i32>, tensor<f64>
          }
        return %0#1 : tensor<f64>""",
        (np.float64(1),),
        np.float64(8),
    ),
    "while_folded": Case(
        "while",
        "(%x: tensor<f64>, %y: tensor<f64>, %z: tensor<f64>, %a: tensor<2xf64>) -> tensor<2xf64>",
        """%none = stablehlo.constant dense<0.0> : tensor<2xf64>
        %true = stablehlo.constant dense<true> : tensor<i1>
        %false = stablehlo.constant dense<false> : tensor<i1>
        %0:4 = stablehlo.while(%p = %x, %q = %y, %v = %a, %f = %true)
          : tensor<f64>, tensor<f64>, tensor<2xf64>, tensor<i1>
          cond {
            %c = stablehlo.compare LT, %p, %z : (tensor<f64>, tensor<f64>) -> tensor<i1>
            stablehlo.return %c : tensor<i1>
          } do {
            %e = stablehlo.reduce(%f init: %false) applies stablehlo.or across dimensions = []
              : (tensor<i1>, tensor<i1>) -> tensor<i1>
            %s = stablehlo.select %e, %none, %v : tensor<i1>, tensor<2xf64>
            %g = stablehlo.select %true, %false, %f : tensor<i1>, tensor<i1>
            %w = stablehlo.add %s, %a : tensor<2xf64>
            %d = stablehlo.add %q, %q : tensor<f64>
            stablehlo.return %q, %d, %w, %g : tensor<f64>, tensor<f64>, tensor<2xf64>, tensor<i1>
          }
        return %0#2 : tensor<2xf64>""",
        (np.float64(1), np.float64(2), np.float64(4), np.array([2.0, 3.0])),
        np.array([4.0, 6.0]),
    ),
    "while_whole_updates": Case(
        "while",
        f"(%x: {ROW}, %y: {ROW}) -> {ROW}",
        f"""%zero = stablehlo.constant dense<0> : tensor<i32>
        %one = stablehlo.constant dense<1> : tensor<i32>
        %three = stablehlo.constant dense<3> : tensor<i32>
        %none = stablehlo.constant dense<0.0> : {ROW}
        %0:5 = stablehlo.while(%i = %three, %a = %x, %b = %none, %c = %y, %d = %none)
          : tensor<i32>, {ROW}, {ROW}, {ROW}, {ROW}
          cond {{
            %p = stablehlo.compare GE, %i, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
            stablehlo.return %p : tensor<i1>
          }} do {{
            %j = stablehlo.subtract %i, %one : tensor<i32>
            %u = stablehlo.dynamic_update_slice %a, %none, %one, %zero : ({ROW}, {ROW}, {INDEX}, {INDEX}) -> {ROW}
            %s = stablehlo.add %b, %a : {ROW}
            %v = stablehlo.dynamic_update_slice %c, %none, %one, %zero : ({ROW}, {ROW}, {INDEX}, {INDEX}) -> {ROW}
            %w = stablehlo.dynamic_slice %c, %one, %zero, sizes = [1, 2] : ({ROW}, tensor<i32>, tensor<i32>) -> {ROW}
            stablehlo.return %j, %u, %s, %v, %w : tensor<i32>, {ROW}, {ROW}, {ROW}, {ROW}
          }}
        %z = stablehlo.add %0#2, %0#4 : {ROW}
        return %z : {ROW}""",
        (np.array([[2.0, 3.0]]), np.array([[5.0, 7.0]])),
        np.array([[2.0, 3.0]]),
    ),
}
UNSAFE = {
    "while_unread": Case(
        "while",
        "(%x: tensor<f64>) -> tensor<f64>",
        counting_loop("compare LT, %i, %limit", "%n = stablehlo.add %i, %step : tensor<i32>", "%f"),
        (np.float64(1),),
        np.float64(5),
    ),
    "while_once": Case(
        "while",
        "(%x: tensor<f64>) -> tensor<f64>",
        counting_loop("compare EQ, %i, %start", "%n = stablehlo.subtract %i, %step : tensor<i32>", "%y"),
        (np.float64(2),),
        np.float64(6),
    ),
}
