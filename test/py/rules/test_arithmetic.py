"""Ops that are linear in their operands, or in each of them: f64 and complex128."""

import numpy as np
import pytest
from check_rule import check_rule

RNG = np.random.default_rng(0)


def binary(op: str, element: str, operands: str = "%x, %y") -> str:
    t = f"tensor<3x{element}>"
    return f"""
    func.func @main(%x: {t}, %y: {t}) -> {t} {{
      %0 = stablehlo.{op} {operands} : {t}
      return %0 : {t}
    }}"""


@pytest.mark.parametrize("operands", ["%x, %y", "%y, %x", "%x, %x"])
@pytest.mark.parametrize("op", ["add", "multiply"])
def test_real(op: str, operands: str) -> None:
    check_rule(binary(op, "f64", operands), RNG.standard_normal(3), RNG.standard_normal(3))


@pytest.mark.parametrize("op", ["add", "multiply"])
def test_complex(op: str) -> None:
    x, y = RNG.standard_normal((2, 3)) + 1j * RNG.standard_normal((2, 3))
    check_rule(binary(op, "complex<f64>"), x, y)
