"""Branches that pass both 32-bit and 64-bit numbers to a block: in VM modules, and in IREE's results."""

import re

import numpy as np
from harness.edits import after

import tiduc
from tiduc.backends.iree.modules.vm.registers import widen_block_arguments

VM = """module {
  vm.module public @m {
    vm.func private @f(%n: i64, %i: i32) -> i32 {
      vm.br ^bb1(%i, %n : i32, i64)
    ^bb1(%0: i32, %1: i64):  // 2 preds: ^bb0, ^bb1
      %2 = vm.add.i32 %0, %0 : i32
      vm.cond_br %2, ^bb1(%2, %1 : i32, i64), ^bb2(%2 : i32)
    ^bb2(%3: i32):  // pred: ^bb1
      vm.return %3 : i32
    }
  }
}
"""

C, Z, INDEX = "tensor<5xcomplex<f64>>", "tensor<complex<f64>>", "tensor<i32>"
LOOP = f"""func.func @main(%x: {C}, %z: {Z}, %n: {INDEX}) -> ({Z}, {C}, {INDEX}) {{
  %zero = stablehlo.constant dense<0> : {INDEX}
  %one = stablehlo.constant dense<1> : {INDEX}
  %three = stablehlo.constant dense<3> : {INDEX}
  %nothing = stablehlo.constant dense<(0.0, 0.0)> : {Z}
  %zeros = stablehlo.constant dense<(0.0, 0.0)> : {C}
  %same = "stablehlo.case"(%n) ({{ stablehlo.return %z : {Z} }}, {{ stablehlo.return %z : {Z} }}) : ({INDEX}) -> {Z}
  %both:2 = stablehlo.optimization_barrier %x, %same : {C}, {Z}
  %y:3 = stablehlo.while(%i = %zero, %a = %nothing, %b = %zeros) : {INDEX}, {Z}, {C}
  cond {{
    %less = stablehlo.compare LT, %i, %three : ({INDEX}, {INDEX}) -> tensor<i1>
    stablehlo.return %less : tensor<i1>
  }} do {{
    %j = stablehlo.add %i, %one : {INDEX}
    %u = stablehlo.slice %both#0 [0:2] : ({C}) -> tensor<2xcomplex<f64>>
    %v = stablehlo.dynamic_update_slice %both#0, %u, %i : ({C}, tensor<2xcomplex<f64>>, {INDEX}) -> {C}
    stablehlo.return %j, %same, %v : {INDEX}, {Z}, {C}
  }}
  return %y#1, %y#2, %y#0 : {Z}, {C}, {INDEX}
}}"""
"""A loop of three iterations. IREE passes the counter together with the sizes of two buffers."""


def test_numbers_of_32_bits_are_passed_as_64() -> None:
    text = after(widen_block_arguments, VM)
    assert text is not None
    (wide,) = re.findall(r"(%\w+) = vm.ext.i32.i64.u %arg1 : i32 -> i64", text)
    assert f"vm.br ^bb1({wide}, %arg0 : i64, i64)" in text
    first, second = re.search(r"\^bb1\((%\w+): i64, (%\w+): i64\):", text).groups()  # type: ignore[union-attr]
    (narrow,) = re.findall(rf"(%\w+) = vm.trunc.i64.i32 {first} : i64 -> i32", text)
    (total,) = re.findall(rf"(%\w+) = vm.add.i32 {narrow}, {narrow} : i32", text)
    (again,) = re.findall(rf"(%\w+) = vm.ext.i32.i64.u {total} : i32 -> i64", text)
    assert f"vm.cond_br {total}, ^bb1({again}, {second} : i64, i64), ^bb2({total} : i32)" in text


def test_others_stay() -> None:
    others = VM.replace("%0: i32, %1: i64", "%0: i32, %1: i32").replace(": i32, i64", ": i32, i32")
    assert after(widen_block_arguments, others.replace("%n: i64", "%n: i32")) is None


def test_a_counter_beside_sizes() -> None:
    x, z = np.arange(5) * (1 + 2j), np.complex128(3 - 1j)
    y, rows, count = tiduc.load(LOOP).compile("cpu-threads", cached=False)(x, z, np.int32(0))
    assert count == 3 and y == z
    np.testing.assert_array_equal(rows, x[[0, 1, 0, 1, 4]])
