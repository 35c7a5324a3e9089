"""The custom call ApproxTopK, which JAX exports. On CPUs, it returns exactly the largest values, in order."""

from typing import Any

import jax
import numpy as np
import pytest
from harness.check_rule import check_rule

from tiduc.dialect.errors import Unsupported
from tiduc.loading import load

RNG = np.random.default_rng(0)


@pytest.mark.usefixtures("double_precision")
@pytest.mark.parametrize(
    ("name", "sizes", "d", "order"),
    [
        ("approx_max_k", (8,), 0, 2),
        ("approx_min_k", (2, 4, 3), 1, 1),
        ("approx_max_k", (1, 3), 0, 1),
        ("approx_min_k", (5, 3), 0, 1),
    ],
)
def test_takes(name: str, sizes: tuple[int, ...], d: int, order: int) -> None:
    def function(x: Any) -> Any:
        values, indices = getattr(jax.lax, name)(x, min(2, sizes[d]), reduction_dimension=d)
        return values**2, indices

    x = RNG.standard_normal(sizes)
    text = jax.jit(function).lower(x).as_text()
    assert "ApproxTopK" in text
    check_rule(text, x, order=order, jax_function=lambda x: function(x)[0])


def test_refused() -> None:
    def function(x: Any) -> Any:
        return jax.lax.approx_max_k(x, 2)[0]

    text = jax.jit(function).lower(RNG.standard_normal((4, 6))).as_text()
    with pytest.raises(Unsupported, match="(ApproxTopK|custom_call).*: its operands are not values"):
        load(text.replace("iota dim = 1", "iota dim = 0")).jvp()
