"""A value whose derivative is infinite adds zero, and not NaN, to a gradient if the branch taken does not read it.

Loops that run no iteration and selects are tested too.
"""

from typing import Any

import numpy as np
import pytest
from harness.one_module import compiled_together

import tiduc
from tiduc.backends.reference.interpreter import evaluate

T = "tensor<3xf64>"


def function(body: str) -> str:
    """The text of a function of p, q and x. `body` computes the result r, and may use l = log x."""
    return f"""
    func.func @main(%p: tensor<i32>, %q: tensor<3xi1>, %x: {T}) -> {T} {{
      %l = stablehlo.log %x : {T}
      {body}
      return %r : {T}
    }}"""


def loop(body: str) -> str:
    """The text of a function with a loop of p iterations. `body` computes the next value z of y, which starts as x."""
    return (
        function(f"""
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %n, %r = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, {T}
      cond {{
        %c = stablehlo.compare LT, %i, %p : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      }} do {{
        {body}
        %j = stablehlo.add %i, %one : tensor<i32>
        stablehlo.return %j, %z : tensor<i32>, {T}
      }}""")
        .replace("%n, %r =", "%w:2 =")
        .replace("return %r", "return %w#1")
    )


IF = f"""
      %0 = stablehlo.constant dense<1> : tensor<i32>
      %c = stablehlo.compare EQ, %p, %0 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %r = "stablehlo.if"(%c) ({{
        stablehlo.return %l : {T}
      }}, {{
        stablehlo.return %x : {T}
      }}) : (tensor<i1>) -> {T}"""

PROGRAMS = {
    "if": function(IF),
    "case": function(f"""
      %r = "stablehlo.case"(%p) ({{
        stablehlo.return %x : {T}
      }}, {{
        stablehlo.return %l : {T}
      }}, {{
        %s = stablehlo.sine %x : {T}
        stablehlo.return %s : {T}
      }}) : (tensor<i32>) -> {T}"""),
    "nested": function(f"""
      %two = stablehlo.constant dense<2> : tensor<i32>
      %b = stablehlo.compare GT, %p, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %r = "stablehlo.case"(%p) ({{
        %s = stablehlo.sine %x : {T}
        stablehlo.return %s : {T}
      }}, {{
        stablehlo.return %l : {T}
      }}, {{
        %u = "stablehlo.if"(%b) ({{
          %m = stablehlo.multiply %l, %l : {T}
          stablehlo.return %m : {T}
        }}, {{
          stablehlo.return %x : {T}
        }}) : (tensor<i1>) -> {T}
        stablehlo.return %u : {T}
      }}) : (tensor<i32>) -> {T}"""),
    "select in a branch": function(f"""
      %r = "stablehlo.case"(%p) ({{
        %n = stablehlo.negate %l : {T}
        %m = stablehlo.multiply %n, %x : {T}
        %u = stablehlo.select %q, %m, %x : tensor<3xi1>, {T}
        stablehlo.return %u : {T}
      }}, {{
        stablehlo.return %l : {T}
      }}) : (tensor<i32>) -> {T}"""),
    "branch and select": function(f"""
      {IF.replace("%r", "%u")}
      %v = stablehlo.select %q, %l, %x : tensor<3xi1>, {T}
      %r = stablehlo.add %u, %v : {T}"""),
    "chain": function(f"""
      %k = stablehlo.exponential %l : {T}
      %h = stablehlo.sqrt %k : {T}
      {IF.replace("%l", "%h")}"""),
    "loop": loop(f"%z = stablehlo.multiply %y, %l : {T}"),
    "loop with a select": loop(f"""
        %m = stablehlo.multiply %y, %l : {T}
        %z = stablehlo.select %q, %m, %y : tensor<3xi1>, {T}"""),
    "loop with a branch": loop(f"""
        %b = stablehlo.compare GT, %i, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %z = "stablehlo.if"(%b) ({{
          %m = stablehlo.multiply %y, %l : {T}
          stablehlo.return %m : {T}
        }}, {{
          %m = stablehlo.sine %y : {T}
          stablehlo.return %m : {T}
        }}) : (tensor<i1>) -> {T}"""),
    "loop in a loop": loop(f"""
        %v:2 = stablehlo.while(%k = %one, %u = %y) : tensor<i32>, {T}
        cond {{
          %b = stablehlo.compare LT, %k, %p : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %b : tensor<i1>
        }} do {{
          %m = stablehlo.multiply %u, %l : {T}
          %h = stablehlo.add %k, %one : tensor<i32>
          stablehlo.return %h, %m : tensor<i32>, {T}
        }}
        %z = stablehlo.sine %v#1 : {T}"""),
}

POINTS = [
    (np.int32(p), np.array(q), np.array([0, 0.5, 2])) for p in (-1, 0, 1, 2, 3) for q in ([0] * 3, [0, 1, 1])
]


def _check(jvp: Any, vjp: Any, point: Any, name: str) -> None:
    """Checks <ct, dy> = <cx, dx> for each of three independent elements. Both sides may be not finite instead."""
    rng = np.random.default_rng(0)
    p, q, x = point
    dx, ct = rng.standard_normal(3), rng.standard_normal(3)
    dy, cx = jvp(p, q.astype(bool), x, dx)[-1], vjp(p, q.astype(bool), x, ct)[-1]
    expected, actual = ct * dy, cx * dx
    finite = np.isfinite(expected)
    assert np.array_equal(finite, np.isfinite(actual)), (name, p, q, expected, actual)
    np.testing.assert_allclose(actual[finite], expected[finite], rtol=1e-9, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("name", PROGRAMS)
def test_jvp_and_vjp_agree(name: str) -> None:
    for memory in ("stack", "sqrt", "log") if "loop" in name else ("auto",):
        program = tiduc.load(PROGRAMS[name], loop_memory=memory)
        jvp, vjp = str(program.jvp()), str(program.vjp())
        for point in POINTS:
            _check(lambda *x, t=jvp: evaluate(t, x), lambda *x, t=vjp: evaluate(t, x), point, name)


@pytest.mark.parametrize("name", ["if", "nested", "loop with a select"])
def test_order_two(name: str) -> None:
    """Where first derivatives are finite, the JVP of the VJP is the adjoint of the VJP of the VJP."""
    rng = np.random.default_rng(1)
    first = tiduc.load(PROGRAMS[name]).vjp()
    jvp, vjp = str(first.jvp()), str(first.vjp())
    p, q, x = np.int32(0), np.zeros(3, bool), np.array([0, 0.5, 2])
    ct, dx, dct, c1, c2 = rng.standard_normal((5, 3))
    dy = evaluate(jvp, [p, q, x, ct, dx, dct])[2:]
    cx = evaluate(vjp, [p, q, x, ct, c1, c2])[2:]
    assert np.isfinite([*dy, *cx]).all()
    np.testing.assert_allclose(c1 * dy[0] + c2 * dy[1], dx * cx[0] + dct * cx[1], rtol=1e-9)


@pytest.mark.more
def test_on_iree() -> None:
    names = ["if", "nested", "loop", "loop with a select"]
    programs = {
        f"{name} {mode}": str(getattr(tiduc.load(PROGRAMS[name]), mode)())
        for name in names
        for mode in ("jvp", "vjp")
    }
    compiled = compiled_together(programs)
    for name in names:
        for point in POINTS:
            _check(compiled[f"{name} jvp"], compiled[f"{name} vjp"], point, name)
