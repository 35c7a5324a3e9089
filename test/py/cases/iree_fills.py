"""Programs with several paddings by the same number. IREE without tiduc stores their results in one array."""

import numpy as np

X, Y = "tensor<3xf64>", "tensor<6xf64>"


def _pad(x: str, low: int, number: str = "%v") -> str:
    types = f"({X}, tensor<f64>) -> {Y}"
    return f"stablehlo.pad {x}, {number}, low = [{low}], high = [{3 - low}], interior = [0] : {types}"


PADS_BY_ONE_NUMBER = f"""
func.func @main(%x: {X}, %a: {X}, %v: tensor<f64>) -> ({Y}, {Y}) {{
  %0 = {_pad("%x", 0)}
  %1 = {_pad("%a", 3)}
  return %0, %1 : {Y}, {Y}
}}
"""
PADS_IN_BRANCHES = f"""
func.func @main(%x: {X}, %a: {X}, %v: tensor<f64>, %i: tensor<i32>) -> ({Y}, {Y}) {{
  %0 = {_pad("%x", 0)}
  %1 = "stablehlo.case"(%i) ({{
    %2 = {_pad("%a", 3)}
    stablehlo.return %2 : {Y}
  }}, {{
    %3 = {_pad("%a", 2)}
    %4 = {_pad("%x", 1)}
    %5 = stablehlo.subtract %3, %4 : {Y}
    stablehlo.return %5 : {Y}
  }}) : (tensor<i32>) -> {Y}
  return %0, %1 : {Y}, {Y}
}}
"""
PADS_OF_PADS = """
func.func @main(%x: tensor<7xf32>, %i: tensor<i32>)
    -> (tensor<15xf32>, tensor<17xf32>, tensor<17xf32>, tensor<19xf32>, tensor<14xf32>, tensor<16xf32>) {
  %c = stablehlo.constant dense<0.0> : tensor<f32>
  %9 = stablehlo.constant dense<0.0> : tensor<9xf32>
  %19 = stablehlo.constant dense<0.0> : tensor<19xf32>
  %s = stablehlo.pad %x, %c, low = [0], high = [0], interior = [1] : (tensor<7xf32>, tensor<f32>) -> tensor<13xf32>
  %e = stablehlo.pad %x, %c, low = [1], high = [1], interior = [0] : (tensor<7xf32>, tensor<f32>) -> tensor<9xf32>
  %u = stablehlo.dynamic_update_slice %9, %x, %i : (tensor<9xf32>, tensor<7xf32>, tensor<i32>) -> tensor<9xf32>
  %0 = stablehlo.pad %s, %c, low = [1], high = [1], interior = [0] : (tensor<13xf32>, tensor<f32>) -> tensor<15xf32>
  %1 = stablehlo.pad %e, %c, low = [0], high = [0], interior = [1] : (tensor<9xf32>, tensor<f32>) -> tensor<17xf32>
  %2 = stablehlo.pad %u, %c, low = [0], high = [0], interior = [1] : (tensor<9xf32>, tensor<f32>) -> tensor<17xf32>
  %3 = stablehlo.dynamic_update_slice %19, %s, %i : (tensor<19xf32>, tensor<13xf32>, tensor<i32>) -> tensor<19xf32>
  %4 = "stablehlo.reduce_window"(%s, %c) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %t = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %t : tensor<f32>
  }) {window_dimensions = array<i64: 2>, padding = dense<[[1, 1]]> : tensor<1x2xi64>}
    : (tensor<13xf32>, tensor<f32>) -> tensor<14xf32>
  %5 = "stablehlo.reduce_window"(%e, %c) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %t = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %t : tensor<f32>
  }) {window_dimensions = array<i64: 2>, base_dilations = array<i64: 2>}
    : (tensor<9xf32>, tensor<f32>) -> tensor<16xf32>
  return %0, %1, %2, %3, %4, %5
    : tensor<15xf32>, tensor<17xf32>, tensor<17xf32>, tensor<19xf32>, tensor<14xf32>, tensor<16xf32>
}
"""
"""Interior paddings before and after other paddings, and before and after updates of an array of zeros."""
_ARRAYS = np.array([1.0, 2, 3]), np.array([4.0, 5, 6]), np.array(0.5)
FILLS = {
    "pads_by_one_number": (PADS_BY_ONE_NUMBER, _ARRAYS, None),
    "pads_of_pads": (PADS_OF_PADS, (np.arange(1, 8, dtype=np.float32), np.array(1, np.int32)), None),
    "pads_in_branches": (PADS_IN_BRANCHES, (*_ARRAYS, np.array(2, np.int32)), None),
}
