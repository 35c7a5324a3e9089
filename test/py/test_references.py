"""References that are passed on twice by one branch: of the text of a VM module, and of what IREE makes of it."""

import numpy as np
import pytest

from tiduc.dialect.errors import TiducError
from tiduc.runtime import compile
from tiduc.runtime.compile import compile_module
from tiduc.runtime.references import may_branch, passed_once
from tiduc.runtime.run import Executable

VM = b"""vm.module public @m {
  vm.func @f(%a: !vm.ref<!hal.buffer>, %i: i64) {
    vm.br ^bb1(%a, %i, %a, %i : !vm.ref<!hal.buffer>, i64, !vm.ref<!hal.buffer>, i64)
  ^bb1(%0: !vm.ref<!hal.buffer>, %1: i64, %2: !vm.ref<!hal.buffer>, %3: i64):
    vm.return
  }
}
"""

NESTED = """func.func @main(%p: tensor<f64>, %q: tensor<f64>) -> (tensor<f64>, tensor<f64>, tensor<f64>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f64>
  %x = stablehlo.sine %p : tensor<f64>
  %outside = stablehlo.compare GT, %p, %zero : (tensor<f64>, tensor<f64>) -> tensor<i1>
  %0:3 = "stablehlo.if"(%outside) ({
    %inside = stablehlo.compare GT, %q, %zero : (tensor<f64>, tensor<f64>) -> tensor<i1>
    %1:3 = "stablehlo.if"(%inside) ({
      %2 = stablehlo.multiply %x, %q : tensor<f64>
      %3 = stablehlo.multiply %x, %2 : tensor<f64>
      %4 = stablehlo.multiply %q, %2 : tensor<f64>
      stablehlo.return %2, %3, %4 : tensor<f64>, tensor<f64>, tensor<f64>
    }, {
      stablehlo.return %x, %zero, %q : tensor<f64>, tensor<f64>, tensor<f64>
    }) : (tensor<i1>) -> (tensor<f64>, tensor<f64>, tensor<f64>)
    %5 = stablehlo.multiply %x, %1#2 : tensor<f64>
    stablehlo.return %1#0, %5, %1#0 : tensor<f64>, tensor<f64>, tensor<f64>
  }, {
    stablehlo.return %q, %zero, %p : tensor<f64>, tensor<f64>, tensor<f64>
  }) : (tensor<i1>) -> (tensor<f64>, tensor<f64>, tensor<f64>)
  return %0#0, %0#1, %0#2 : tensor<f64>, tensor<f64>, tensor<f64>
}
"""


def test_the_second_is_a_copy() -> None:
    text = passed_once(VM).decode()
    assert "%copy_0 = vm.select.ref %never_0, %null_0, %a : !vm.ref<!hal.buffer>" in text
    assert "vm.br ^bb1(%a, %i, %copy_0, %i : !vm.ref<!hal.buffer>, i64, !vm.ref<!hal.buffer>, i64)" in text
    assert text.count("vm.global.i32 private mutable") == 1


def test_what_is_passed_once_stays() -> None:
    once = VM.replace(b"%a, %i, %a, %i", b"%a, %i, %b, %i")
    assert passed_once(once) == once


def test_may_branch() -> None:
    assert may_branch(NESTED.encode()) and may_branch(b"ML\xefR\0while\0add")
    assert not may_branch(b"func.func @main() { stablehlo.sine }")


def test_nested_conditionals() -> None:
    """All ways through them."""
    run = Executable(compile_module(NESTED, cached=False))
    for p, q in ((0.5, 0.3), (0.5, -0.3), (-0.5, 0.3)):
        x = np.sin(p)
        inner = (x * q, x * (x * q), q * (x * q)) if q > 0 else (x, 0.0, q)
        expected = (inner[0], x * inner[2], inner[0]) if p > 0 else (q, 0.0, p)
        np.testing.assert_allclose(run(np.float64(p), np.float64(q)), expected, rtol=1e-14)


def test_iree_passes_null_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where this fails, IREE has learnt to pass references on, and the copies can go."""
    monkeypatch.setattr(compile, "may_branch", lambda program: False)
    run = Executable(compile_module(NESTED, cached=False))
    with pytest.raises(TiducError, match="null"):
        run(np.float64(0.5), np.float64(0.3))
