"""Calls of functions that are not inlined, which IREE without tiduc gets wrong; see `iree_programs.py`."""

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
"""IREE computes x x + x for the first call."""

CALLS = {
    "inputs_of_calls": (
        INPUTS_OF_CALLS,
        (np.float32([0, 1, 2, 3]), np.float32([1, 1, 1, 1])),
        (np.float32([0, 6, 20, 42]),),
    ),
}
