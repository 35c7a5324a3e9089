"""`simplify` for scatters of padded updates, as in the gradient of the first elements of a sort."""

import numpy as np
import pytest
from harness import xla
from harness.stages import body

import tiduc
from tiduc.dialect.mlir.context import parse
from tiduc.passes.lower.simplify import simplify


def scatter(
    low: list[int],
    high: list[int],
    between: int = 0,
    filled: str = "0.0",
    onto: str = "0.0",
    combine: str = "add",
) -> str:
    """Adds rows to the rows of a matrix of 6 by 3 at 5 by 4 indices, which lie along the middle dimension."""
    sizes = [5, 4, 3]
    kept = [(n - a - b + between) // (1 + between) for n, a, b in zip(sizes, low, high, strict=True)]
    u = f"tensor<{'x'.join(map(str, kept))}xf64>"
    return f"""func.func @main(%i: tensor<5x1x4xi32>, %u: {u}) -> tensor<6x3xf64> {{
      %0 = stablehlo.constant dense<{onto}> : tensor<6x3xf64>
      %1 = stablehlo.constant dense<{filled}> : tensor<f64>
      %2 = stablehlo.pad %u, %1, low = {low}, high = {high}, interior = {[between] * 3}
        : ({u}, tensor<f64>) -> tensor<5x4x3xf64>
      %3 = "stablehlo.scatter"(%0, %i, %2) <{{scatter_dimension_numbers = #stablehlo.scatter<
          update_window_dims = [2], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],
          index_vector_dim = 1>}}> ({{
        ^bb0(%a: tensor<f64>, %b: tensor<f64>):
          %4 = stablehlo.{combine} %a, %b : tensor<f64>
          stablehlo.return %4 : tensor<f64>
        }}) : (tensor<6x3xf64>, tensor<5x1x4xi32>, tensor<5x4x3xf64>) -> tensor<6x3xf64>
      return %3 : tensor<6x3xf64>
    }}"""


def simplified(text: str) -> str:
    module = parse(text)
    simplify(module.operation)
    module.operation.verify()
    return str(module)


@pytest.mark.parametrize(
    ("low", "high"), [([1, 0, 0], [2, 0, 0]), ([0, 0, 0], [0, 3, 0]), ([1, 2, 0], [1, 1, 0])]
)
def test_scatters_of_padded_updates(low: list[int], high: list[int]) -> None:
    """The indices are cut instead, and the sums remain equal. Indices out of range and repeated ones are tested."""
    text = scatter(low, high)
    after = simplified(text)
    assert "slice" in body(after) and "pad" not in body(after)
    draw = np.random.default_rng(0)
    arguments = [
        draw.integers(-2, 8, (5, 1, 4), np.int32),
        draw.standard_normal(tiduc.load(text).signature.inputs[1].type.shape),
    ]
    np.testing.assert_array_equal(xla.by_xla(after, arguments)[0], xla.by_xla(text, arguments)[0])


@pytest.mark.parametrize(
    "text",
    [
        scatter([0, 0, 1], [0, 0, 1]),  # the rows are padded
        scatter([1, 0, 0], [2, 0, 0], filled="1.0"),
        scatter([1, 0, 0], [2, 0, 0], onto="1.0"),
        scatter([1, 0, 0], [2, 0, 0], combine="maximum"),
        scatter([0, 1, 0], [0, 0, 0], between=1),
        scatter([-1, 0, 0], [2, 0, 0]),
    ],
)
def test_scatters_that_stay(text: str) -> None:
    assert "pad" in body(simplified(text))


def test_gradient_of_the_largest_elements() -> None:
    """Only the first indices of a sort are read, so that IREE need not sort all of them."""
    torch = pytest.importorskip("torch")

    class Largest(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: object) -> object:
            return torch.topk(x, 2, 1).values

    x = torch.randn(9, 40)
    gradient = tiduc.from_torch(Largest(), (x,)).vjp()
    assert "stablehlo.pad" not in gradient.text
    ct = np.random.default_rng(0).standard_normal((9, 2)).astype(np.float32)
    values, found = gradient(x.numpy(), ct)
    expected = torch.topk(x, 2, 1)
    np.testing.assert_array_equal(values, expected.values)
    wanted = np.zeros((9, 40), np.float32)
    np.put_along_axis(wanted, expected.indices.numpy(), ct, 1)
    np.testing.assert_array_equal(found, wanted)
