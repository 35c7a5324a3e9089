"""Computes the loss of connectionist temporal classification (CTC) by a scan over the steps (Graves et al., 2006)."""

from collections.abc import Sequence
from typing import Any

from tiduc.dialect.errors import Unsupported
from tiduc.models.torch.ops.framework import torch

_NEVER = -1e30
"""Represents log(0). The number is finite, because derivatives would otherwise be NaN."""


def ctc_loss(
    log_probs: torch.Tensor,
    targets: torch.Tensor,
    input_lengths: torch.Tensor,
    target_lengths: torch.Tensor,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Any:
    """The negative logarithm of the probability of each target, reduced over the batch as `reduction` says.

    `log_probs` has the shape (steps, batch, classes) or (steps, classes). The labels of a target alternate with blanks:
    blank, l0, blank, l1, ..., blank. Row t of the recursion has the log-probability, after step t, of each prefix of
    this sequence.
    """
    is_single = log_probs.dim() == 2
    if is_single:
        log_probs, targets = log_probs.unsqueeze(1), targets.unsqueeze(0)
    steps, batch, classes = log_probs.shape
    targets = _padded(targets, target_lengths, batch)
    input_lengths, target_lengths = (_tensor(x).reshape(-1) for x in (input_lengths, target_lengths))
    blanks = torch.full_like(targets, blank)
    labels = torch.stack([blanks, targets], -1).reshape(batch, -1)
    labels = torch.cat([labels, blanks.new_full([batch, 1], blank)], 1)
    before = torch.cat([labels.new_full([batch, 2], blank), labels[:, :-2]], 1)
    skips = (labels != blank) & (labels != before)
    scores = torch.gather(log_probs, 2, labels.clamp(0, classes - 1).unsqueeze(0).expand(steps, -1, -1))
    places = torch.arange(labels.shape[1])
    first = torch.where(places < 2, scores[0], _NEVER)
    runs = (torch.arange(steps).unsqueeze(-1) < input_lengths).unsqueeze(-1)
    # Without steps, the empty target has probability one, and every other target has probability zero.
    first = torch.where(runs[0], first, torch.where(places < 1, 0.0, _NEVER))
    last = _scanned(first, skips, scores[1:], runs[1:]) if steps > 1 else first
    ends = torch.stack([2 * target_lengths, (2 * target_lengths - 1).clamp(min=0)], -1)
    ends = torch.gather(last, 1, ends)
    is_empty = (target_lengths == 0).unsqueeze(-1) & torch.tensor([False, True])
    loss = -torch.logsumexp(torch.where(is_empty, _NEVER, ends), -1)
    total = torch.where(runs, torch.exp(log_probs), 0).sum((0, 2))
    loss = loss + (total - total.detach())  # PyTorch's derivative assumes normalized probabilities
    loss = torch.where(loss > -_NEVER / 2, 0.0 if zero_infinity else float("inf"), loss)
    if reduction == "mean":
        return (loss / target_lengths.clamp(min=1)).mean()
    return loss.sum() if reduction == "sum" else loss.squeeze(0) if is_single else loss


def _tensor(lengths: torch.Tensor) -> torch.Tensor:
    return lengths.to(torch.int64) if isinstance(lengths, torch.Tensor) else torch.tensor(lengths)


def _padded(targets: torch.Tensor, lengths: torch.Tensor, batch: int) -> torch.Tensor:
    """The targets in the shape (batch, largest length). Splits concatenated targets, and pads them with zeros."""
    targets = targets.to(torch.int64)
    if targets.dim() == 2:
        return targets
    if not isinstance(lengths, Sequence):
        raise Unsupported(
            "ctc_loss of concatenated targets needs target_lengths as a list; give the targets as (batch, length)"
        )
    rows = torch.split(targets, list(lengths))
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True) if batch else targets.reshape(0, 0)


def _scanned(first: torch.Tensor, skips: torch.Tensor, scores: torch.Tensor, runs: torch.Tensor) -> Any:
    """The last row of the recursion. After the end of a sequence, the steps do not change the row."""

    def step(carried: tuple[torch.Tensor, torch.Tensor], given: tuple[torch.Tensor, torch.Tensor]) -> Any:
        (row, skips), (score, runs) = carried, given
        never = torch.full_like(row, _NEVER)
        one = torch.cat([never[:, :1], row[:, :-1]], 1)
        two = torch.where(skips, torch.cat([never[:, :2], row[:, :-2]], 1)[:, : row.shape[1]], _NEVER)
        new = torch.logsumexp(torch.stack([row, one, two]), 0) + score
        return (torch.where(runs, new, row), skips.clone()), score.sum()

    with torch._C._AutoDispatchBelowAutograd():  # PyTorch traces no scan of tensors that require gradients
        given = [x.clone() for x in (first, skips, scores, runs)]
    (last, _), _ = torch._higher_order_ops.scan(step, tuple(given[:2]), tuple(given[2:]))
    return last
