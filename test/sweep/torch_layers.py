"""Test cases for `torch_gradients.py`: array functions, layers, recurrent networks and control flow of PyTorch."""

from typing import Any

import torch
from torch_mathematics import ONE, TALL, A, B, I, Row, V, X, draw, positive

F = torch.nn.functional

J = torch.tensor([[0, 2, 0], [3, 3, 1]])

ARRAYS: list[Row] = [
    ("as_strided", lambda x: torch.as_strided(x, (2, 3), (4, 1), 1), [draw(3, 4)]),
    ("bincount", lambda x: torch.bincount(I.flatten(), minlength=3) * x, [draw(3)]),
    ("block_diag", torch.block_diag, [draw(2, 2), draw(3, 1)]),
    ("boolean mask assignment", lambda x: torch.where(x > 0, x, 0).masked_fill(x > 1, 2), [X]),
    ("bucketize", lambda x: x * torch.bucketize(x, torch.tensor([-1.0, 0, 1]).double()), [X]),
    ("cdist", torch.cdist, [draw(2, 4, 3), draw(2, 5, 3)]),
    ("cdist (p=1)", lambda x, y: torch.cdist(x, y, p=1), [draw(4, 3), draw(5, 3)]),
    ("cov", torch.cov, [X]),
    ("cummax", lambda x: torch.cummax(x, 1), [X]),
    ("cummin", lambda x: torch.cummin(x, 0), [X]),
    ("cumprod", lambda x: torch.cumprod(x, 1), [X]),
    ("cumsum", lambda x: torch.cumsum(x, 0), [X]),
    ("logcumsumexp", lambda x: torch.logcumsumexp(x, 1), [X]),
    ("diag", torch.diag, [ONE]),
    ("diag (vector)", torch.diag, [V]),
    ("diag_embed", torch.diag_embed, [X]),
    ("diagonal", lambda x: torch.diagonal(x, 1, 1, 2), [TALL]),
    ("diagonal_scatter", torch.diagonal_scatter, [ONE, draw(3)]),
    ("diff", torch.diff, [X]),
    ("einsum", lambda x, y: torch.einsum("bij,bjk->ik", x, y), [A, B]),
    ("empty_like, new_empty", lambda x: filled(torch.empty_like(x), x) + filled(x.new_empty(3, 4), x), [X]),
    ("flip", lambda x: torch.flip(x, (0, 1)), [X]),
    ("gather", lambda x: torch.gather(x, 1, I), [X]),
    ("histc", lambda x: torch.histc(x.detach(), 5, -1, 1) * x.sum(), [X]),
    ("histc (range of the data)", lambda x: torch.histc(x.detach(), 4) * x.sum(), [X]),
    ("index_add", lambda x, y: torch.index_add(x, 0, torch.tensor([2, 0]), y), [X, draw(2, 4)]),
    ("index_copy", lambda x, y: torch.index_copy(x, 0, torch.tensor([2, 0]), y), [X, draw(2, 4)]),
    ("index_fill", lambda x: torch.index_fill(x, 1, torch.tensor([2, 0]), 3.0), [X]),
    ("index_put", lambda x, y: x.index_put((torch.tensor([0, 1]),), y, accumulate=True), [X, draw(2, 4)]),
    ("index_reduce", lambda x, y: x.index_reduce(0, torch.tensor([2, 0]), y, "mean"), [X, draw(2, 4)]),
    (
        "index_reduce (amin)",
        lambda x, y: x.index_reduce(1, torch.tensor([1, 1, 3]), y, "amin"),
        [X, draw(3, 3)],
    ),
    ("index_select", lambda x: torch.index_select(x, 1, torch.tensor([2, 0, 2])), [X]),
    ("kron", torch.kron, [draw(2, 2), draw(3, 1)]),
    ("kthvalue", lambda x: torch.kthvalue(x, 2, 1), [X]),
    ("logsumexp", lambda x: torch.logsumexp(x, 1), [X]),
    ("masked_scatter", lambda x, y: torch.masked_scatter(x, x > 0, y), [X, draw(3, 5)[:, :4]]),
    ("max (dim)", lambda x: torch.max(x, 1), [X]),
    ("amax, amin", lambda x: torch.amax(x, 1) - torch.amin(x, 1), [X]),
    ("median", torch.median, [V]),
    ("median (dim)", lambda x: torch.median(x, 1), [X]),
    ("mode", lambda x: torch.mode(x, 1), [X]),
    ("nanmean", torch.nanmean, [X]),
    ("nanmedian", torch.nanmedian, [V]),
    ("nansum", torch.nansum, [X]),
    ("nan_to_num", torch.nan_to_num, [X]),
    ("pad (reflect)", lambda x: F.pad(x, (1, 1), mode="reflect"), [X]),
    ("prod", lambda x: torch.prod(x, 1), [X]),
    ("quantile", lambda x: torch.quantile(x, 0.3, dim=1), [X]),
    ("renorm", lambda x: torch.renorm(x, 2, 0, 1.0), [X]),
    ("roll", lambda x: torch.roll(x, 1, 1), [X]),
    ("rot90", torch.rot90, [X]),
    ("scatter", lambda x, y: torch.scatter(x, 1, I, y), [X[:2], draw(2, 3)]),
    ("scatter_add", lambda x, y: torch.scatter_add(x, 1, I, y), [X[:2], draw(2, 3)]),
    *(
        (f"scatter_reduce ({how})", lambda x, y, how=how: x.scatter_reduce(1, J, y, how), [X[:2], draw(2, 3)])
        for how in ("amax", "amin", "mean", "prod", "sum")
    ),
    *(
        (
            f"scatter_reduce ({how}, without self)",
            lambda x, y, how=how: x.scatter_reduce(1, J, y, how, include_self=False),
            [X[:2], draw(2, 3)],
        )
        for how in ("amax", "mean", "prod", "sum")
    ),
    (
        "scatter_reduce (ties)",
        lambda x, y: x.scatter_reduce(1, J, y, "amax"),
        [torch.ones(2, 4).double(), torch.ones(2, 3).double()],
    ),
    ("searchsorted", lambda x: x * torch.searchsorted(torch.tensor([-1.0, 0, 1]).double(), x), [X]),
    ("select_scatter", lambda x, y: torch.select_scatter(x, y, 0, 1), [X, draw(4)]),
    ("slice_scatter", lambda x, y: torch.slice_scatter(x, y, 1, 1, 3), [X, draw(3, 2)]),
    ("slice_scatter (steps)", lambda x, y: torch.slice_scatter(x, y, 1, 0, 4, 2), [X, draw(3, 2)]),
    ("sort", lambda x: torch.sort(x, 1, descending=True), [X]),
    ("std, var", lambda x: torch.std(x, 1) + torch.var(x, 0).sum(), [X]),
    ("take", lambda x: torch.take(x, I), [X]),
    ("take_along_dim", lambda x: torch.take_along_dim(x, I, 1), [X[:2]]),
    ("tensordot", lambda x, y: torch.tensordot(x, y, 1), [A, draw(3, 2)]),
    ("topk", lambda x: torch.topk(x, 2), [X]),
    ("trace", torch.trace, [ONE]),
    ("trapezoid", torch.trapezoid, [X]),
    ("tril, triu", lambda x: torch.tril(x) - 2 * torch.triu(x, 1), [ONE]),
    ("unfold", lambda x: x.unfold(1, 2, 1), [X]),
    ("unique", lambda x: torch.unique(x > 0) * x.sum(), [X]),
    ("x[[-1, 0]]", lambda x: x[torch.tensor([-1, 0])] + x[:, [-2]][:2], [X]),
    ("x[[-1, 0]] = y", lambda x, y: x.index_put((torch.tensor([-1, 0]),), y), [X, draw(2, 4)]),
    ("x[mask]", lambda x: x[x > 0], [X]),
    ("nonzero", lambda x: torch.nonzero(x), [X]),
    ("y[:, 1:] = x[:, :-1]", lambda x: assigned(x), [draw(8, 8)]),
    ("y[mask] = 2", lambda x: masked(x), [X]),
    ("y[::2] = x", lambda x: stepped(x), [X]),
    ("y[0, 1:3] = x", lambda x: corner(x), [X]),
]


