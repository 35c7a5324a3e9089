"""Tests the rewrite of scatters of rows for NVIDIA's GPUs. The rewritten programs run on the CPU."""

from typing import Any

import numpy as np
import pytest
from test_iree_gpu_sums import RNG, text_of

from tiduc.backends.iree.emit.emitter import Emitter, rewrite
from tiduc.backends.iree.emit.gpu_scatters import with_rows_added
from tiduc.backends.reference.interpreter import evaluate
from tiduc.dialect.mlir.context import parse, stage

SCATTER = """func.func @main({0}%i: tensor<12x1xi32>, %u: tensor<12x5xf32>) -> tensor<7x5xf32> {{
  {1}%0 = "stablehlo.scatter"(%t, %i, %u) <{{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1],
    inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}> ({{
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }}) : (tensor<7x5xf32>, tensor<12x1xi32>, tensor<12x5xf32>) -> tensor<7x5xf32>
  return %0 : tensor<7x5xf32>
}}"""


@pytest.mark.parametrize("constant", [True, False])
def test_rows_added_at_once(constant: bool) -> None:
    """The rewritten scatter equals the original if several updates add to one row.

    An infinity or NaN in an update affects only the row to which the update is added.
    """
    zeros = "%t = stablehlo.constant dense<0.0> : tensor<7x5xf32>\n"
    text = SCATTER.format("", zeros) if constant else SCATTER.format("%t: tensor<7x5xf32>, ", "")
    module = parse(text)

    def rows(b: Emitter, op: Any) -> list[Any]:
        return [with_rows_added(b, *op.operands)] if len(op.regions) else []

    assert stage(rewrite)(module, {"stablehlo.scatter": rows}) == 1
    t, u = RNG.normal(size=(7, 5)).astype(np.float32), RNG.normal(size=(12, 5)).astype(np.float32)
    u[0, 0], u[3, 1], u[4, 1], u[5, 2] = np.inf, np.inf, -np.inf, np.nan
    i = np.array([2, 2, 2, 0, 0, 6, 6, 1, 3, 3, 3, 2], np.int32)[:, None]
    arguments = [i, u] if constant else [t, i, u]
    (expected,), (found,) = evaluate(text, arguments), evaluate(text_of(module), arguments)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert np.isinf(expected).sum() == 1 and np.isnan(expected).sum() == 2
