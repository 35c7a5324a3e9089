"""The harnesses of JAX for which tiduc's derivatives are expected to differ from JAX's, or are compared otherwise."""

from collections.abc import Callable
from typing import Any

Array = Any

AGREE = "differences agree with tiduc's derivatives"

OF_SAMPLER = "the program draws until it accepts a sample; JAX has the derivative of the distribution"
OF_TRIGAMMA = "JAX's trigamma has large errors below -7"

EXPECTED = [
    ("^acosh_.*float", "acosh is undefined below 1, but JAX's formula has a value there"),
    ("^acosh_.*complex", "JAX's derivative has the wrong sign in the left half-plane"),
    ("^sign_.*complex", "z / |z| moves along the circle, but JAX treats it as a constant"),
    ("^stop_gradient_", "StableHLO has no trace of the function"),
    (
        "^sort_.*isstable_False",
        "tangents move with values; JAX's differentiated program may order ties differently",
    ),
    ("^gather_", "start indices out of range are clamped; JAX's transpose drops their updates"),
    ("^(cholesky|eigh)_", "only one triangle of a tangent that is not Hermitian is read, as of the matrix"),
    (
        "^scatter_add_modes_out_of_bounds",
        "updates out of range are dropped; JAX's transpose clamps their indices",
    ),
    ("^random_gamma_", OF_SAMPLER),
    ("^digamma_", OF_TRIGAMMA),
]
"""Pairs of a pattern of harness names and a reason.

For these harnesses, tiduc's derivatives agree with finite differences, but not with JAX's derivatives.
"""

SINGULAR = [
    (
        "^(min|max)_inf_nan_complex",
        "one of several complex values with NaN or infinite parts is selected arbitrarily",
    ),
    (
        "^cholesky_shape_b?float(16|32)_2_5_5_",
        "like other Cholesky factors, but close to matrices without a factor",
    ),
    ("^(div|rem)_singularity_.*_by_0", "the derivative is infinite or NaN, like the value"),
    (
        "^bitcast_convert_type_",
        "between equal types, the op is the identity, but JAX treats it as a constant",
    ),
    ("^random_gamma_shape_float32", OF_SAMPLER),
    ("^digamma_shape_b?float(16|32)_", OF_TRIGAMMA),
]
"""Pairs of a pattern of harness names and a reason why finite differences are meaningless for these harnesses."""

INSIDE: list[tuple[str, Callable[..., Any]]] = [
    ("^igammac?_", lambda a, x, *ct: [abs(a), abs(x), *ct]),
    ("^regularized_incomplete_beta_", lambda a, b, x, *ct: [abs(a) + 1, abs(b) + 1, abs(x) % 1, *ct]),
]
"""Pairs of a pattern of harness names and a function that maps the arguments into the domain of the tested function.

Outside the domain, the value of the tested function is NaN.
"""


def of_hermitian(v: Array, w: Array) -> list[Array]:
    return [w, (v * (w / (1 + w * w))[..., None, :]) @ adjoint(v)]


def of_singular(s: Array, u: Array, vh: Array) -> list[Array]:
    """Functions of a singular value decomposition that do not depend on the choice of singular vectors.

    They are the singular values, a matrix function, and the projectors onto the complements of the spaces that the left
    and the right singular vectors span.
    """
    v, count = adjoint(vh), s.shape[-1]
    function = (u[..., :count] * (s * s)[..., None, :]) @ vh[..., :count, :]
    return [s, function, *(x[..., count:] @ adjoint(x[..., count:]) for x in (u, v))]


def adjoint(x: Array) -> Array:
    return x.conj().swapaxes(-1, -2)


OBSERVED: list[tuple[str, Callable[..., list[Array]]]] = [
    ("^eigh_", of_hermitian),
    ("^svd_.*fullmatrices_True_computeuv_True", of_singular),
    ("^eig_", lambda w, *vectors: [w, *(v * v for v in vectors)]),
]
"""Pairs of a pattern of harness names and a function of the results.

The sweep differentiates this function instead of the results, whose signs, phases or bases are arbitrary.
"""
