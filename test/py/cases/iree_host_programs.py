"""Programs for which IREE emits wrong code for its virtual machine, or code that does not check the arguments."""

from typing import NamedTuple

import numpy as np

from cases.iree_case import Array

V, INDEX = "tensor<4xf32>", "tensor<i32>"
C, Z, U = "tensor<5xcomplex<f64>>", "tensor<complex<f64>>", "tensor<2xcomplex<f64>>"


class HostProgram(NamedTuple):
    """A program with the arguments of its last call and of earlier calls.

    The last call must give the results of the reference interpreter. If `refused` is True, it must end with an error.
    """

    text: str
    arguments: tuple[Array, ...]
    earlier: tuple[tuple[Array, ...], ...] = ()
    refused: bool = False


def _loop(start: str, body: str) -> str:
    return f"""stablehlo.while(%i = %zero, %a = {start}) : {INDEX}, {V}
  cond {{
    %p = stablehlo.compare LT, %i, %n : ({INDEX}, {INDEX}) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }} do {{
    %j = stablehlo.add %i, %one : {INDEX}
    %b = {body} : {V}
    stablehlo.return %j, %b : {INDEX}, {V}
  }}"""


LOOPS_FROM_ONE_ARRAY = f"""func.func @main(%x: {V}, %n: {INDEX}) -> ({V}, {V}) {{
  %zero = stablehlo.constant dense<0> : {INDEX}
  %one = stablehlo.constant dense<1> : {INDEX}
  %start = stablehlo.sine %x : {V}
  %0:2 = {_loop("%start", "stablehlo.multiply %a, %x")}
  %y = stablehlo.negate %0#1 : {V}
  %1:2 = {_loop("%start", "stablehlo.add %a, %y")}
  %z = stablehlo.multiply %1#1, %y : {V}
  return %y, %z : {V}, {V}
}}
"""
"""Two loops that begin with the same array. If the first loop has no iterations, this array is the loop's result."""

COUNTER_BESIDE_SIZES = f"""func.func @main(%arg0: {C}, %arg1: {Z}, %arg2: {INDEX}) -> ({Z}, {C}, {INDEX}) {{
  %c = stablehlo.constant dense<0> : {INDEX}
  %c_0 = stablehlo.constant dense<1> : {INDEX}
  %c_1 = stablehlo.constant dense<3> : {INDEX}
  %cst = stablehlo.constant dense<0.000000e+00> : tensor<f64>
  %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
  %0 = stablehlo.complex %cst, %cst_2 : {Z}
  %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<5xf64>
  %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<5xf64>
  %1 = stablehlo.complex %cst_3, %cst_4 : {C}
  %2 = "stablehlo.case"(%arg2) ({{
    stablehlo.return %arg1 : {Z}
  }}, {{
    stablehlo.return %arg1 : {Z}
  }}) : ({INDEX}) -> {Z}
  %3:2 = stablehlo.optimization_barrier %arg0, %2 : {C}, {Z}
  %4:3 = stablehlo.while(%iterArg = %c, %iterArg_5 = %0, %iterArg_6 = %1) : {INDEX}, {Z}, {C}
  cond {{
    %5 = stablehlo.compare LT, %iterArg, %c_1 : ({INDEX}, {INDEX}) -> tensor<i1>
    stablehlo.return %5 : tensor<i1>
  }} do {{
    %5 = stablehlo.add %iterArg, %c_0 : {INDEX}
    %6 = stablehlo.slice %3#0 [0:2] : ({C}) -> {U}
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %7 = stablehlo.complex %cst_7, %cst_8 : {Z}
    %c_9 = stablehlo.constant dense<0> : {INDEX}
    %8 = stablehlo.optimization_barrier %c_9 : {INDEX}
    %9 = stablehlo.compare EQ, %8, %c_9 : ({INDEX}, {INDEX}) -> tensor<i1>
    %10 = stablehlo.broadcast_in_dim %9, dims = [] : (tensor<i1>) -> tensor<2xi1>
    %11 = stablehlo.broadcast_in_dim %7, dims = [] : ({Z}) -> {U}
    %12 = stablehlo.select %10, %6, %11 : tensor<2xi1>, {U}
    %13 = stablehlo.optimization_barrier %12 : {U}
    %cst_10 = stablehlo.constant dense<(0.000000e+00,0.000000e+00)> : {Z}
    %c_11 = stablehlo.constant dense<0> : {INDEX}
    %14 = stablehlo.optimization_barrier %c_11 : {INDEX}
    %15 = stablehlo.compare EQ, %14, %c_11 : ({INDEX}, {INDEX}) -> tensor<i1>
    %16 = stablehlo.broadcast_in_dim %15, dims = [] : (tensor<i1>) -> tensor<5xi1>
    %17 = stablehlo.broadcast_in_dim %cst_10, dims = [] : ({Z}) -> {C}
    %18 = stablehlo.select %16, %3#0, %17 : tensor<5xi1>, {C}
    %19 = stablehlo.dynamic_update_slice %18, %13, %iterArg : ({C}, {U}, {INDEX}) -> {C}
    %20:2 = stablehlo.optimization_barrier %2, %iterArg_5 : {Z}, {Z}
    %21:2 = stablehlo.optimization_barrier %19, %iterArg_6 : {C}, {C}
    stablehlo.return %5, %20#0, %21#0 : {INDEX}, {Z}, {C}
  }}
  return %4#1, %4#2, %4#0 : {Z}, {C}, {INDEX}
}}
"""
"""A loop whose counter IREE passes together with the sizes of two buffers.

The text is the output of `tidu-legalize-for-iree`. With other ops, IREE chooses other registers, and the results may be
correct.
"""

TWICE = """func.func @main(%x: tensor<3xf32>) -> tensor<6xf32> {
  %0 = stablehlo.concatenate %x, %x, dim = 0 : (tensor<3xf32>, tensor<3xf32>) -> tensor<6xf32>
  return %0 : tensor<6xf32>
}
"""

SLICE = """func.func @main(%x: tensor<4xf32>, %start: tensor<1xi32>, %limit: tensor<1xi32>, %stride: tensor<1xi32>)
    -> tensor<3xf32> {
  %0 = stablehlo.real_dynamic_slice %x, %start, %limit, %stride
    : (tensor<4xf32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}"""
SUM = """func.func @main(%x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {
  %0 = stablehlo.add %x, %y : tensor<?xf32>
  return %0 : tensor<?xf32>
}
"""
"""A sum of two arrays. The arguments are such that the first array is shorter, so that IREE reads no other memory."""

A, B = np.float32([0.1, 0.2, -0.3, 0.5]), np.float32([1, 2, 3])

HOST_PROGRAMS = {
    "threads/loops_from_one_array": HostProgram(LOOPS_FROM_ONE_ARRAY, (A, np.array(0, np.int32))),
    "threads/counter_beside_sizes": HostProgram(
        COUNTER_BESIDE_SIZES, (np.arange(5) * (1 + 2j), np.array(3 - 1j), np.array(0, np.int32))
    ),
    "vulkan/second_run": HostProgram(TWICE, (B,), earlier=((-B,),)),
    "sizes_that_differ": HostProgram(SUM, (B, A), refused=True),
    "slice_beyond": HostProgram(SLICE, (A, *np.array([[0], [3], [2]], np.int32)), refused=True),
}
