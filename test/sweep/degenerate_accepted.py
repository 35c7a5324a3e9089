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
        "at the pole, the mixed derivative is zero; PyTorch's is infinite",
    ),
    "pow, float_power": Accepted(
        r"torch\.(pow|float_power)",
        2,
        "if the base is negative, the derivative toward the exponent and all its derivatives are NaN; if the "
        "exponent is also zero, PyTorch's derivative of this NaN toward the base is finite",
    ),
    "polar": Accepted(
        r"polar",
        1,
        "if the length is zero, the derivative is that of the function; PyTorch's is zero",
    ),
    "polygamma": Accepted(
        r"special\.polygamma.*",
        0,
        "at negative integers, the values are infinite; PyTorch's are large numbers because of rounding",
    ),
    "kthvalue, topk": Accepted(
        r"torch\.(kthvalue|topk) \(.*",
        1,
        "of equal elements, the first ones get the derivative; PyTorch does not specify which elements it selects",
    ),
    "scatter": Accepted(
        r"torch\.scatter",
        1,
        "of several updates of one element, only the last one gets the derivative; in PyTorch, all of them "
        "get it, which its documentation calls incorrect",
    ),
    "scatter_reduce": Accepted(
        r"torch\.scatter_reduce \((amax|amin), False\)",
        1,
        "without `include_self`, tied updates share the whole derivative; PyTorch also gives a share to the "
        "input's element if it is equal, and drops this share",
    ),
    "lstsq": Accepted(
        r"linalg\.lstsq",
        0,
        "if columns are linearly dependent, QR gives a solution that is not the shortest one, or no solution; "
        "use `driver='gelsd'`",
        ("zeros", "ones"),
    ),
    "lstsq of regular matrices": Accepted(
        r"linalg\.lstsq",
        2,
        "where a reflector of QR is discontinuous, the derivative is NaN; use `driver='gelsd'`",
        ("as given", "integers"),
    ),
    "pinv": Accepted(
        r"linalg\.pinv( \(singular\))?",
        2,
        "if singular values are equal, the second derivative is not finite",
    ),
    "matrix_norm (nuc), matrix_norm (-2)": Accepted(
        r"linalg\.(matrix_norm|norm) \((nuc|-2)\)|torch\.norm \(nuc\)",
        1,
        "at matrices of lower rank, the norms have no derivative; the result depends on the basis of singular "
        "vectors of the value zero, which is arbitrary",
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
        "for more than four rows, the derivative is NaN if a pivot other than the last one is exactly 0",
        ("zeros", "ones", "as given", "integers"),
    ),
    "cond": Accepted(
        r"linalg\.cond \((2|None)\)",
        0,
        "for a singular matrix, the value is a quotient by a rounding error",
        ("ones",),
    ),
    "instance_norm": Accepted(
        r"functional\.instance_norm \(eps 0\.0\)",
        0,
        "for equal elements and `eps=0`, the value is 0 / 0, which is NaN; PyTorch's is zero",
    ),
    "eigvals": Accepted(r"linalg\.eigvals", 0, "equal eigenvalues come in another order"),
    "eigvalsh, svdvals": Accepted(
        r"linalg\.(eigvalsh|svdvals)( \(singular\))?",
        1,
        "if values are equal, the derivative of each depends on the basis of their vectors, which is arbitrary",
        ("ones",),
    ),
    "qr": Accepted(
        r"linalg\.qr( \(wide\)| \(complex\))?",
        0,
        "if columns are linearly dependent, Q is arbitrary; where a reflector is discontinuous, the second "
        "derivative is NaN",
    ),
    "lp_pool": Accepted(
        r"functional\.lp_pool[12]d \(0\.5\)",
        1,
        "the root has an infinite slope at -0, whose sign is the sign that the engine gives to a power of -0",
    ),
    "prelu": Accepted(
        r"functional\.prelu",
        2,
        "at zero, PyTorch's first and second derivatives belong to different sides",
    ),
    "softplus": Accepted(
        r"functional\.softplus.*",
        2,
        "at the threshold, the derivative is the one below it; PyTorch's is the one above it",
    ),
    "binary_cross_entropy": Accepted(
        r"functional\.binary_cross_entropy \(.*",
        1,
        "the logarithms in the value are at least -100, and the derivative toward a target is that of the "
        "value; PyTorch's is infinite",
    ),
}
"""Intended differences from PyTorch's derivatives."""
