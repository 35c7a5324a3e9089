"""Emits factorizations as custom calls of LAPACK's routines, for which tiduc has derivative rules.

The last two dimensions of a tensor are those of a matrix. All dimensions before them are batch dimensions.
`tiduc/dialect/facts/lapack.py` lists the operands, results and settings of the routines. Source: LAPACK.
"""

from collections.abc import Sequence
from typing import Any

from tiduc.dialect.errors import Unsupported
from tiduc.models.emitted_text import Body, TextTensor
from tiduc.models.torch.ops.calls import call, element
from tiduc.models.torch.ops.framework import torch

_LETTERS = {"f32": "s", "f64": "d", "complex<f32>": "c", "complex<f64>": "z"}
_OF_COMPLEX = {"orgqr": "ungqr", "ormqr": "unmqr", "syevd": "heevd"}

Type = tuple[Sequence[int], str]


def cholesky(x: torch.Tensor, upper: bool = False) -> Any:
    """The lower Cholesky factor of the Hermitian matrix given by the lower triangle of x (upper if `upper`)."""

    def emit(body: Body, a: TextTensor) -> list[TextTensor]:
        return [body.emit("cholesky", [a], a.sizes, "lower = true")]

    lower = call("cholesky", [_of_triangle(x, upper)], emit)
    return torch.tril(lower)


def _of_triangle(x: torch.Tensor, upper: bool) -> torch.Tensor:
    """The Hermitian matrix whose lower triangle (upper if `upper`) is that of x.

    As in PyTorch, its tangent is (dx + dx^H) / 2 for the tangent dx of x, whichever triangle is read.
    """
    value = x.detach()
    part = torch.triu(value, 1) if upper else torch.tril(value, -1)
    own = torch.diag_embed(torch.diagonal(value, dim1=-2, dim2=-1).real)
    change = x - value
    return part + part.mH + own + (change + change.mH) / 2


def not_definite(x: torch.Tensor, upper: bool = False) -> torch.Tensor:
    """The size of the smallest leading block of x that is not positive definite, or 0 if x is positive definite.

    The Hermitian matrix x is given by its lower triangle, or by its upper triangle if `upper`.
    """
    *batch, _, _ = x.shape

    def emit(body: Body, a: TextTensor) -> list[TextTensor]:
        types: list[Type] = [(a.sizes, a.element), (batch, "i32")]
        return _routine(body, "potrf", [a], types, f"uplo = {ord('U' if upper else 'L')} : ui8")[1:]

    return call("not_definite", [_supported(x).detach()], emit)


def triangular(
    a: torch.Tensor,
    b: torch.Tensor,
    *,
    upper: bool,
    left: bool = True,
    transpose: str = "NO_TRANSPOSE",
    unit: bool = False,
) -> torch.Tensor:
    """The solution X of op(A) X = B, or of X op(A) = B if `left` is false. A is triangular.

    `transpose` gives op: NO_TRANSPOSE (the identity), TRANSPOSE or ADJOINT.
    """
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = a.expand(*batch, *a.shape[-2:]), b.expand(*batch, *b.shape[-2:])
    settings = (
        f"left_side = {_flag(left)}, lower = {_flag(not upper)}, unit_diagonal = {_flag(unit)}, "
        f"transpose_a = #stablehlo<transpose {transpose}>"
    )
    return call(
        "solve_triangular",
        [a, b],
        lambda body, x, y: [body.emit("triangular_solve", [x, y], y.sizes, settings)],
    )


def lu(x: torch.Tensor) -> tuple[Any, Any, Any]:
    """The results of LAPACK's `getrf`: a matrix with both L and U, the pivots, and `info`.

    Pivots are indices of rows that count from 1. `info` is the position of the first zero pivot, counted from 1. It is
    0 if no pivot is zero.
    """
    *batch, m, n = x.shape

    def emit(body: Body, a: TextTensor) -> list[TextTensor]:
        types: list[Type] = [(a.sizes, a.element), ([*batch, min(m, n)], "i32"), (batch, "i32")]
        return _routine(body, "getrf", [a], types)

    return call("lu", [_supported(x)], emit)  # type: ignore[no-any-return]


def order(pivots: torch.Tensor, m: int) -> Any:
    """The indices of m rows after LAPACK's swaps: for i = 0, 1, ..., row i is swapped with row `pivots[i] - 1`."""
    return call("pivots", [pivots], lambda body, x: [_rows(body, x, m)]).long()


def _rows(body: Body, pivots: TextTensor, m: int) -> TextTensor:
    *batch, k = pivots.sizes
    sizes = [*batch, m]
    numbers = body.iota(sizes, len(batch))

    def swapped(i: TextTensor, rows: TextTensor) -> list[TextTensor]:
        zeros = [body.number(0) for _ in batch]
        slices = f"slice_sizes = array<i64: {', '.join(map(str, [*batch, 1]))}>"
        pivot = body.emit("dynamic_slice", [pivots, *zeros, i], [*batch, 1], slices)
        other = body.subtract(
            body.broadcast(pivot, range(len(sizes)), sizes), body.broadcast(body.number(1), [], sizes)
        )
        at_i = body.compare(numbers, body.broadcast(i, [], sizes), "EQ")
        at_other = body.compare(numbers, other, "EQ")
        mine, theirs = (_only(body, rows, at) for at in (at_i, at_other))
        return [body.select(at_i, theirs, body.select(at_other, mine, rows))]

    return body.loop(k, swapped, [numbers])[0]


