"""Schur forms of complex matrices, and refused cases."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from harness.check_rule import check_rule, like
from harness.exports import exported
from jax import lax

from tiduc.dialect.errors import Unsupported
from tiduc.loading import load

RNG = np.random.default_rng(0)


def matrix(*sizes: int, kind: str = "f") -> Any:
    return like(np.zeros(sizes, {"f": np.float64, "c": np.complex128}[kind]), RNG)


def without_phases(x: Any) -> Any:
    """Functions of the Schur form and its vectors that do not depend on the phases of the vectors."""
    t, z = lax.linalg.schur(x)
    first = z[..., :, :1]
    w = jnp.sum(t * jnp.eye(t.shape[-1]), axis=-1)
    return (
        w,
        jnp.abs(t) ** 2,
        first * jnp.conj(first).swapaxes(-1, -2),
        z * z.conj(),
    )


@pytest.mark.parametrize(("sizes", "order"), [((3, 3), 1), ((2, 4, 4), 1), ((2, 2), 2), ((0, 0), 1)])
def test_complex(sizes: tuple[int, ...], order: int) -> None:
    x = matrix(*sizes, kind="c")
    check_rule(exported(without_phases, x), x, order=order, rtol=1e-6)


def test_form_alone() -> None:
    """If a call computes only the Schur form, its derivative is right.

    The rule computes the Schur vectors that it needs.
    """
    x = matrix(3, 3, kind="c")
    form = exported(lambda x: jnp.abs(lax.linalg.schur(x, compute_schur_vectors=False)[0]) ** 2, x)
    check_rule(form, x, order=1)


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (lax.linalg.schur, "f"),
        *((f, kind) for f in (lax.linalg.hessenberg, lax.linalg.tridiagonal) for kind in ("f", "c")),
    ],
)
def test_refused(function: Any, kind: str) -> None:
    with pytest.raises(Unsupported, match=r"custom_call @lapack_[dz]\w+_ffi: "):
        load(exported(function, matrix(3, 3, kind=kind))).jvp()
