"""Families of linear algebra and Fourier transforms. Matrices are well-conditioned and have separate eigenvalues."""

from composer import Composer, Value, tensor

LAYOUTS = {
    1: "dense<0> : tensor<1xindex>",
    2: "dense<[1, 0]> : tensor<2xindex>",
    3: "dense<[1, 2, 0]> : tensor<3xindex>",
}


def matrices(c: Composer, symmetric: bool = False, rows: int = 0) -> Value:
    """Returns a batch of two well-conditioned matrices.

    Each is the sum of the diagonal matrix with the elements 2, 4, and so on, and a small random matrix.

    The matrices have `rows` more rows than columns.
    """
    n = c.integer(1, 3)
    m = n + rows
    x = c.unary("tanh", c.fit(c.real(), (2, m, n)), 1.0)
    x = c.binary("multiply", x, c.constant(0.4, x.shape), 0.4)
    if symmetric:
        text = f"stablehlo.transpose {x.name}, dims = [0, 2, 1] : ({x.type}) -> {x.type}"
        x = c.add(x, c.emit(text, x.shape, bound=x.bound))
    one = [[float(2 * (i + 1)) if i == j else 0.0 for j in range(n)] for i in range(m)]
    diagonal = c.emit(f"stablehlo.constant dense<{[one, one]}> : {x.type}", x.shape, bound=2.0 * n)
    return c.add(x, diagonal)


def right_sides(c: Composer, a: Value, left: bool) -> Value:
    n, k = a.shape[-1], c.integer(1, 2)
    return c.fit(c.real(), (2, n, k) if left else (2, k, n))


def cholesky(c: Composer) -> Value:
    a = matrices(c, symmetric=True)
    lower = str(c.flag()).lower()
    text = f"stablehlo.cholesky {a.name}, lower = {lower} : {a.type}"
    return triangle(c, c.emit(text, a.shape, bound=3.0), lower == "true")


def triangle(c: Composer, x: Value, lower: bool) -> Value:
    """Replaces the elements outside of one triangle by zeros, because the op that computes x leaves them undefined."""
    n = x.shape[-1]
    rows = [[float(j <= i if lower else j >= i) for j in range(n)] for i in range(n)]
    mask = c.emit(f"stablehlo.constant dense<{[rows] * x.shape[0]}> : {x.type}", x.shape)
    return c.binary("multiply", x, mask, x.bound)


def triangular_solve(c: Composer) -> Value:
    a = matrices(c)
    left, lower, unit = c.flag(), c.flag(), c.flag()
    y = right_sides(c, a, left)
    flags = f"left_side = {left}, lower = {lower}, unit_diagonal = {unit}".lower()
    turned = c.choose(("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"))
    text = (
        f'"stablehlo.triangular_solve"({a.name}, {y.name}) <{{{flags}, transpose_a = #stablehlo<transpose {turned}>}}> '
        f": ({a.type}, {y.type}) -> {y.type}"
    )
    return c.emit(text, y.shape, bound=3 * y.bound)


