"""If the nonzero parts of padded arrays do not overlap, IREE gets their concatenation instead of their sum."""

import numpy as np
import pytest
from harness.sources import source_of

import tiduc

Z = "(tensor<2x{0}xf32>, tensor<f32>) -> tensor<2x9xf32>"
PROGRAM = f"""func.func @main(%a: tensor<2x3xf32>, %b: tensor<2x4xf32>, %c: tensor<2x9xf32>, %d: tensor<2x1xf32>)
    -> tensor<2x9xf32> {{
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.pad %a, %z, low = [0, 5], high = [0, 1], interior = [0, 0] : {Z.format(3)}
  %1 = stablehlo.pad %b, %z, low = [0, 0], high = [0, 5], interior = [0, 0] : {Z.format(4)}
  %2 = stablehlo.pad %d, %z, low = [0, LOW], high = [0, HIGH], interior = [0, 0] : {Z.format(1)}
  %3 = stablehlo.add %0, %c : tensor<2x9xf32>
  %4 = stablehlo.add %3, %1 : tensor<2x9xf32>
  %5 = stablehlo.add %4, %2 : tensor<2x9xf32>
  return %5 : tensor<2x9xf32>
}}
"""


@pytest.mark.parametrize(("low", "pieces"), [(4, 4), (8, 4), (3, 4)], ids=["between", "after", "overlapping"])
def test_terms_that_do_not_overlap_are_joined(low: int, pieces: int) -> None:
    """A sum of padded arrays becomes a concatenation of `pieces` arrays, with equal values.

    Term b fills elements 0 to 3, a fills 5 to 7, and d fills element `low`. Their other elements are zero.
    """
    program = tiduc.load(PROGRAM.replace("LOW", str(low)).replace("HIGH", str(8 - low)))
    (joined,) = (line for line in source_of(program).stablehlo.splitlines() if "concatenate" in line)
    assert joined.partition(", dim")[0].count("%") - 1 == pieces
    random = np.random.default_rng(0)
    arguments = [random.standard_normal((2, n)).astype(np.float32) for n in (3, 4, 9, 1)]
    (wanted,) = program.compile(engine="reference")(*arguments)
    np.testing.assert_allclose(program.compile()(*arguments)[0], wanted, rtol=1e-6)
