"""Lists intended differences from PyTorch's values and derivatives at degenerate inputs."""

from typing import NamedTuple


class Accepted(NamedTuple):
    """An intended difference from PyTorch, for functions whose names match `pattern`.

    Derivatives of this and higher orders may differ. Order 0 is the value. `kinds` are the kinds of inputs for which
    they may differ. If `is_nan`, only elements that are infinite or NaN in tiduc's result may differ.
    """

    pattern: str
    order: int
    reason: str
    kinds: tuple[str, ...] = ("as given", "zeros", "ones", "integers", "empty")
    is_nan: bool = False


ACCEPTED: dict[str, Accepted] = {
    "xlogy, xlog1py": Accepted(
        r"((torch|special)\.)?(xlogy|xlog1py)",
        2,
        "at the pole, the mixed derivative is zero; PyTorch's is infinite",
    ),
    "pow, float_power": Accepted(
        r"torch\.(pow|float_power)",
        2,
        "where the exponent is zero, the mixed derivative is 1 / x, or NaN for a negative base x; PyTorch's is 0",
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
        is_nan=True,
    ),
    "kthvalue, topk": Accepted(
        r"(torch\.)?(kthvalue|topk)( \(.*)?",
        0,
        "among equal elements, the first ones are selected; PyTorch does not specify which ones it selects",
        ("zeros", "ones", "integers"),
    ),
    "scatter": Accepted(
        r"torch\.scatter",
        1,
        "if several updates change one element, only the last one gets the derivative; in PyTorch, all of "
        "them get it, which its documentation calls incorrect",
    ),
    "scatter_reduce": Accepted(
        r"(torch\.)?scatter_reduce \((amax|amin), (False|without self)\)",
        1,
        "without `include_self`, tied updates share the whole derivative; PyTorch also gives a share to the "
        "input's element if it is equal, and drops this share",
    ),
    "lstsq": Accepted(
        r"linalg\.lstsq",
        0,
        "if columns are linearly dependent, the solution by QR is NaN; where a reflector of QR is discontinuous, the "
        "second derivative is NaN; use `driver='gelsd'`",
        is_nan=True,
    ),
    "inv_ex": Accepted(
        r"linalg\.inv_ex",
        0,
        "if a matrix is singular, elements are NaN where PyTorch's are infinite; PyTorch calls the inverse undefined",
        is_nan=True,
    ),
    "lu": Accepted(
        r"linalg\.lu( \(tall\))?",
        1,
        "where a pivot before the last one is 0, the factors have no derivative, and more elements are NaN than in "
        "PyTorch",
        ("zeros", "ones", "integers"),
        is_nan=True,
    ),
    "solve_triangular": Accepted(
        r"(linalg\.solve_triangular|triangular_solve)",
        0,
        "if a matrix is singular, elements of the solution are NaN where PyTorch's are infinite",
        ("integers",),
        is_nan=True,
    ),
    "pinv (hermitian=True)": Accepted(
        r"linalg\.pinv \((hermitian|symmetric)\)",
        1,
        "a tangent is read as the mean of itself and its adjoint; PyTorch's derivative is that of a general matrix",
    ),
    "pinv": Accepted(
        r"linalg\.pinv( \(.*\))?",
        2,
        "if singular values are equal, the second derivative is not finite",
        is_nan=True,
    ),
    "matrix_norm (nuc), matrix_norm (-2)": Accepted(
        r"linalg\.(matrix_norm|norm) \((nuc|-2)\)|torch\.norm \(nuc\)",
        1,
        "at matrices of lower rank, the norms have no derivative; the result depends on the basis of singular "
        "vectors of the value zero, which is arbitrary",
        ("ones",),
    ),
    "matrix_norm (nuc)": Accepted(
        r"linalg\.matrix_norm \(nuc\)",
        2,
        "at matrices of lower rank, the second derivative is NaN",
        is_nan=True,
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
        is_nan=True,
    ),
    "cond": Accepted(
        r"linalg\.cond( \((2|None)\))?",
        0,
        "for a singular matrix, the value is a quotient by a rounding error",
        ("ones",),
    ),
    "instance_norm": Accepted(
        r"functional\.instance_norm \(eps 0\.0\)",
        0,
        "for equal elements and `eps=0`, the value is 0 / 0, which is NaN; PyTorch's is zero",
        is_nan=True,
    ),
    "eigh, svd": Accepted(
        r"linalg\.(eigh|svd)( \((full|absolute)\))?",
        0,
        "where values are equal, the basis of their vectors is arbitrary",
        ("ones",),
    ),
    "svd": Accepted(
        r"linalg\.svd( \(full\))?",
        2,
        "where singular values are equal, second derivatives are not finite",
        ("integers",),
        is_nan=True,
    ),
    "eigvals, svdvals": Accepted(
        r"linalg\.(eigvals|svdvals) \(powers, .*",
        1,
        "where equal values have too few vectors, up to rounding, derivatives are NaN; second derivatives at equal "
        "values may be NaN, too",
        is_nan=True,
    ),
    "eigvals, eigvalsh, svdvals": Accepted(
        r"linalg\.(eigvals|eigvalsh|svdvals)( \((singular|lower|upper)\))?",
        1,
        "where values are equal, the derivative of each depends on the basis of their vectors, which is arbitrary; the "
        "sums of their powers have PyTorch's derivatives",
        ("ones",),
    ),
    "qr": Accepted(
        r"linalg\.qr( \(wide\)| \(complex\))?|geqrf",
        0,
        "where columns depend on one another, Q is arbitrary, but Q R is the matrix and Q has orthogonal columns",
        ("zeros", "ones", "integers"),
    ),
    "qr (product)": Accepted(
        r"linalg\.qr( \(wide\)| \(complex\)| \(product.*)?",
        1,
        "the derivative is NaN where columns depend on one another; the second derivative also where a reflector jumps",
        is_nan=True,
    ),
    "lp_pool": Accepted(
        r"functional\.lp_pool[12]d \(0\.5\)",
        1,
        "the root has an infinite slope at -0, whose sign is the sign that the engine gives to a power of -0",
    ),
    "prelu": Accepted(
        r"(functional\.)?prelu",
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
"""The intended differences from PyTorch, by the names of functions that docs may list."""
