"""Functions that `torch.export` cannot trace, in terms of functions that `torch.export` can trace."""

from collections.abc import Callable
from typing import Any

from tiduc.dialect.errors import Unsupported
from tiduc.models.torch_ops.framework import torch


def _lstsq(a: Any, b: Any, rcond: Any = None, *, driver: str | None = None) -> Any:
    """The least-squares solution: by QR for a tall matrix of full rank, otherwise by the pseudo-inverse."""
    m, n = a.shape[-2:]
    is_vector = b.dim() == 1 or (a.dim() - 1 == b.dim() and b.shape == a.shape[:-1])
    right = b.unsqueeze(-1) if is_vector else b
    if m >= n and driver in (None, "gels"):
        q, r = torch.linalg.qr(a)
        x = torch.linalg.solve_triangular(r, q.mH @ right, upper=True)
    else:
        x = torch.linalg.pinv(a, rtol=rcond) @ right
    rest = right - a @ x
    residuals = (rest.abs() ** 2).sum(-2) if m > n else right.new_zeros([0])
    nothing = a.new_zeros([0])
    return torch.return_types.linalg_lstsq(
        (x.squeeze(-1) if is_vector else x, residuals, nothing.to(torch.int64), nothing)
    )


def _cov(x: Any, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Any:
    if fweights is not None or aweights is not None:
        return torch.cov(x, correction=correction, fweights=fweights, aweights=aweights)
    rows = torch.atleast_2d(x)
    rest = rows - rows.mean(1, keepdim=True)
    return (rest @ rest.mH / (x.shape[-1] - correction)).squeeze()


def _ctc_loss(*arguments: Any, **keywords: Any) -> Any:
    raise Unsupported(
        "torch.nn.functional.ctc_loss is not supported; write its recursion with torch.logaddexp"
    )


_REPLACED: dict[Any, Callable[..., Any]] = {
    torch.cov: _cov,
    torch.linalg.lstsq: _lstsq,
    torch.nn.functional.ctc_loss: _ctc_loss,
}


class Replacing(torch.overrides.TorchFunctionMode):  # type: ignore[misc]
    """A block in which calls of these functions are replaced."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _REPLACED.get(function, function)(*args, **(kwargs or {}))
