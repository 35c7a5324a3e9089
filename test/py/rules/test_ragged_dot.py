"""ragged_dot: groups of rows, empty groups, and rows outside all groups. Other forms are refused."""

import numpy as np
import pytest
from harness.check_rule import check_rule

from tiduc.dialect.errors import Unsupported
from tiduc.loading import load

RNG = np.random.default_rng(0)


def program(contracted: int, batch: str = "", integer: str = "i64") -> str:
    x, z = f"tensor<{batch}5x3xf64>", f"tensor<{batch}5x4xf64>"
    y = f"tensor<{batch}2x{'3x4' if contracted == 1 else '4x3'}xf64>"
    first = 1 if batch else 0
    batching = "0" if batch else ""
    precision = "#chlo<precision DEFAULT>"
    return f"""
    func.func @main(%x: {x}, %y: {y}, %g: tensor<{batch}2x{integer}>) -> {z} {{
      %0 = "chlo.ragged_dot"(%x, %y, %g) {{ragged_dot_dimension_numbers = #chlo.ragged_dot<
        lhs_batching_dimensions = [{batching}], rhs_batching_dimensions = [{batching}],
        lhs_contracting_dimensions = [{first + 1}], rhs_contracting_dimensions = [{first + contracted}],
        lhs_ragged_dimensions = [{first}], rhs_group_dimensions = [{first}]>,
        precision_config = [{precision}, {precision}]}} : ({x}, {y}, tensor<{batch}2x{integer}>) -> {z}
      return %0 : {z}
    }}"""


@pytest.mark.sampled(6)
@pytest.mark.parametrize("contracted", [1, 2])
@pytest.mark.parametrize("sizes", [[2, 3], [0, 5], [5, 0], [1, 2], [0, 0]])
def test_groups(contracted: int, sizes: list[int]) -> None:
    x, y = RNG.standard_normal([5, 3]), RNG.standard_normal([2, 3, 4])
    y = y if contracted == 1 else np.swapaxes(y, 1, 2)
    check_rule(program(contracted), x, y, np.array(sizes))


def test_narrow_group_sizes() -> None:
    x, y = RNG.standard_normal([5, 3]), RNG.standard_normal([2, 3, 4])
    check_rule(program(1, integer="i32"), x, y, np.array([2, 3], np.int32), order=1)


def test_other_forms_are_refused() -> None:
    with pytest.raises(Unsupported, match="only rows times matrices, without batching dimensions"):
        load(program(1, batch="2x")).jvp()
