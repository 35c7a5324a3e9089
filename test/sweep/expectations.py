"""JAX's harnesses whose derivatives by tiduc differ from JAX's or need another comparison, with reasons."""

from collections.abc import Callable
from typing import Any

Array = Any

AGREE = "differences agree with ours"

OF_SAMPLER = "the program draws until it accepts, and JAX has the derivative of the distribution"

EXPECTED = [
    ("^acosh_.*float", "below 1 there is no acosh, whose formula has a value nonetheless in JAX"),
    ("^acosh_.*complex", "JAX's has the wrong sign in the left half-plane"),
    ("^sign_.*complex", "z / |z| moves along the circle, and JAX takes it to be constant"),
    ("^stop_gradient_", "nothing of it is left in StableHLO"),
    (
        "^sort_.*isstable_False",
        "tangents go where values go; JAX's differentiated program may order ties anew",
    ),
    ("^gather_", "starts that are out of range are clamped, and JAX's transpose drops them"),
    ("^(cholesky|eigh)_", "of a tangent that is not Hermitian one triangle is read, as of the matrix"),
    ("^scatter_add_modes_out_of_bounds", "updates out of range are dropped, and JAX's transpose clamps them"),
    ("^random_gamma_", OF_SAMPLER),
]
"""Patterns of harnesses where tiduc's derivatives agree with differences but not with JAX's, with reasons."""

SINGULAR = [
    (
        "^(min|max)_inf_nan_complex",
        "of complex values with NaN or infinite parts, one is selected nonetheless",
    ),
    ("^cholesky_shape_b?float(16|32)_2_5_5_", "as other factors, but near to where there is none"),
    ("^(div|rem)_singularity_.*_by_0", "infinite or NaN, like the value"),
    ("^bitcast_convert_type_", "of one type it is the identity, which JAX takes to be constant"),
    ("^random_gamma_shape_float32", OF_SAMPLER),
]
"""Patterns of harnesses without meaningful differences, with reasons."""

INSIDE: list[tuple[str, Callable[..., Any]]] = [
    ("^igammac?_", lambda a, x, *ct: [abs(a), abs(x), *ct]),
    ("^regularized_incomplete_beta_", lambda a, b, x, *ct: [abs(a) + 1, abs(b) + 1, abs(x) % 1, *ct]),
]
"""Functions that map arguments into a function's domain; outside the domain, the function is NaN."""


def of_hermitian(v: Array, w: Array) -> list[Array]:
    return [w, (v * (w / (1 + w * w))[..., None, :]) @ adjoint(v)]


def of_singular(s: Array, u: Array, vh: Array) -> list[Array]:
    """The singular values, a matrix function, and projectors onto the complements of the singular vectors."""
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
"""Functions that are differentiated instead of results whose signs, phases or bases are arbitrary."""
