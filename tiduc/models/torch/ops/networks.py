"""Decompositions of the layers and losses of `torch.nn.functional`."""

from collections.abc import Sequence
from math import sqrt
from typing import Any

from tiduc.dialect.errors import Unsupported
from tiduc.models.torch.ops.framework import aten, decomposes, torch


@decomposes(aten.scaled_dot_product_attention.default)
def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """Computes softmax(q k^T scale + mask) v. As in PyTorch, positions precede heads in the result's memory layout."""
    if enable_gqa:
        k, v = (x.repeat_interleave(q.shape[-3] // x.shape[-3], -3) for x in (k, v))
    scores = (q @ k.transpose(-2, -1)) * (1 / sqrt(q.shape[-1]) if scale is None else scale)
    if is_causal:
        attn_mask = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril()
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        scores = torch.where(attn_mask, scores, float("-inf"))
    elif attn_mask is not None:
        scores = scores + attn_mask
    if attn_mask is None or is_causal:
        weights = torch.softmax(scores, -1)
    else:  # a row in which all positions are masked gets weights of zero instead of NaN
        reads = attn_mask if attn_mask.dtype == torch.bool else attn_mask != float("-inf")
        is_open = reads.any(-1, keepdim=True)
        weights = torch.where(is_open, torch.softmax(torch.where(is_open, scores, 0), -1), 0)
    if dropout_p > 0:
        weights = torch.nn.functional.dropout(weights, dropout_p)
    return _by_position(weights @ v)


def _by_position(x: torch.Tensor) -> torch.Tensor:
    return x.transpose(-3, -2).contiguous().transpose(-3, -2) if x.dim() > 3 else x


@decomposes(aten.view.default)
def view(x: torch.Tensor, size: Sequence[int]) -> Any:
    """Copies x before the view if x is not contiguous, because results of decompositions may have unusual strides."""
    return NotImplemented if x.is_contiguous() else x.contiguous().view(size)


@decomposes(aten.rms_norm.default)
def rms_norm(
    x: torch.Tensor, sizes: Sequence[int], weight: torch.Tensor | None = None, eps: float | None = None
) -> Any:
    """Computes weight x / sqrt(mean(x^2) + eps). Computes in f32 if the type of x is narrower.

    By default, `eps` is the machine epsilon of the type in which the mean is computed.
    """
    kind = torch.promote_types(x.dtype, torch.float32)
    wide = x.to(kind)
    mean = (wide * wide).mean(list(range(-len(sizes), 0)), keepdim=True)
    y = wide * torch.rsqrt(mean + (torch.finfo(kind).eps if eps is None else eps))
    return (y if weight is None else y * weight).to(x.dtype)


@decomposes(aten.native_group_norm.default)
def native_group_norm(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    batch: int,
    channels: int,
    places: int,
    groups: int,
    eps: float,
) -> Any:
    """Normalizes each group of channels. Returns (x - mean) s, mean and s for s = 1 / sqrt(variance + eps).

    If the type of x is narrower than f32, computes in f32, as PyTorch's kernels do. torch-mlir's own decomposition
    computes variances in f64 and has unnecessary gathers.
    """
    kind = torch.promote_types(x.dtype, torch.float32)
    parts = x.to(kind).reshape([batch, groups, channels // groups * places])
    mean = parts.mean(-1, keepdim=True)
    centered = parts - mean
    scale = torch.rsqrt((centered * centered).mean(-1, keepdim=True) + eps)
    y = (centered * scale).reshape(x.shape)
    of_channels = [channels] + [1] * (x.dim() - 2)
    y = y if weight is None else y * weight.to(kind).reshape(of_channels)
    y = y if bias is None else y + bias.to(kind).reshape(of_channels)
    return y.to(x.dtype), *(each.reshape([batch, groups]).to(x.dtype) for each in (mean, scale))


@decomposes(aten.embedding_bag.padding_idx)
def embedding_bag(
    weight: torch.Tensor,
    indices: torch.Tensor,
    offsets: torch.Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: torch.Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Any:
    """Computes the sum (mode 0), mean (mode 1) or maximum (mode 2) of the rows of `weight` in each bag.

    A bag is a consecutive range of `indices`, which begins at an element of `offsets`.
    """
    if scale_grad_by_freq:
        raise Unsupported(
            "scale_grad_by_freq of an embedding is not supported, because it changes only the derivative"
        )
    offsets = offsets[:-1] if include_last_offset else offsets
    places = torch.arange(indices.shape[0])
    ends = torch.cat([offsets[1:], torch.full([1], indices.shape[0], dtype=offsets.dtype)])
    inside = (places >= offsets.unsqueeze(-1)) & (places < ends.unsqueeze(-1))
    if padding_idx is not None:
        inside = inside & (indices != padding_idx % weight.shape[0])
    rows, counts = torch.index_select(weight, 0, indices), inside.sum(-1, keepdim=True)
    if mode == 2:
        masked = torch.where(inside.unsqueeze(-1), rows, float("-inf"))
        first = torch.argmax(masked, 1, keepdim=True)  # among equal elements, the first gets the derivative
        result = torch.where(counts > 0, torch.gather(masked, 1, first).squeeze(1), 0)
    else:
        shares = inside.to(weight.dtype)
        shares = shares if per_sample_weights is None else shares * per_sample_weights
        result = shares @ rows
        result = result / counts.clamp(min=1) if mode == 1 else result
    nothing = torch.zeros([0], dtype=torch.int64)
    return result, nothing, counts.squeeze(-1), nothing


@decomposes(aten.multilabel_margin_loss.default)
def multilabel_margin_loss(x: torch.Tensor, target: torch.Tensor, reduction: int = 1) -> torch.Tensor:
    """The sum of max(0, 1 - (x[target] - x[other])) over all targets and all other classes, divided by the class count.

    The targets of a row are the entries of `target` before the first negative one.
    """
    is_row = x.dim() == 1
    x, target = (torch.atleast_2d(v) for v in (x, target))
    is_target = torch.cumsum((target < 0).to(torch.int64), -1) == 0
    chosen = torch.gather(x, 1, torch.clamp(target, min=0))
    classes = torch.arange(x.shape[1])
    is_chosen = ((target.unsqueeze(-1) == classes) & is_target.unsqueeze(-1)).any(1)
    margin = 1 - chosen.unsqueeze(-1) + x.unsqueeze(1)
    counts = is_target.unsqueeze(-1) & ~is_chosen.unsqueeze(1)
    losses = torch.where(counts & (margin > 0), margin, 0).sum((1, 2)) / x.shape[1]
    if reduction == 0:
        return losses.squeeze(0) if is_row else losses
    return losses.mean() if reduction == 1 else losses.sum()
