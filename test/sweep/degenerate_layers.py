"""Test cases for `torch_degenerate.py`: layers and losses of PyTorch with all reductions, margins and modes."""

from math import inf
from typing import Any

import torch
from degenerate_functions import TIES, of
from torch_mathematics import Row, draw

F = torch.nn.functional

REDUCED = ("none", "mean", "sum")
LOGITS, UNIT, POSITIVE = draw(3, 4), torch.sigmoid(draw(4, 4)), draw(4, 4).abs() + 0.1
SIGNS = torch.tensor([[1, -1, 1, 1], [-1, -1, 1, 1], [1, 1, 1, -1], [1, -1, 1, -1]]).double()
LABELS, IGNORED, SOME = torch.tensor([0, 3, 1]), torch.tensor([-100] * 3), torch.tensor([0, -100, 3])
ENDS01 = torch.tensor([[0, 1, 0, 1], [1, 0, 0.5, 1], [0, 0, 1, 1], [0.5, 1, 1, 0]]).double()
WEIGHTS = {
    "": None,
    ", weights": torch.tensor([1, 2, 0.5, 3]).double(),
    ", weights with zeros": torch.tensor([1, 0, 2, 0]).double(),
    ", weights zero": torch.zeros(4).double(),
}


def losses(name: str, inputs: list[Any], *rest: Any, about: str = "", **options: Any) -> list[Row]:
    """Returns a test case of a loss for each reduction. Its name contains `about` and the options."""
    function = getattr(F, name)
    said = [f"{k} {v}" for k, v in options.items() if isinstance(v, bool | int | float | str)]
    said = [about, *said] if about else said
    return [
        (
            f"functional.{name} ({', '.join([*said, how])})",
            of(function, *rest, **options, reduction=how),
            inputs,
        )
        for how in REDUCED
    ]


def classified(name: str, inputs: list[Any], **options: Any) -> list[Row]:
    """Test cases of a loss that takes labels: for each reduction, with and without weights of classes, and with none,
    some or all labels ignored."""
    function = getattr(F, name)
    labels = {"labels": LABELS, "some ignored": SOME, "all ignored": IGNORED}
    said = "".join(f", {k} {v}" for k, v in options.items())
    return [
        (
            f"functional.{name} ({which}{weights}{said}, {how})",
            of(function, target, weight=weight, reduction=how, **options),
            inputs,
        )
        for which, target in labels.items()
        for weights, weight in WEIGHTS.items()
        for how in REDUCED
    ]


def counted(*lengths: tuple[int, ...], **options: Any) -> Any:
    """Returns a function that computes `ctc_loss` for a batch of three.

    `lengths` are those of inputs and of targets.
    """
    targets = torch.tensor([[1, 2, 2], [3, 1, 1], [1, 2, 3]])

    def loss(x: Any) -> Any:
        return F.ctc_loss(x.log_softmax(-1), targets, lengths[0], lengths[1], **options)

    return loss