def assigned(x: Any) -> Any:
    y = torch.zeros(8, 8, dtype=x.dtype)
    y[:, 1:] = x[:, :-1]
    return y


def filled(y: Any, x: Any) -> Any:
    y[torch.tensor([2, 0, 1])] = 3 * x
    return y


def stepped(x: Any) -> Any:
    y = x.clone()
    y[::2] = 2 * x[:2]
    return y


def masked(x: Any) -> Any:
    y = 3 * x
    y[y > 0] = 2
    return y


def corner(x: Any) -> Any:
    y = x * 2
    y[0, 1:3] = x[1, 0:2] ** 2
    y[2] += 1
    return y


def mixed(x: Any, weights: Any) -> Any:
    return F.grouped_mm(x, weights, offs=torch.tensor([2, 5, 6], dtype=torch.int32))


def counted(logits: Any) -> Any:
    lengths = torch.tensor([6, 5])
    return F.ctc_loss(logits.log_softmax(-1), FEW, lengths, torch.tensor([3, 2]))


FEW = torch.tensor([[1, 2, 2], [3, 1, 0]])
TARGET = torch.tensor([0, 3, 1])
IMAGE = draw(1, 2, 6, 6)
NETWORKS: list[Row] = [
    *(
        (name, getattr(F, name), [X])
        for name in (
            "gelu",
            "silu",
            "mish",
            "softplus",
            "softsign",
            "logsigmoid",
            "hardsigmoid",
            "glu",
            "softmin",
        )
    ),
    ("adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x, (3, 4)), [IMAGE]),
    ("adaptive_max_pool2d", lambda x: F.adaptive_max_pool2d(x, 3), [IMAGE]),
    (
        "affine_grid, grid_sample",
        lambda t, x: F.grid_sample(x, F.affine_grid(t, (1, 2, 3, 3))),
        [draw(1, 2, 3), IMAGE],
    ),
    ("binary_cross_entropy_with_logits", F.binary_cross_entropy_with_logits, [X, positive(3, 4)]),
    ("bilinear", F.bilinear, [draw(2, 3), draw(2, 4), draw(5, 3, 4)]),
    ("conv1d", lambda x, w: F.conv1d(x, w, padding=1), [draw(1, 2, 6), draw(3, 2, 3)]),
    ("conv2d (groups)", lambda x, w: F.conv2d(x, w, groups=2), [IMAGE, draw(4, 1, 3, 3)]),
    ("conv_transpose2d", lambda x, w: F.conv_transpose2d(x, w, stride=2), [IMAGE, draw(2, 3, 3, 3)]),
    (
        "cosine_embedding_loss",
        lambda x, y: F.cosine_embedding_loss(x, y, torch.tensor([1, -1, 1])),
        [X, draw(3, 5)[:, :4]],
    ),
    ("cosine_similarity", F.cosine_similarity, [X, draw(3, 5)[:, :4]]),
    ("cross_entropy", lambda x: F.cross_entropy(x, TARGET, label_smoothing=0.1), [X]),
    ("ctc_loss", counted, [draw(6, 2, 4)]),
    (
        "ctc_loss (concatenated, sum)",
        lambda x: F.ctc_loss(
            x.log_softmax(-1), torch.tensor([1, 2, 2, 0]), (6, 5), (3, 1), blank=3, reduction="sum"
        ),
        [draw(6, 2, 4)],
    ),
    (
        "ctc_loss (impossible and empty targets)",
        lambda x: F.ctc_loss(x, FEW, torch.tensor([3, 6]), torch.tensor([3, 0]), zero_infinity=True),
        [draw(6, 2, 4).log_softmax(-1)],
    ),
    ("embedding", lambda w: F.embedding(I, w), [draw(4, 3)]),
    ("embedding_bag (mean)", lambda w: F.embedding_bag(I, w), [draw(4, 3)]),
    (
        "embedding_bag (sum, offsets)",
        lambda w: F.embedding_bag(I.flatten(), w, torch.tensor([0, 2]), mode="sum"),
        [draw(4, 3)],
    ),
    ("embedding_bag (max)", lambda w: F.embedding_bag(I, w, mode="max"), [draw(4, 3)]),
    ("fold", lambda x: F.fold(x, (4, 4), 2), [draw(1, 8, 9)]),
    ("unfold (images)", lambda x: F.unfold(x, 3), [IMAGE]),
    ("fractional powers", lambda x: x**1.5 + 2**x, [positive(3, 4)]),
    ("group_norm", lambda x: F.group_norm(x, 2), [IMAGE]),
    ("grouped_mm", mixed, [draw(6, 4).float(), draw(3, 4, 8).float()]),
    ("huber_loss", F.huber_loss, [X, draw(3, 5)[:, :4]]),
    ("instance_norm", F.instance_norm, [IMAGE]),
    ("interpolate (bicubic)", lambda x: F.interpolate(x, scale_factor=1.5, mode="bicubic"), [IMAGE]),
    ("interpolate (area)", lambda x: F.interpolate(x, size=(3, 4), mode="area"), [IMAGE]),
    ("interpolate (nearest-exact)", lambda x: F.interpolate(x, size=(9, 9), mode="nearest-exact"), [IMAGE]),
    (
        "interpolate (trilinear)",
        lambda x: F.interpolate(x[None], scale_factor=2, mode="trilinear"),
        [draw(1, 2, 3, 3)],
    ),
    ("kl_div", lambda x, y: F.kl_div(x, y.softmax(-1)), [X, draw(3, 5)[:, :4]]),
    ("layer_norm", lambda x: F.layer_norm(x, (4,)), [X]),
    ("local_response_norm", lambda x: F.local_response_norm(x, 2), [IMAGE]),
    ("lp_pool2d", lambda x: F.lp_pool2d(x, 2, 2), [IMAGE]),
    ("max_pool2d (indices)", lambda x: F.max_pool2d(x, 2, return_indices=True), [IMAGE]),
    ("max_unpool2d", lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2), [IMAGE]),
    ("multilabel_margin_loss", lambda x: F.multilabel_margin_loss(x, torch.tensor([[1, 0, -1, 0]] * 3)), [X]),
    ("multi_margin_loss", lambda x: F.multi_margin_loss(x, TARGET), [X]),
    ("nll_loss", lambda x: F.nll_loss(x, TARGET), [X]),
    ("normalize", F.normalize, [X]),
    ("one_hot", lambda x: F.one_hot(I, 4) * x.sum(), [X]),
    ("pairwise_distance", F.pairwise_distance, [X, draw(3, 5)[:, :4]]),
    ("pdist", F.pdist, [X]),
    ("pixel_shuffle", lambda x: F.pixel_shuffle(x, 2), [draw(1, 4, 3, 3)]),
    ("poisson_nll_loss", F.poisson_nll_loss, [X, positive(3, 4)]),
    ("prelu", F.prelu, [X, draw(1)]),
    ("rms_norm", lambda x: F.rms_norm(x, (4,)), [X]),
    (
        "scaled_dot_product_attention",
        F.scaled_dot_product_attention,
        [draw(1, 2, 3, 4), draw(1, 2, 5, 4), draw(1, 2, 5, 4)],
    ),
    (
        "scaled_dot_product_attention (causal)",
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        [draw(1, 2, 3, 4), draw(1, 2, 3, 4), draw(1, 2, 3, 4)],
    ),
    (
        "scaled_dot_product_attention (mask, groups)",
        lambda q, k, v: F.scaled_dot_product_attention(
            q, k, v, torch.ones(3, 5).tril().bool(), enable_gqa=True
        ),
        [draw(1, 4, 3, 4), draw(1, 2, 5, 4), draw(1, 2, 5, 4)],
    ),
    ("smooth_l1_loss", F.smooth_l1_loss, [X, draw(3, 5)[:, :4]]),
    ("triplet_margin_loss", F.triplet_margin_loss, [X, draw(3, 5)[:, :4], draw(3, 6)[:, :4]]),
]


