"""chlo.scan, which is imported as a loop: its values are compared with NumPy, and its derivatives are checked."""

import numpy as np
import pytest
from harness.check_rule import check_rule, run

from tiduc.loading import load

RNG = np.random.default_rng(0)


def scan(attributes: str = "") -> str:
    """The program of the scan y_t = x_t s_(t-1) + x_t, s_t = sinh y_t over the rows of x. The initial state is s."""
    return f"""
    func.func @main(%x: tensor<4x3xf64>, %s: tensor<3xf64>) -> (tensor<4x3xf64>, tensor<3xf64>) {{
      %0:2 = chlo.scan(%x) inits(%s) dimension=0 {attributes} {{
      ^bb0(%a: tensor<3xf64>, %b: tensor<3xf64>):
        %1 = stablehlo.multiply %a, %b : tensor<3xf64>
        %2 = stablehlo.add %1, %a : tensor<3xf64>
        %3 = chlo.sinh %2 : tensor<3xf64> -> tensor<3xf64>
        stablehlo.return %2, %3 : tensor<3xf64>, tensor<3xf64>
      }} : (tensor<4x3xf64>, tensor<3xf64>) -> (tensor<4x3xf64>, tensor<3xf64>)
      return %0#0, %0#1 : tensor<4x3xf64>, tensor<3xf64>
    }}"""


@pytest.mark.parametrize("attributes", ["", "attributes {is_reverse = true}"])
def test_scan(attributes: str) -> None:
    x, s = RNG.standard_normal((4, 3)) / 2, RNG.standard_normal(3) / 2
    way = slice(None, None, -1) if attributes else slice(None)
    outputs, carry = [], s
    for row in x[way]:
        outputs.append(row * carry + row)
        carry = np.sinh(outputs[-1])
    results = run(load(scan(attributes)), [x, s])
    np.testing.assert_allclose(results[0], np.array(outputs)[way], rtol=1e-12)
    np.testing.assert_allclose(results[1], carry, rtol=1e-12)
    check_rule(scan(attributes), x, s)


def test_two_scans_one_in_a_branch() -> None:
    """If a program has two scans, one of them in a branch, each is imported as a function with a new name."""
    text = scan().replace("@main", "@scan0")
    body = scan()[scan().index("%0:2") : scan().rindex("return")]
    program = load(f"""
    {text.replace("func.func", "func.func private")}
    func.func @main(%x: tensor<4x3xf64>, %s: tensor<3xf64>, %p: tensor<i1>) -> tensor<3xf64> {{
      %y:2 = func.call @scan0(%x, %s) : (tensor<4x3xf64>, tensor<3xf64>) -> (tensor<4x3xf64>, tensor<3xf64>)
      %z = "stablehlo.if"(%p) ({{
        {body}
        stablehlo.return %0#1 : tensor<3xf64>
      }}, {{
        stablehlo.return %s : tensor<3xf64>
      }}) : (tensor<i1>) -> tensor<3xf64>
      %c = stablehlo.add %y#1, %z : tensor<3xf64>
      return %c : tensor<3xf64>
    }}""")
    x, s = RNG.standard_normal((4, 3)) / 2, RNG.standard_normal(3) / 2
    last = run(load(scan()), [x, s])[1]
    for p, other in ((True, last), (False, s)):
        np.testing.assert_allclose(run(program, [x, s, np.array(p)])[0], last + other, rtol=1e-12)
