"""Reasons why derivatives of functions of JAX are inaccurate, and remedies. `jax_accuracy.py` writes them to a page."""

REASONS: dict[str, tuple[str, ...]] = {
    "the slope is computed from the result y, as y (1 - y) or 1 - y², so that its error is a rounding of the largest "
    "slope; [the tails](#the-tails-of-logistic-and-tanh) has formulas with exact tails": (
        *(
            "1 - sigmoid",
            "cumlogsumexp",
            "glu",
            "log_sigmoid",
            "log_softmax",
            "log_softmax, another",
            "logaddexp",
        ),
        *("logmeanexp", "logsumexp", "mish", "sigmoid", "silu", "softmax", "softplus", "tanh"),
    ),
    "two large terms cancel, in the function or in its derivative; scale the numbers, or use a formula for the tail": (
        *("betainc toward a", "gelu", "linalg.norm", "soft_sign", "squareplus", "standardize", "std"),
    ),
    "the derivative that JAX defines cancels, or is NaN, and that of the ops is better: "
    "`from_jax(..., custom_derivatives=False)`": ("erfcx", "log1mexp", "log_ndtr", "logaddexp2"),
    "`dawsn` has the derivative 1 - 2 x dawsn(x), which cancels for large x; a file selects a constant at 0": (
        "dawsn",
    ),
    "the slope is 0 near 0, and the second derivative at 0 is wrong; `special.i1` is the slope": ("jnp.i0",),
    "two terms cancel at 0, where the derivative is a rounding error instead of 0": ("i0", "i1"),
    "the function's own values have such errors, or overflow": (
        "bessel_jn",
        "beta",
        "beta toward b",
        "betaln",
        "hyp1f1",
        "poch",
    ),
    "NaN instead of an infinity where the derivative overflows": ("expi",),
    "files contain loops that end when the value has converged, before its derivative has: use `tiduc.from_jax`": (
        "gammainc toward a",
        "gammaincc toward a",
    ),
    "the formula is a quotient that vanishes, or a power that underflows, near 0; use the first terms of a series": (
        *(
            "betainc",
            "boxcox",
            "boxcox toward lambda",
            "gammainc",
            "gammaincc",
            "integer_pow",
            "kl_div",
            "rel_entr",
            "sici, sine",
            "sinc",
            "spence",
            "xlogy of x and x",
        ),
    ),
    "files contain an approximation by polynomials, whose slope is less accurate than its value; `tiduc.from_jax` and "
    "`lower(...).as_text()` keep the function": ("entr", "erf", "erfc"),
    "files contain approximations, and select constants at some numbers: `fresnel` where x² is an odd integer, "
    "`hyp2f1`, `owens_t`, `xlogy` and the sine integral at or near 0; `tiduc.from_jax` keeps JAX's derivatives": (
        *(
            "fresnel, cosine",
            "fresnel, sine",
            "hyp2f1",
            "owens_t",
            "owens_t toward a",
            "sici, sine",
            "xlogy toward x",
        ),
    ),
}