def recurrent(kind: str, **options: Any) -> Row:
    """Returns a test case of a recurrent layer. Its function takes the weights as arguments."""
    layer = getattr(torch.nn, kind)(3, 4, dtype=torch.float64, **options)
    names = [name for name, _ in layer.named_parameters()]
    weights = [draw(*p.shape) for p in layer.parameters()]
    shown = ", ".join(f"{key}" for key in options)

    def run(x: Any, *given: Any) -> Any:
        return torch.func.functional_call(layer, dict(zip(names, given, strict=True)), (x,))

    return f"nn.{kind}" + (f" ({shown})" if shown else ""), run, [draw(5, 2, 3), *weights]


RECURRENT: list[Row] = [
    recurrent("LSTM"),
    recurrent("LSTM", num_layers=2, bidirectional=True),
    recurrent("LSTM", proj_size=2),
    recurrent("GRU", batch_first=True),
    recurrent("GRU", bias=False),
    recurrent("RNN"),
    recurrent("RNN", nonlinearity="relu"),
]


def scanned(x: Any) -> Any:
    from torch._higher_order_ops.scan import scan

    return scan(lambda c, row: (c * 0.5 + row, torch.sin(c)), torch.zeros(4, dtype=x.dtype), x)


def mapped(x: Any) -> Any:
    from torch._higher_order_ops.map import map as map_

    return map_(lambda row, y: row.sin() * y, x, x[0] + 1)


def halved(x: Any) -> Any:
    from torch._higher_order_ops.while_loop import while_loop

    return while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * x), (torch.tensor(0), x + 1))


CONTROL: list[Row] = [
    ("cond", lambda x: torch.cond(x.sum() > 0, lambda y: y.sin(), lambda y: y * 2, (x,)), [X]),
    (
        "cond (else)",
        lambda x: torch.cond(x.sum() > 99, lambda y: (y.sin(), y + 2), lambda y: (y * 2, y + 1), (x,)),
        [X],
    ),
    ("while_loop", halved, [X]),
    ("scan", scanned, [X]),
    ("map", mapped, [X]),
]
