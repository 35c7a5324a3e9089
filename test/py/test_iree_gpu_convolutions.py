"""For NVIDIA's GPUs, convolutions become matrix products. `test_iree_gpu_products.py` checks their values."""

import pytest
from test_iree_gpu_products import FORMS

from tiduc.backends.iree.fast.cuda.gpu_convolutions import gpu_convolutions
from tiduc.dialect.graph.functions import outer_first
from tiduc.dialect.mlir.context import parse

CONVOLUTIONS = [name for name, form in FORMS.items() if "stablehlo.convolution" in form.function(name)]


def ops_after(text: str) -> tuple[int, list[str]]:
    """Runs the pass on a program. Returns the number of rewrites, and the names of the ops after the pass."""
    module = parse(text)
    count = gpu_convolutions(module)
    return count, [op.name for op in outer_first(module.operation)]


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_a_convolution_becomes_a_product(name: str) -> None:
    count, names = ops_after(FORMS[name].function("main"))
    assert count == 1
    assert "stablehlo.convolution" not in names and names.count("stablehlo.dot_general") == 1


def test_convolutions_of_f64_stay() -> None:
    count, names = ops_after(FORMS["padded"].function("main").replace("f32", "f64"))
    assert count == 0 and "stablehlo.convolution" in names
