"""Decompositions of losses, so that derivatives at the boundary of a loss's domain equal PyTorch's."""

from tiduc.dialect.errors import Unsupported
from tiduc.models.torch.ops.framework import aten, decomposes, torch

_LEAST_LOG, _LEAST_VARIANCE = -100.0, 1e-12
"""PyTorch's lower bound of log(p) for a probability p, and its lower bound of p (1 - p) where this is a divisor."""


@decomposes(aten.binary_cross_entropy.default)
def binary_cross_entropy(
    x: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None = None, reduction: int = 1
) -> torch.Tensor:
    """Computes -(t log(x) + (1 - t) log(1 - x)) for the target t. If x is 0 or 1, the derivative is (x - t) / 1e-12."""
    fixed = x.detach()
    is_end = fixed * (1 - fixed) < _LEAST_VARIANCE
    inside = torch.where(is_end, 0.5, x)
    smooth = (target - 1) * torch.log1p(-inside) - target * torch.log(inside)
    most, least = (torch.clamp(log, min=_LEAST_LOG) for log in (torch.log1p(-fixed), torch.log(fixed)))
    at_end = (target - 1) * most - target * least
    at_end = at_end + (x - fixed) * ((fixed - target) / _LEAST_VARIANCE)
    loss = torch.where(is_end, at_end, smooth)
    return _reduced(loss if weight is None else loss * weight, reduction)


def _reduced(loss: torch.Tensor, reduction: int) -> torch.Tensor:
    return loss.mean() if reduction == 1 else loss.sum() if reduction == 2 else loss


def multi_margin_loss(
    x: torch.Tensor,
    target: torch.Tensor,
    p: float = 1,
    margin: float = 1,
    weight: torch.Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> torch.Tensor:
    """The sum of max(0, margin - x[target] + x)^p over all classes but the target, divided by the number of classes.

    The derivative of max is zero at its kink. An export calls this function in place of PyTorch's function, because
    PyTorch would decompose the op before the table of decompositions is used.
    """
    if size_average is not None or reduce is not None:
        raise Unsupported("multi_margin_loss with size_average or reduce is not supported; use reduction")
    is_row = x.dim() == 1
    x, target = torch.atleast_2d(x), target.reshape(-1, 1)
    distance = margin - torch.gather(x, 1, target) + x
    counts = (distance > 0) & (torch.arange(x.shape[1]) != target)
    loss = torch.where(counts, distance * distance if p == 2 else distance, 0)
    loss = loss if weight is None else loss * torch.index_select(weight, 0, target.squeeze(1)).unsqueeze(1)
    loss = loss.sum(1) / x.shape[1]
    return _reduced(loss.squeeze(0) if is_row else loss, ("none", "mean", "sum").index(reduction))
