"""Products with batch dimensions on IREE: an array that several products read is transposed once."""

import numpy as np

import tiduc

PROGRAM = """func.func @main(%a: tensor<7x3x2xf32>, %w: tensor<3x2x5xf32>, %y: tensor<3x7x4xf32>)
    -> (tensor<3x7x5xf32>, tensor<3x2x4xf32>) {
  %x = stablehlo.tanh %a : tensor<7x3x2xf32>
  %0 = stablehlo.dot_general %x, %w, batching_dims = [1] x [0], contracting_dims = [2] x [1]
      : (tensor<7x3x2xf32>, tensor<3x2x5xf32>) -> tensor<3x7x5xf32>
  %1 = stablehlo.dot_general %x, %y, batching_dims = [1] x [0], contracting_dims = [0] x [1]
      : (tensor<7x3x2xf32>, tensor<3x7x4xf32>) -> tensor<3x2x4xf32>
  return %0, %1 : tensor<3x7x5xf32>, tensor<3x2x4xf32>
}
"""


def test_an_array_that_products_read_is_transposed() -> None:
    program = tiduc.load(PROGRAM)
    lines = program.source().stablehlo.splitlines()
    transposed = [line for line in lines if "stablehlo.transpose" in line]
    assert transposed and all("dims = [1, 0, 2]" in line for line in transposed)
    assert [line.count("batching_dims = [0] x [0]") for line in lines if "dot_general" in line] == [1, 1]
    random = np.random.default_rng(0)
    arguments = [random.standard_normal(port.type.shape).astype(np.float32) for port in program.inputs]
    for y, wanted in zip(
        program.compile()(*arguments), program.compile(engine="reference")(*arguments), strict=True
    ):
        np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-6)


def test_arguments_stay() -> None:
    """They are in memory anyway, so that a copy for all products would only live longer than one for each."""
    text = tiduc.load(PROGRAM.replace("dot_general %x", "dot_general %a")).source().stablehlo
    assert "stablehlo.transpose" not in text and text.count("batching_dims = [1] x [0]") == 2
