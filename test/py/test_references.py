"""References that a branch passes to a block while they are still in use: in VM modules, and in IREE's results."""

import re

import numpy as np
import pytest
from cases.iree_programs import NESTED
from harness.edits import after, compiles_with

from tiduc.backends.iree.compile import compile_module
from tiduc.backends.iree.modules.vm.references import copy_passed_references
from tiduc.backends.iree.source import Source
from tiduc.dialect.errors import TiducError
from tiduc.runtime.run import Executable

VM = """vm.module public @m {
  vm.func @f(%a: !vm.ref<!hal.buffer>, %i: i64) {
    vm.br ^bb1(%a, %i, %a, %i : !vm.ref<!hal.buffer>, i64, !vm.ref<!hal.buffer>, i64)
  ^bb1(%0: !vm.ref<!hal.buffer>, %1: i64, %2: !vm.ref<!hal.buffer>, %3: i64):
    vm.return
  }
}
"""

USED_LATER = """vm.module public @m {
  vm.import private @g(%x : !vm.ref<!hal.buffer>, %y : !vm.ref<!hal.buffer>) -> (!vm.ref<!hal.buffer>, i32)
  vm.func @f(%a: !vm.ref<!hal.buffer>, %b: !vm.ref<!hal.buffer>) {
    vm.br ^bb1(%a, %b : !vm.ref<!hal.buffer>, !vm.ref<!hal.buffer>)
  ^bb1(%0: !vm.ref<!hal.buffer>, %1: !vm.ref<!hal.buffer>):  // 2 preds: ^bb0, ^bb1
    %c:2 = vm.call @g(%1, %b) : (!vm.ref<!hal.buffer>, !vm.ref<!hal.buffer>) -> (!vm.ref<!hal.buffer>, i32)
    vm.cond_br %c#1, ^bb1(%c#0, %1 : !vm.ref<!hal.buffer>, !vm.ref<!hal.buffer>), ^bb2(%1 : !vm.ref<!hal.buffer>)
  ^bb2(%2: !vm.ref<!hal.buffer>):  // pred: ^bb1
    vm.discard.refs %1 : !vm.ref<!hal.buffer>
    vm.return
  }
}
"""

LATER = """func.func @main(%x: tensor<3xf64>, %y: tensor<3xf64>) -> (tensor<3xf64>, tensor<3xf64>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %limit = stablehlo.constant dense<5.0> : tensor<f64>
  %0:2 = stablehlo.while(%i = %zero, %a = %y) : tensor<i32>, tensor<3xf64>
  cond {
    %s = stablehlo.slice %a [2:3] : (tensor<3xf64>) -> tensor<1xf64>
    %last = stablehlo.reshape %s : (tensor<1xf64>) -> tensor<f64>
    %small = stablehlo.compare LT, %last, %limit : (tensor<f64>, tensor<f64>) -> tensor<i1>
    %p = stablehlo.compare LT, %i, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %q = stablehlo.and %p, %small : tensor<i1>
    stablehlo.return %q : tensor<i1>
  } do {
    %j = stablehlo.add %i, %one : tensor<i32>
    %b:2 = stablehlo.optimization_barrier %x, %a : tensor<3xf64>, tensor<3xf64>
    stablehlo.return %j, %b#0 : tensor<i32>, tensor<3xf64>
  }
  %1:2 = stablehlo.while(%i = %zero, %a = %y) : tensor<i32>, tensor<3xf64>
  cond {
    %p = stablehlo.compare LT, %i, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %j = stablehlo.add %i, %one : tensor<i32>
    %b:2 = stablehlo.optimization_barrier %0#1, %a : tensor<3xf64>, tensor<3xf64>
    stablehlo.return %j, %b#0 : tensor<i32>, tensor<3xf64>
  }
  %2:2 = stablehlo.while(%i = %0#0, %a = %1#1) : tensor<i32>, tensor<3xf64>
  cond {
    %p = stablehlo.compare GT, %i, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %j = stablehlo.subtract %i, %one : tensor<i32>
    %b = stablehlo.add %a, %x : tensor<3xf64>
    stablehlo.return %j, %b : tensor<i32>, tensor<3xf64>
  }
  return %1#1, %2#1 : tensor<3xf64>, tensor<3xf64>
}
"""
"""A program in which the second loop returns the result of the first loop. The third loop reads only a counter."""


def test_the_second_is_a_copy() -> None:
    text = after(copy_passed_references, VM)
    assert text is not None
    (copy,) = re.findall(r"(%\w+) = vm.select.ref %\w+, %\w+, %arg0 : !vm.ref<!hal.buffer>", text)
    assert f"vm.br ^bb1(%arg0, %arg1, {copy}, %arg1 :" in text
    assert text.count("vm.global.i32 private mutable") == 1


def test_a_reference_passed_once_stays() -> None:
    once = VM.replace("%a, %i, %a, %i", "%a, %i, %b, %i").replace("@f(%a", "@f(%b: !vm.ref<!hal.buffer>, %a")
    assert after(copy_passed_references, once) is None


def test_references_used_later_are_copied() -> None:
    """References that are used after a branch passes them are copied: %b, which the loop reads, and %1, which is
    released later. %a and %c are not used later, and are not copied.
    """
    text = after(copy_passed_references, USED_LATER)
    assert text is not None
    copies = dict(re.findall(r"(%\w+) = vm.select.ref %\w+, %\w+, (%\w+) :", text))
    first, second = copies
    assert copies[first] == "%arg1"
    assert f"vm.br ^bb1(%arg0, {first} :" in text
    (released,) = re.findall(r"vm.discard.refs (%\w+) :", text)
    assert copies[second] == released
    assert re.search(rf"vm.cond_br %\w+#1, \^bb1\(%\w+#0, {released} : .*\), \^bb2\({second} :", text)


def test_may_branch() -> None:
    assert Source(NESTED).may_branch and Source(b"ML\xefR\0while\0add").may_branch
    assert not Source("func.func @main() { stablehlo.sine }").may_branch


def test_nested_conditionals() -> None:
    """Nested conditionals give the right results on all of their paths."""
    run = Executable(compile_module(NESTED, cached=False))
    for p, q in ((0.5, 0.3), (0.5, -0.3), (-0.5, 0.3)):
        x = np.sin(p)
        inner = (x * q, x * (x * q), q * (x * q)) if q > 0 else (x, 0.0, q)
        expected = (inner[0], x * inner[2], inner[0]) if p > 0 else (q, 0.0, p)
        np.testing.assert_allclose(run(np.float64(p), np.float64(q)), expected, rtol=1e-14)


@pytest.mark.parametrize("target", ["cpu", "cpu-threads"])
def test_results_of_a_loop_are_used_later(target: str) -> None:
    """A loop's results that are used later are right, whether the loop runs no iteration or all iterations."""
    run = Executable(compile_module(LATER, target, cached=False), target)
    x, y = np.array([1.0, 2, 3]), np.array([4.0, 5, 6])
    np.testing.assert_array_equal(run(x, y), [y, y])
    np.testing.assert_array_equal(run(x, y / 2), [x, 3 * x])


def test_iree_releases_references_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without tiduc's copies, IREE releases references that are still in use.

    If this test fails, IREE retains references that branches pass, and the copies can be removed.
    """
    code = "from tiduc.backends.iree.modules import edits\nedits.CORRECTIONS['copy_passed_references'] = bool"
    compiles_with(monkeypatch, code)
    run = Executable(compile_module(LATER, cached=False))
    with pytest.raises(TiducError, match="null"):
        run(np.array([1.0, 2, 3]), np.array([4.0, 5, 6]))