LOSSES: list[Row] = [
    *losses("l1_loss", [TIES, TIES.flip(0)]),
    *losses("mse_loss", [TIES, TIES.flip(0)]),
    *(row for beta in (0.0, 1.0, 2.0) for row in losses("smooth_l1_loss", [TIES, TIES.flip(0)], beta=beta)),
    *(row for delta in (1.0, 2.0) for row in losses("huber_loss", [TIES, TIES.flip(0)], delta=delta)),
    *losses("binary_cross_entropy", [UNIT, UNIT.flip(0)]),
    *losses(
        "binary_cross_entropy",
        [ENDS01, ENDS01.flip(0)],
        about="ends, weights",
        weight=torch.tensor([0, 1, 0, 2]).double(),
    ),
    *losses("binary_cross_entropy_with_logits", [TIES, ENDS01]),
    *losses(
        "binary_cross_entropy_with_logits",
        [TIES, ENDS01],
        about="weights",
        pos_weight=torch.tensor([0, 1, 3, 0]).double(),
    ),
    *classified("cross_entropy", [LOGITS]),
    *classified("cross_entropy", [LOGITS], label_smoothing=0.1),
    *classified("cross_entropy", [LOGITS], label_smoothing=1.0),
    *classified("nll_loss", [LOGITS]),
    *losses("cross_entropy", [LOGITS, LOGITS.softmax(-1)], about="probabilities"),
    *losses("cross_entropy", [LOGITS, torch.zeros(3, 4).double()], label_smoothing=0.1),
    *losses("cross_entropy", [draw(2, 4, 3)], torch.tensor([[0, -100, 1], [-100, 3, 0]]), about="images"),
    *losses("cross_entropy", [draw(2, 4, 3)], torch.full((2, 3), 7), ignore_index=7),
    *losses("nll_loss", [draw(2, 4, 2, 2)], torch.full((2, 2, 2), -1), ignore_index=-1),
    *losses("cross_entropy", [draw(4)], torch.tensor(-100), about="one example, ignored"),
    *losses("cross_entropy", [draw(4)], torch.tensor(3), about="one example"),
    *losses("nll_loss", [draw(0, 4)], torch.zeros(0, dtype=torch.int64), about="no examples"),
    *losses("cross_entropy", [draw(0, 4)], torch.zeros(0, dtype=torch.int64), about="no examples"),
    *losses("kl_div", [TIES, ENDS01]),
    *losses("kl_div", [TIES, TIES], log_target=True),
    *losses("poisson_nll_loss", [TIES, TIES], full=True),
    *losses("poisson_nll_loss", [POSITIVE, TIES], log_input=False),
    *losses("gaussian_nll_loss", [TIES, TIES.flip(0), POSITIVE], full=True),
    *losses("gaussian_nll_loss", [TIES, TIES.flip(0), torch.full((4, 1), 0.5).double()], eps=0.5),
    *(row for m in (0.0, 1.0, 2.0) for row in losses("hinge_embedding_loss", [TIES], SIGNS, margin=m)),
    *(
        row
        for m in (0.0, 1.0)
        for row in losses("margin_ranking_loss", [TIES, TIES.flip(0)], SIGNS, margin=m)
    ),
    *(
        row
        for m in (-0.5, 0.0, 1.0)
        for row in losses("cosine_embedding_loss", [TIES, TIES.flip(0)], SIGNS[0], margin=m)
    ),
    *losses("soft_margin_loss", [TIES], SIGNS),
    *losses(
        "multilabel_margin_loss", [TIES], torch.tensor([[3, 0, -1, 1], [-1] * 4, [0, 1, 2, 3], [3, -1, 3, 3]])
    ),
    *losses("multilabel_soft_margin_loss", [TIES], ENDS01, weight=torch.tensor([0, 1, 2, 0]).double()),
    *(
        row
        for p in (1, 2)
        for m in (0.0, 1.0)
        for row in losses("multi_margin_loss", [TIES], torch.tensor([0, 3, 1, 2]), p=p, margin=m)
    ),
    *losses(
        "multi_margin_loss", [TIES], torch.tensor([0, 3, 1, 2]), weight=torch.tensor([0, 1, 2, 0]).double()
    ),
    *(
        row
        for p in (0.5, 1.0, 2.0, inf)
        for row in losses("triplet_margin_loss", [TIES, TIES, TIES.flip(0)], p=p, margin=0.5, eps=0.0)
    ),
    *losses("triplet_margin_loss", [TIES, TIES, TIES.flip(0)], swap=True),
    *losses("triplet_margin_with_distance_loss", [TIES, TIES, TIES.flip(0)], margin=1.0),
    *(
        (
            f"functional.ctc_loss ({name}, zero_infinity {zero}, {how})",
            counted(*lengths, zero_infinity=zero, reduction=how),
            [draw(6, 3, 4)],
        )
        for name, lengths in {
            "possible": ((6, 5, 6), (3, 2, 3)),
            "impossible": ((3, 2, 1), (3, 3, 3)),
            "one possible": ((3, 6, 3), (3, 3, 3)),
            "empty": ((6, 1, 6), (0, 0, 0)),
            "no steps": ((0, 0, 6), (0, 1, 3)),
        }.items()
        for zero in (True, False)
        for how in REDUCED
    ),
]

IMAGE, LINE = torch.round(draw(1, 2, 4, 4)), torch.round(draw(1, 2, 6))
VOLUME = torch.round(draw(1, 1, 4, 4, 4))
GRID = (
    torch.tensor([[-1, -1], [1, 1], [0, 0], [-1.5, 2], [0.5, -0.5], [1, 0], [-2, -2], [3, 1]])
    .double()
    .reshape(1, 2, 4, 2)
)

