"""Returns the gradients of JAX loops as text, and the types of the values that loops carry."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
from harness.exports import exported
from jax import lax
from numpy.typing import NDArray

import tiduc

Array = NDArray[Any]
MEMORIES = ["stack", "sqrt", "log"]


def random(*shapes: tuple[int, ...]) -> list[Array]:
    generator = np.random.default_rng(1)
    return [0.2 + 0.6 * generator.random(shape) for shape in shapes]


def stacks(text: str, n: int) -> list[str]:
    """Returns the types of the values that loops carry and whose first dimension has the size `n`."""
    loops = re.findall(r"stablehlo.while\(.*\) : (.*?)(?: attributes.*)?\n", text)
    return [
        t for types in loops for t in types.split(", ") if t.startswith((f"tensor<{n}x", f"tensor<{n}xf"))
    ]


def grad(function: Callable[..., Any], arguments: Sequence[Any], memory: str = "auto") -> str:
    return replace(tiduc.load(exported(function, *arguments)), loop_memory=memory).grad().text


def scanned(n: int) -> tuple[Callable[..., Any], list[Array]]:
    def f(xs: Any, w: Any) -> Any:
        def body(c: Any, x: Any) -> Any:
            c = jnp.tanh(w @ c + x)
            return c, c * x

        c, ys = lax.scan(body, jnp.ones(2), xs)
        return jnp.sum(ys) + jnp.sum(c)

    return f, random((n, 2), (2, 2))
