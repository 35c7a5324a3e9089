"""Replaces functions that `torch.export` cannot trace by equivalent functions that it can trace."""

from collections.abc import Callable, Mapping
from math import log, nan, pi
from typing import Any

from tiduc.dialect.errors import Unsupported
from tiduc.models.torch.ops.ctc import ctc_loss
from tiduc.models.torch.ops.framework import torch
from tiduc.models.torch.ops.losses import multi_margin_loss


def _lstsq(a: torch.Tensor, b: torch.Tensor, rcond: float | None = None, *, driver: str | None = None) -> Any:
    """The least-squares solution: by QR if m >= n and the driver is the default, otherwise by the pseudo-inverse.

    With QR, the solution is NaN if a column depends linearly on the columns before it, up to the relative tolerance
    `rcond`.
    """
    m, n = a.shape[-2:]
    is_vector = b.dim() == 1 or (a.dim() - 1 == b.dim() and b.shape == a.shape[:-1])
    right = b.unsqueeze(-1) if is_vector else b
    if m >= n and driver in (None, "gels"):
        q, r = torch.linalg.qr(a)
        x = torch.linalg.solve_triangular(r, q.mH @ right, upper=True)
        own = torch.diagonal(r, dim1=-2, dim2=-1).abs()
        least = 64 * torch.finfo(a.dtype).eps if rcond is None else rcond
        is_regular = (own > least * torch.linalg.vector_norm(r, dim=-2)).all(-1)[..., None, None]
        x = x * torch.where(is_regular, 1.0, nan).to(x.dtype)
    else:
        x = torch.linalg.pinv(a, rtol=rcond) @ right
    rest = right - a @ x
    residuals = (rest.abs() ** 2).sum(-2) if m > n else right.new_zeros([0])
    nothing = a.new_zeros([0])
    return torch.return_types.linalg_lstsq(
        (x.squeeze(-1) if is_vector else x, residuals, nothing.to(torch.int64), nothing)
    )


def _cov(
    x: torch.Tensor,
    *,
    correction: int = 1,
    fweights: torch.Tensor | None = None,
    aweights: torch.Tensor | None = None,
) -> Any:
    if fweights is not None or aweights is not None:
        return torch.cov(x, correction=correction, fweights=fweights, aweights=aweights)
    rows = torch.atleast_2d(x)
    rest = rows - rows.mean(1, keepdim=True)
    return (rest @ rest.mH / (x.shape[-1] - correction)).squeeze()


def _grouped_mm(
    a: torch.Tensor,
    b: torch.Tensor,
    offs: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """A matrix product for each group. `offs` has the index of the end of each group along the grouped dimension.

    a (m, k), b (g, k, n)       gives (m, n)        groups along m
    a (g, m, k), b (k, n)       gives (m, n)        groups along n
    a (m, k), b (k, n)          gives (g, m, n)     groups along k
    a (g, m, k), b (g, k, n)    gives (g, m, n)     no groups: a batch of products
    """
    if bias is not None:
        raise Unsupported("grouped_mm with a bias is not supported; add the bias to the result")
    if out_dtype is not None:
        a, b = a.to(out_dtype), b.to(out_dtype)
    if offs is None:
        return a @ b
    size = a.shape[-2] if b.dim() == 3 else b.shape[-1] if a.dim() == 3 else a.shape[-1]
    places = torch.arange(size)
    starts = torch.cat([offs.new_zeros([1]), offs[:-1]])
    inside = (places >= starts.unsqueeze(-1)) & (places < offs.unsqueeze(-1))  # (groups, size)
    if b.dim() == 3:
        return (torch.where(inside.unsqueeze(-1), a, 0) @ b).sum(0)
    if a.dim() == 3:
        return (a @ torch.where(inside.unsqueeze(-2), b, 0)).sum(0)
    return torch.where(inside.unsqueeze(-2), a, 0) @ b


def _gaussian_nll_loss(
    x: torch.Tensor,
    target: torch.Tensor,
    var: float | torch.Tensor,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Any:
    """The Gaussian negative log-likelihood, without PyTorch's check that no variance is negative.

    Variances are clamped to at least `eps`. As in PyTorch, the derivative of the clamped variance is one everywhere.
    """
    var = var * torch.ones_like(x) if isinstance(var, float) else var
    if var.shape != x.shape and x.shape[:-1] == var.shape:
        var = var.unsqueeze(-1)
    elif var.dim() != x.dim() or torch.broadcast_shapes(var.shape, x.shape) != x.shape:
        raise Unsupported(
            "the variance of gaussian_nll_loss must have the input's shape, or one element per row"
        )
    var = var.detach().clamp(min=eps) + (var - var.detach())
    loss = 0.5 * (torch.log(var) + (x - target) ** 2 / var)
    loss = loss + 0.5 * log(2 * pi) if full else loss
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


def _pack_padded_sequence(x: torch.Tensor, lengths: torch.Tensor, batch_first: bool) -> Any:
    """Raises `Unsupported`: PyTorch's export stores the batch sizes in a tensor, but recurrent layers need integers."""
    raise Unsupported(
        "pack_padded_sequence is not supported, since torch.export cannot trace a recurrent layer of packed "
        "sequences; give the layer the padded sequences, and use torch.where to zero its results beyond each length"
    )


_REPLACED: dict[Any, Callable[..., Any]] = {
    torch._VF._pack_padded_sequence: _pack_padded_sequence,
    torch._grouped_mm: _grouped_mm,
    torch.cov: _cov,
    torch.linalg.lstsq: _lstsq,
    torch.nn.functional.ctc_loss: ctc_loss,
    torch.nn.functional.gaussian_nll_loss: _gaussian_nll_loss,
    torch.nn.functional.grouped_mm: _grouped_mm,
    torch.nn.functional.multi_margin_loss: multi_margin_loss,
}
"""Maps functions of PyTorch to the functions that replace them."""

_OPERATORS: dict[str, Callable[..., Any]] = {"transformers.grouped_mm_fallback": _grouped_mm}
"""Maps names of operators of other packages, without the overload `.default`, to the functions that replace them."""


class Replacing(torch.overrides.TorchFunctionMode):  # type: ignore[misc]
    """Context manager that replaces calls of the functions in `_REPLACED` and of the operators in `_OPERATORS`."""

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Any,
        args: Any = (),
        kwargs: Mapping[str, bool | str | torch.dtype] | None = None,
    ) -> Any:
        if isinstance(function, torch._ops.OpOverload | torch._ops.OpOverloadPacket):
            name = str(function).removesuffix(".default")
            return _OPERATORS.get(name, function)(*args, **(kwargs or {}))
        return _REPLACED.get(function, function)(*args, **(kwargs or {}))