POOLS: list[Row] = [
    *(
        (f"functional.lp_pool{n}d ({p})", of(getattr(F, f"lp_pool{n}d"), p, 2), [x])
        for n, x in ((1, LINE), (2, IMAGE), (3, VOLUME))
        for p in (1.0, 2.0, 3.0, 0.5)
    ),
    ("functional.lp_pool1d (ceil_mode)", of(F.lp_pool1d, 2.0, 4, ceil_mode=True), [LINE]),
    *(
        (f"functional.max_pool{n}d{said}", of(getattr(F, f"max_pool{n}d"), 2, **options), [x])
        for n, x in ((1, LINE), (2, IMAGE), (3, VOLUME))
        for said, options in {
            "": {},
            " (padding)": {"padding": 1},
            " (stride 1, dilation 2)": {"stride": 1, "dilation": 2},
            " (ceil_mode)": {"stride": 3, "ceil_mode": True},
            " (indices)": {"return_indices": True},
        }.items()
    ),
    *(
        (
            f"functional.avg_pool{n}d (padding, {pad})",
            of(getattr(F, f"avg_pool{n}d"), 2, padding=1, count_include_pad=pad),
            [x],
        )
        for n, x in ((1, LINE), (2, IMAGE), (3, VOLUME))
        for pad in (True, False)
    ),
    *(
        (
            f"functional.adaptive_{kind}_pool{n}d ({size})",
            of(getattr(F, f"adaptive_{kind}_pool{n}d"), size),
            [x],
        )
        for kind in ("avg", "max")
        for n, x in ((1, LINE), (2, IMAGE), (3, VOLUME))
        for size in (1, 3, 4, 5)
    ),
    (
        "functional.adaptive_max_pool2d (9x8 to 4x3)",
        of(F.adaptive_max_pool2d, (4, 3)),
        [draw(1, 2, 9, 8).round()],
    ),
    (
        "functional.max_unpool2d",
        lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2),
        [IMAGE],
    ),
    *(
        (
            f"functional.grid_sample ({mode}, {pad}, {corners})",
            of(F.grid_sample, mode=mode, padding_mode=pad, align_corners=corners),
            [IMAGE, GRID],
        )
        for mode in ("bilinear", "nearest", "bicubic")
        for pad in ("zeros", "border", "reflection")
        for corners in (True, False)
    ),
    *(
        (
            f"functional.interpolate ({mode}, {size}, {corners})",
            of(F.interpolate, size=size, mode=mode, align_corners=corners),
            [IMAGE],
        )
        for mode, corners in (
            ("bilinear", True),
            ("bilinear", False),
            ("bicubic", True),
            ("bicubic", False),
            ("nearest", None),
            ("nearest-exact", None),
            ("area", None),
        )
        for size in ((1, 1), (4, 4), (7, 3))
    ),
    *(
        (
            f"functional.interpolate ({mode}, antialias, {size})",
            of(F.interpolate, size=size, mode=mode, antialias=True),
            [IMAGE],
        )
        for mode in ("bilinear", "bicubic")
        for size in ((1, 1), (3, 2), (7, 5))
    ),
]

SAME = torch.full((3, 2, 4), 0.5).double()

LAYERS: list[Row] = [
    *(
        (f"functional.{name} (eps {eps})", of(function, eps=eps), [SAME])
        for eps in (1e-5, 0.0)
        for name, function in {
            "layer_norm": of(F.layer_norm, (4,)),
            "rms_norm": of(F.rms_norm, (4,)),
            "group_norm": of(F.group_norm, 1),
            "instance_norm": F.instance_norm,
            "batch_norm": of(F.batch_norm, None, None, training=True),
        }.items()
    ),
    ("functional.rms_norm", of(F.rms_norm, (4,)), [TIES]),
    ("functional.layer_norm (two rows)", of(F.layer_norm, (2, 4)), [SAME]),
    (
        "functional.batch_norm (evaluation)",
        of(F.batch_norm, torch.zeros(2).double(), torch.zeros(2).double()),
        [SAME],
    ),
    *((f"functional.local_response_norm ({n})", of(F.local_response_norm, n), [IMAGE]) for n in (1, 2, 5)),
    *(
        (
            f"functional.scaled_dot_product_attention ({said})",
            of(F.scaled_dot_product_attention, **options),
            [draw(1, 2, 3, 4), draw(1, 2, 3, 4), draw(1, 2, 3, 4)],
        )
        for said, options in {
            "a row without keys": {"attn_mask": torch.tensor([[1, 1, 0], [0, 0, 0], [0, 0, 1]]).bool()},
            "a row of -inf": {
                "attn_mask": torch.tensor([[0, 0, 0], [-inf, -inf, -inf], [0, -inf, 1]]).double()
            },
            "causal": {"is_causal": True},
            "scale 0": {"scale": 0.0},
        }.items()
    ),
    ("functional.linear (empty)", lambda x, w: F.linear(x[:, :0], w[:, :0]), [TIES, TIES]),
    ("functional.bilinear", F.bilinear, [draw(2, 3), draw(2, 4), draw(5, 3, 4)]),
    ("functional.gumbel_softmax (hard part)", lambda x: F.one_hot(x.argmax(-1), 4) * x, [TIES]),
    ("functional.pixel_shuffle (1)", of(F.pixel_shuffle, 1), [IMAGE]),
    ("functional.channel_shuffle", of(F.channel_shuffle, 2), [IMAGE]),
    ("functional.fold", of(F.fold, (4, 4), 2), [draw(1, 8, 9)]),
    ("functional.unfold", of(F.unfold, 2, padding=1), [IMAGE]),
    ("functional.conv1d (empty)", lambda x, w: F.conv1d(x[:0], w), [LINE, draw(3, 2, 3)]),
]
