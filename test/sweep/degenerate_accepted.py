"""Intended differences from PyTorch's values and derivatives at degenerate inputs, for `torch_degenerate.py`."""

from typing import NamedTuple


class Accepted(NamedTuple):
    """A pattern of function names, the least order that may differ, the reason, and the kinds of inputs."""

    pattern: str
    order: int
    reason: str
    kinds: tuple[str, ...] = ("as given", "zeros", "ones", "integers", "empty")


ACCEPTED: dict[str, Accepted] = {
    "xlogy, xlog1py": Accepted(
        r"((torch|special)\.)?(xlogy|xlog1py)",
        2,
        "the mixed derivative at the pole is zero, and PyTorch's is infinite",
    ),
    "pow, float_power": Accepted(
        r"torch\.(pow|float_power)",
        2,
        "where the base is negative, the derivative toward the exponent is NaN, and so are its derivatives; PyTorch's "
        "derivative of that NaN toward the base is finite if the exponent is zero",
    ),
    "polar": Accepted(
        r"polar",
        1,
        "where the length is zero, it is that of the function; PyTorch's is zero",
    ),
    "polygamma": Accepted(
        r"special\.polygamma.*",
        0,
        "at negative integers, the values are infinite; PyTorch's are large numbers, from rounding",
    ),
    "kthvalue, topk": Accepted(
        r"torch\.(kthvalue|topk) \(.*",
        1,
        "of equal elements, the first ones have the derivative; PyTorch does not say which ones it takes",
    ),
    "scatter": Accepted(
        r"torch\.scatter",
        1,
        "of several updates at one place, the last one has the derivative; PyTorch's reaches all of them, which its "
        "documentation calls incorrect",
    ),
    "scatter_reduce": Accepted(
        r"torch\.scatter_reduce \((amax|amin), False\)",
        1,
        "without `include_self`, updates that tie share the whole derivative; PyTorch also counts the element of the "
        "input if it is equal, and drops its share",
    ),
    "lstsq": Accepted(
        r"linalg\.lstsq",
        0,
        "where columns depend on one another, QR gives another solution than the shortest one, or none; use "
        "`driver='gelsd'`",
        ("zeros", "ones"),
    ),
    "lstsq of regular matrices": Accepted(
        r"linalg\.lstsq",
        2,
        "where a reflector of QR jumps, it is NaN; use `driver='gelsd'`",
        ("as given", "integers"),
    ),
    "pinv": Accepted(
        r"linalg\.pinv( \(singular\))?",
        2,
        "where singular values are equal, the second derivative is not finite",
    ),
    "matrix_norm (nuc), matrix_norm (-2)": Accepted(
        r"linalg\.(matrix_norm|norm) \((nuc|-2)\)|torch\.norm \(nuc\)",
        1,
        "at matrices of lower rank the norms have no derivative; they get that of a basis of the vectors of zero, "
        "which is arbitrary",
        ("ones",),
    ),
    "det": Accepted(
        r"linalg\.det( \(4 rows\))?",
        2,
        "PyTorch's second derivative is wrong at some singular matrices, as central differences show",
        ("as given", "integers"),
    ),
    "det (6 rows)": Accepted(
        r"linalg\.det \(6 rows\)",
        1,
        "of more than four rows, it is NaN where a pivot before the last one is exactly 0",
        ("zeros", "ones", "as given", "integers"),
    ),
    "cond": Accepted(
        r"linalg\.cond \((2|None)\)",
        0,
        "at a singular matrix, it is a quotient by a rounding error",
        ("ones",),
    ),
    "instance_norm": Accepted(
        r"functional\.instance_norm \(eps 0\.0\)",
        0,
        "of equal elements without `eps` it is NaN, as 0 / 0, and PyTorch's is zero",
    ),
    "eigvals": Accepted(r"linalg\.eigvals", 0, "equal eigenvalues come in another order"),
    "eigvalsh, svdvals": Accepted(
        r"linalg\.(eigvalsh|svdvals)( \(singular\))?",
        1,
        "where values are equal, the derivative of each depends on the basis of their vectors, which is arbitrary",
        ("ones",),
    ),
    "qr": Accepted(
        r"linalg\.qr( \(wide\)| \(complex\))?",
        0,
        "where columns depend on one another, Q is arbitrary; where a reflector jumps, the second derivative is NaN",
    ),
    "lp_pool": Accepted(
        r"functional\.lp_pool[12]d \(0\.5\)",
        1,
        "the infinite slopes of the root at -0 have the sign that the engine gives to a power of -0",
    ),
    "prelu": Accepted(
        r"functional\.prelu",
        2,
        "at zero, PyTorch's first and second derivatives belong to different sides",
    ),
    "softplus": Accepted(
        r"functional\.softplus.*",
        2,
        "at the threshold, it is that of the part below; PyTorch's is that of the part above",
    ),
    "binary_cross_entropy": Accepted(
        r"functional\.binary_cross_entropy \(.*",
        1,
        "toward a target, it is that of the value, whose logarithms are at least -100; PyTorch's is infinite",
    ),
}
"""Intended differences from PyTorch's derivatives."""
