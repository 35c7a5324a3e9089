"""Products of matrices in tiles, for CPUs with vectors of 512 bits: odd sizes and layouts."""

from typing import Any

import numpy as np
import pytest

import tiduc
from tiduc.backends.iree.fast.products_in_tiles import products_in_tiles
from tiduc.backends.iree.settings import Settings
from tiduc.backends.iree.targets import find_target
from tiduc.dialect.context import parse


def product(left: list[int], right: list[int], summed: tuple[int, int], kind: str) -> str:
    """The text of a product of two matrices."""
    x, y = (f"tensor<{a}x{b}x{kind}>" for a, b in (left, right))
    z = f"tensor<{left[1 - summed[0]]}x{right[1 - summed[1]]}x{kind}>"
    return f"""func.func @main(%x: {x}, %y: {y}) -> {z} {{
      %0 = stablehlo.dot_general %x, %y, contracting_dims = [{summed[0]}] x [{summed[1]}] : ({x}, {y}) -> {z}
      return %0 : {z}
    }}"""


@pytest.mark.skipif(not find_target("cpu").wide, reason="this CPU has no vectors of 512 bits")
@pytest.mark.parametrize(
    ("left", "right", "summed", "kind"),
    [([197, 96], [96, 128], (1, 0), "f32"), ([197, 96], [128, 96], (1, 1), "f32"),
     ([131, 100], [131, 120], (0, 0), "f64")],
)  # fmt: skip
def test_odd_sizes(left: list[int], right: list[int], summed: tuple[int, int], kind: str) -> None:
    """The numbers are NumPy's, whichever operand is copied; IREE's tiles are the alternative."""
    text = product(left, right, summed, kind)
    source = tiduc.load(text).source()
    assert "compilation_info" in str(source.stablehlo)
    assert source.otherwise is not None
    assert "compilation_info" not in str(source.otherwise().stablehlo)
    draw, dtype = np.random.default_rng(0).standard_normal, np.dtype(f"f{int(kind[1:]) // 8}")
    x, y = (draw(n).astype(dtype) for n in (left, right))
    ours = np.asarray(tiduc.load(text).compile()(x, y))
    expected: Any = np.tensordot(x, y, ((summed[0],), (summed[1],)))
    tolerance = 1e-5 if kind == "f32" else 1e-13
    np.testing.assert_allclose(
        ours.reshape(expected.shape), expected, rtol=0, atol=tolerance * abs(expected).max()
    )


def test_other_products_stay() -> None:
    """Small products, and those for CPUs with other vectors, are IREE's."""
    large = product([197, 96], [96, 128], (1, 0), "f32")
    assert products_in_tiles(parse(large), Settings()) == 0
    assert products_in_tiles(parse(large), Settings(wide=True)) == 1
    assert products_in_tiles(parse(product([9, 9], [9, 9], (1, 0), "f32")), Settings(wide=True)) == 0
