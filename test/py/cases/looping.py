"""Writes loops that IREE runs as kernels, and draws arguments for programs."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

import tiduc

Array = NDArray[Any]


def looping(carries: str, body: str, count: int = 7) -> str:
    """Returns the text of a loop with `count` iterations.

    The loop carries values with these types, which are named %a, %b, and so on. The body must define the following
    values, which are named %p, %q, and so on.
    """
    types = carries.split()
    names, news = "abcdef"[: len(types)], "pqrstu"[: len(types)]
    takes = ", ".join(f"%{n}0: {t}" for n, t in zip(names, types, strict=True))
    bound = ", ".join(f"%{n} = %{n}0" for n in names)
    gives, all_types = ", ".join(f"%{n}" for n in news), ", ".join(types)
    results = ", ".join(f"%y#{i + 1}" for i in range(len(types)))
    return f"""func.func @main({takes}) -> ({all_types}) {{
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %y:{len(types) + 1} = stablehlo.while(%i = %zero, {bound}) : tensor<i32>, {all_types}
      cond {{
        %n = stablehlo.constant dense<{count}> : tensor<i32>
        %less = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %less : tensor<i1>
      }} do {{
        %one = stablehlo.constant dense<1> : tensor<i32>
        %j = stablehlo.add %i, %one : tensor<i32>
        {body}
        stablehlo.return %j, {gives} : tensor<i32>, {all_types}
      }}
      return {results} : {all_types}
    }}"""


def drawn(text: str) -> list[Array]:
    """Draws arguments for a program."""
    rng = np.random.default_rng(0)
    inputs = (value.type for value in tiduc.load(text).signature.inputs)
    return [np.asarray(rng.uniform(-1, 1, t.shape) * 3).astype(t.dtype) for t in inputs]
