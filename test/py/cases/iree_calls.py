"""Programs with calls of functions that are not inlined. IREE without tiduc computes wrong results for these calls."""

import numpy as np

V = "tensor<4xf32>"
INPUTS_OF_CALLS = f"""
func.func @main(%x: {V}, %y: {V}) -> {V} {{
  %0 = call @product_and_sum(%x, %y) : ({V}, {V}) -> {V}
  %1 = call @product_and_sum(%0, %0) : ({V}, {V}) -> {V}
  return %1 : {V}
}}
func.func private @product_and_sum(%a: {V}, %b: {V}) -> {V} attributes {{no_inline, noinline}} {{
  %0 = stablehlo.multiply %a, %b : {V}
  %1 = stablehlo.add %0, %a : {V}
  return %1 : {V}
}}
"""
"""For the first call, IREE computes x x + x, where x y + x is correct."""

CALLS = {
    "inputs_of_calls": (
        INPUTS_OF_CALLS,
        (np.float32([0, 1, 2, 3]), np.float32([1, 1, 1, 1])),
        (np.float32([0, 6, 20, 42]),),
    ),
}
