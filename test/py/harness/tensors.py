"""Writes the programs in tests of rules, and draws their arguments."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def tensor(sizes: Sequence[int], element: str = "f64") -> str:
    """Returns the type of a tensor as text."""
    return f"tensor<{''.join(f'{n}x' for n in sizes)}{element}>"


def normal(generator: np.random.Generator, sizes: Sequence[int], element: str = "f64") -> NDArray[np.inexact]:
    """Draws an array from the standard normal distribution, in f64 or, for complex element types, in complex128."""
    x = np.asarray(generator.standard_normal(sizes))
    return x + 1j * generator.standard_normal(sizes) if element.startswith("complex") else x


def one_op(op: str, *types: str, result: str | None = None, attributes: str = "") -> str:
    """Returns the text of a function with one op. By default, the result has the type of the first operand."""
    arguments = ", ".join(f"%{i}: {t}" for i, t in enumerate(types))
    operands = ", ".join(f"%{i}" for i in range(len(types)))
    result = result or types[0]
    return f"""
    func.func @main({arguments}) -> {result} {{
      %y = "{op}"({operands}) {{{attributes}}} : ({", ".join(types)}) -> {result}
      return %y : {result}
    }}"""