def fft(c: Composer) -> Value:
    """Adds an fft over one or two dimensions: FFT, IFFT, RFFT or IRFFT."""
    kind = c.choose(("FFT", "IFFT", "RFFT", "IRFFT"))
    ranks = c.integer(1, 2)
    sizes = [c.integer(1, 4) for _ in range(ranks)]
    batch = [c.integer(1, 2)] if c.flag() else []
    half = [*batch, *sizes[:-1], sizes[-1] // 2 + 1]
    whole = [*batch, *sizes]
    taken, given = (half, whole) if kind == "IRFFT" else (whole, half if kind == "RFFT" else whole)
    x = c.fit(c.any(), tuple(taken), kind != "RFFT")
    result = tensor(given, "f64" if kind == "IRFFT" else "complex<f64>")
    length = ", ".join(map(str, sizes))
    text = f"stablehlo.fft {x.name}, type = {kind}, length = [{length}] : ({x.type}) -> {result}"
    return c.emit(text, given, kind != "IRFFT", x.bound * (2 if kind[0] == "I" else 16))


def call(c: Composer, target: str, config: str, operands: list[Value], results: list[tuple[int, ...]]) -> str:
    """Emits a custom call of LAPACK and returns the name of its results. Results of rank 1 have integers."""
    shapes = [x.shape for x in operands], results
    layouts = [", ".join(LAYOUTS[len(s)] for s in each) for each in shapes]
    types = [tensor(s, "i32" if len(s) == 1 else "f64") for s in results]
    names = ", ".join(x.name for x in operands)
    emitted = c.emit(
        f"stablehlo.custom_call @lapack_{target}_ffi({names}) {{mhlo.backend_config = {{{config}}}, "
        f"operand_layouts = [{layouts[0]}], result_layouts = [{layouts[1]}]}} : "
        f"({', '.join(x.type for x in operands)}) -> ({', '.join(types)})"
    )
    if len(results) > 1:
        c.several(emitted, len(results))
    return emitted.name


def lapack(c: Composer) -> Value:
    """Adds a factorization, solve, eigenvalue or singular value decomposition by LAPACK, as JAX exports it."""
    kind = c.choose(("potrf", "getrf", "geqrf", "orgqr", "syevd", "gesdd", "trsm"))
    a = matrices(c, kind in ("potrf", "syevd"), c.integer(0, 1) if kind in ("geqrf", "orgqr", "gesdd") else 0)
    b, m, n = a.shape
    if kind == "potrf":
        lower = c.flag()
        name = call(c, "dpotrf", f"uplo = {ord('L' if lower else 'U')} : ui8", [a], [a.shape, (b,)])
        return triangle(c, Value(f"{name}#0", a.shape, False, 3.0), lower)
    if kind == "getrf":
        return Value(f"{_getrf(c, a)}#0", a.shape, False, 8.0)
    if kind == "trsm":
        left = c.flag()
        y = right_sides(c, a, left)
        letters = {"side": "L" if left else "R", "uplo": c.choose("LU"), "diag": c.choose("NU")}
        letters["trans_x"] = c.choose("NTC")
        config = ", ".join(f"{key} = {ord(value)} : ui8" for key, value in letters.items())
        return Value(call(c, "dtrsm", config, [a, y], [y.shape]), y.shape, False, 3 * y.bound)
    if kind == "syevd":
        config = f"mode = 86 : ui8, uplo = {ord(c.choose('LU'))} : ui8"
        name = call(c, "dsyevd", config, [a], [a.shape, (b, n), (b,)])
        if c.flag():
            return Value(f"{name}#0", a.shape, False, 1.0)
        return Value(f"{name}#1", (b, n), False, 8.0)
    if kind == "gesdd":
        return _gesdd(c, a)
    reflectors = call(c, "dgeqrf", "", [a], [a.shape, (b, n)])
    packed, scales = (
        Value(f"{reflectors}#0", a.shape, False, 8.0),
        Value(f"{reflectors}#1", (b, n), False, 2.0),
    )
    if kind == "geqrf":
        return packed
    return Value(call(c, "dorgqr", "", [packed, scales], [a.shape]), a.shape, False, 1.0)


def _getrf(c: Composer, a: Value) -> str:
    """Emits an LU factorization. Returns the name of its three results: the packed factors, pivots, and status."""
    b, _, n = a.shape
    layouts = f"{LAYOUTS[3]}, {LAYOUTS[2]}, {LAYOUTS[1]}"
    types = f"{a.type}, {tensor((b, n), 'i32')}, {tensor((b,), 'i32')}"
    results = c.emit(
        f"stablehlo.custom_call @lapack_dgetrf_ffi({a.name}) {{mhlo.backend_config = {{}}, "
        f"operand_layouts = [{LAYOUTS[3]}], result_layouts = [{layouts}]}} : ({a.type}) -> ({types})"
    )
    c.several(results, 3)
    return results.name


def _gesdd(c: Composer, a: Value) -> Value:
    """Emits a singular value decomposition. Returns the singular values, or the left or right singular vectors."""
    b, m, n = a.shape
    name = call(c, "dgesdd", "mode = 83 : ui8", [a], [a.shape, (b, n), (b, m, n), (b, n, n), (b,)])
    i = c.integer(1, 3)
    return Value(f"{name}#{i}", [(b, n), (b, m, n), (b, n, n)][i - 1], False, 8.0 if i == 1 else 1.0)


LINEAR = (cholesky, triangular_solve, fft, lapack)
