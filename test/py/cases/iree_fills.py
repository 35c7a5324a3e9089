"""Paddings by 64-bit numbers, for which IREE alone fills one array; see `iree_programs.py`."""

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
_ARRAYS = np.array([1.0, 2, 3]), np.array([4.0, 5, 6]), np.array(0.5)
FILLS = {
    "pads_by_one_number": (PADS_BY_ONE_NUMBER, _ARRAYS, None),
    "pads_in_branches": (PADS_IN_BRANCHES, (*_ARRAYS, np.array(2, np.int32)), None),
}
