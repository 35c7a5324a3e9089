"""Cases of `torch.linalg` for `torch_degenerate.py`: singular matrices, equal eigenvalues and dependent columns."""

from typing import Any

import torch
from degenerate_functions import SAME, TALL, TIES
from torch_mathematics import Row, definite, draw

L = torch.linalg

ONE = torch.diag(torch.tensor([0, 1, 1]).double())

ROTATED = torch.tensor([[1, 1j, 2], [1j, -1, 0], [0, 0, 1]]).to(torch.complex128)
"""A matrix whose second column is a multiple of the first."""

DEFINITE, UPPER, LOWER = definite(draw(4, 4)), torch.triu(draw(4, 4), 1), torch.tril(draw(4, 4), -1)
"""A symmetric matrix, and matrices that are added to the triangle of it that a function does not read."""


def powers(x: Any) -> Any:
    """Sums of second and fourth powers. They depend neither on the order of eigenvalues nor on the basis of an
    eigenspace."""
    return torch.stack([(x**k).sum(-1) for k in (2, 4)])


def product(x: Any) -> Any:
    """Q R and Q^H Q, which are unique even if the columns are linearly dependent, so that Q is not unique."""
    q, r = L.qr(x)
    return q @ r, q.mH @ q


LINEAR: list[Row] = [
    *(
        (f"linalg.{name}", getattr(L, name), [SAME])
        for name in "cholesky det diagonal eigvalsh inv lu_factor matrix_exp qr slogdet svdvals pinv "
        "matrix_rank".split()
    ),
    *(
        (f"linalg.{name} (powers, {kind})", lambda x, name=name: powers(getattr(L, name)(x)), [x])
        for name in ("eigvals", "eigvalsh", "svdvals")
        for kind, x in (("identity", SAME), ("singular", ONE), ("ones", torch.ones(4, 4).double()))
    ),
    *(
        (f"linalg.qr (product, {kind})", product, [x])
        for kind, x in (("identity", SAME), ("singular", ONE), ("tall", TALL), ("complex", ROTATED))
    ),
    ("linalg.eigvalsh (lower)", L.eigvalsh, [DEFINITE + UPPER]),
    ("linalg.eigvalsh (upper)", lambda x: L.eigvalsh(x, UPLO="U"), [DEFINITE + LOWER]),
    ("linalg.eigh (absolute)", lambda x: L.eigh(x)[1].abs(), [DEFINITE + UPPER]),
    ("linalg.cholesky (lower)", L.cholesky, [DEFINITE + UPPER]),
    ("linalg.cholesky (upper)", lambda x: L.cholesky(x, upper=True), [DEFINITE + LOWER]),
    ("linalg.pinv (symmetric)", lambda x: L.pinv(x, hermitian=True), [DEFINITE]),
    ("linalg.inv_ex (info)", lambda x: L.inv_ex(x)[1] * x[0, 0], [ONE]),
    ("linalg.cholesky_ex (info)", lambda x: L.cholesky_ex(x)[1] * x[0, 0], [ONE]),
    ("linalg.lu_factor_ex (info)", lambda x: L.lu_factor_ex(x)[2] * x[0, 0], [ONE]),
    *(
        (f"linalg.{name} (singular)", getattr(L, name), [ONE])
        for name in "det slogdet matrix_exp pinv svdvals eigvalsh".split()
    ),
    *((f"linalg.det ({n} rows)", L.det, [torch.diag(torch.arange(n)).double()]) for n in (4, 6)),
    *((f"linalg.matrix_power ({n})", lambda x, n=n: L.matrix_power(x, n), [SAME]) for n in (-2, 0, 1, 3)),
    ("linalg.cross", L.cross, [draw(2, 3), draw(2, 3)]),
    ("linalg.multi_dot", lambda x, y: L.multi_dot([x, y, x]), [SAME, ONE]),
    ("linalg.solve", L.solve, [SAME, ONE]),
    ("linalg.solve_triangular", lambda x, y: L.solve_triangular(x, y, upper=True), [SAME, ONE]),
    ("linalg.lstsq", lambda x, y: L.lstsq(x, y).solution, [torch.eye(4, 3).double(), draw(4, 2)]),
    (
        "linalg.householder_product",
        L.householder_product,
        [torch.eye(4, 3).double(), torch.zeros(3).double()],
    ),
    ("linalg.tensorinv", lambda x: L.tensorinv(x.reshape(1, 3, 3)), [SAME]),
    ("linalg.tensorsolve", L.tensorsolve, [SAME, draw(3)]),
    ("linalg.vander", L.vander, [torch.tensor([0, 1, 1, -1]).double()]),
    ("linalg.vander (N)", lambda x: L.vander(x, N=1), [torch.tensor([0, 1]).double()]),
    ("linalg.vecdot", L.vecdot, [TIES, TIES.flip(0)]),
    ("linalg.matmul", L.matmul, [TIES, TIES]),
    ("linalg.matmul (empty)", lambda x: L.matmul(x[:, :0], x[:0]), [TIES]),
    ("torch.logdet", torch.logdet, [SAME]),
    ("torch.einsum (empty)", lambda x: torch.einsum("ij,jk->ik", x[:, :0], x[:0]), [TIES]),
    ("torch.cross (equal)", lambda x: torch.cross(x, x, dim=-1), [draw(2, 3)]),
]