def _only(body: Body, x: TextTensor, at: TextTensor) -> TextTensor:
    """For each row of x, the element at which `at` is true, broadcast to the size of the row."""
    *batch, _ = x.sizes
    zeros = body.broadcast(body.number(0), [], x.sizes)
    total = body.sum(body.select(at, x, zeros), len(batch))
    return body.broadcast(total, range(len(batch)), x.sizes)


def reflectors(x: torch.Tensor) -> tuple[Any, Any]:
    """The results of `torch.geqrf`: a matrix with R and the Householder vectors below R, and the vectors' factors."""
    *batch, m, n = x.shape

    def emit(body: Body, a: TextTensor) -> list[TextTensor]:
        return _routine(body, "geqrf", [a], [(a.sizes, a.element), ([*batch, min(m, n)], a.element)])

    return call("geqrf", [_supported(x)], emit)  # type: ignore[no-any-return]


def product(x: torch.Tensor, tau: torch.Tensor) -> Any:
    """The result of `torch.linalg.householder_product`: the first columns of the product of Householder reflectors."""
    return call(
        "householder_product",
        [_supported(x), tau],
        lambda body, a, t: _routine(body, "orgqr", [a, t], [(a.sizes, a.element)]),
    )


def singular(x: torch.Tensor, full: bool = False) -> tuple[Any, Any, Any]:
    """The singular value decomposition of x: U, the singular values, and the adjoint of V."""
    *batch, m, n = x.shape
    k = min(m, n)

    def emit(body: Body, a: TextTensor) -> list[TextTensor]:
        u, vh = ([*batch, m, m if full else k], [*batch, n if full else k, n])
        types: list[Type] = [(a.sizes, a.element), ([*batch, k], _real(a)), (u, a.element), (vh, a.element)]
        mode = ord("A" if full else "S")
        _, s, left, right, _ = _routine(body, "gesdd", [a], [*types, (batch, "i32")], f"mode = {mode} : ui8")
        return [left, s, right]

    return call("svd", [_supported(x)], emit)  # type: ignore[no-any-return]


def hermitian(x: torch.Tensor, upper: bool = False) -> tuple[Any, Any]:
    """The eigenvalues and eigenvectors of the Hermitian matrix given by the lower triangle of x (upper if `upper`)."""
    *batch, n, _ = x.shape

    def emit(body: Body, a: TextTensor) -> list[TextTensor]:
        types: list[Type] = [(a.sizes, a.element), ([*batch, n], _real(a)), (batch, "i32")]
        settings = f"mode = {ord('V')} : ui8, uplo = {ord('L')} : ui8"
        vectors, values, _ = _routine(body, "syevd", [a], types, settings)
        return [values, vectors]

    return call("eigh", [_of_triangle(_supported(x), upper)], emit)  # type: ignore[no-any-return]


def general(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The eigenvalues and right eigenvectors of a square matrix."""
    *batch, n, _ = x.shape
    settings = f"compute_left = {ord('N')} : ui8, compute_right = {ord('V')} : ui8"

    def emit(body: Body, a: TextTensor) -> list[TextTensor]:
        is_real = a.element == _real(a)
        kind = f"complex<{_real(a)}>"
        vectors: Type = ([*batch, n, n], kind)
        values: list[Type] = [([*batch, n], a.element)] * (2 if is_real else 1)
        *parts, _, right, _ = _routine(
            body, "geev", [a], [*values, vectors, vectors, (batch, "i32")], settings
        )
        together = body.emit("complex", parts, parts[0].sizes, element=kind) if is_real else parts[0]
        return [together, right]

    return call("eig", [_supported(x)], emit)  # type: ignore[no-any-return]


# ---- text --------------------------------------------------------------------------------------------------


def _routine(
    body: Body, name: str, operands: Sequence[TextTensor], types: Sequence[Type], settings: str = ""
) -> list[TextTensor]:
    """Emits a call of the LAPACK routine for the element type of the operands. Returns the routine's results.

    Matrices are stored in column-major order.
    """
    kind = operands[0].element
    name = _OF_COMPLEX.get(name, name) if kind.startswith("complex") else name
    batch = len(operands[0].sizes) - 2
    attributes = (
        f'call_target_name = "lapack_{_LETTERS[kind]}{name}_ffi", api_version = 4 : i32, '
        f"backend_config = {{{settings}}}, "
        f"operand_layouts = [{', '.join(_layout(len(x.sizes), batch) for x in operands)}], "
        f"result_layouts = [{', '.join(_layout(len(sizes), batch) for sizes, _ in types)}]"
    )
    return body.emit_all("custom_call", operands, types, attributes)


def _supported(x: torch.Tensor) -> Any:
    if element(x) not in _LETTERS:
        raise Unsupported(f"LAPACK has no factorization of {element(x)}; convert the matrix to float32")
    return x


def _layout(rank: int, batch: int) -> str:
    """The layout of an array: its dimensions from the fastest to the slowest varying. Matrices are column-major."""
    order = [batch, batch + 1, *reversed(range(batch))] if rank == batch + 2 else [*reversed(range(rank))]
    return f"dense<{order if rank else ''}> : tensor<{rank}xindex>"


def _real(x: TextTensor) -> str:
    """The element type of x or, if x is complex, of the real part of x."""
    return x.element.removeprefix("complex<").removesuffix(">")


def _flag(value: bool) -> str:
    return "true" if value else "false"
