"""Builds models of timm and torchvision.

The lists have the smallest model of each family of timm, and models of torchvision with the options of a small model.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from entries import Built
from shrinking import Size

CLASSES = 10
LARGEST_SIDE = 224
BATCH = 2
"""Number of images in a batch.

With a single image in a transposed layout, PyTorch computes wrong gradients of batch normalization.
"""

TORCHVISION: Mapping[str, Mapping[str, Any]] = {
    "alexnet": {},
    "convnext_tiny": {},
    "deeplabv3_mobilenet_v3_large": {"weights_backbone": None},
    "deeplabv3_resnet50": {"weights_backbone": None},
    "densenet121": {},
    "efficientnet_b0": {},
    "efficientnet_v2_s": {},
    "fcn_resnet50": {"weights_backbone": None},
    "googlenet": {"aux_logits": False, "init_weights": False},
    "inception_v3": {"aux_logits": False, "init_weights": False, "side": 80},
    "lraspp_mobilenet_v3_large": {"weights_backbone": None},
    "maxvit_t": {"side": 224},
    "mc3_18": {"frames": 4},
    "mnasnet0_5": {},
    "mobilenet_v2": {},
    "mobilenet_v3_small": {},
    "mvit_v2_s": {"frames": 16, "side": 224},
    "r2plus1d_18": {"frames": 4},
    "r3d_18": {"frames": 4},
    "raft_small": {"pairs": True, "side": 128},
    "regnet_x_400mf": {},
    "regnet_y_400mf": {},
    "resnet18": {},
    "resnet50": {},
    "resnext50_32x4d": {},
    "s3d": {"frames": 16},
    "shufflenet_v2_x0_5": {},
    "squeezenet1_0": {},
    "squeezenet1_1": {},
    "swin3d_t": {"frames": 4},
    "swin_t": {},
    "swin_v2_t": {},
    "vgg11": {},
    "vgg11_bn": {},
    "vit_b_32": {"side": 224},
    "wide_resnet50_2": {},
}
"""Maps models of torchvision to options.

`side` is the least side of an image. If `frames` is given, the input is a video with this many images.
"""


def torchvision_model(name: str) -> Callable[[Size], Iterator[Callable[[], Built]]]:
    def candidates(size: Size) -> Iterator[Callable[[], Built]]:
        import torchvision

        options = dict(TORCHVISION[name])
        least = options.pop("side", 0)
        side = max(LARGEST_SIDE if size.published else size.side, least)
        frames, pairs = options.pop("frames", 0), options.pop("pairs", False)
        shape = (1, 3, frames, side, side) if frames else (BATCH, 3, side, side)
        if not pairs and not size.published:
            options["num_classes"] = CLASSES

        def build() -> Built:
            module = torchvision.models.get_model(name, weights=None, **options)
            return module, tuple(torch.randn(shape) for _ in range(2 if pairs else 1))

        yield build

    return candidates


_SMALLER: tuple[Mapping[str, Any], ...] = (
    {"depth": 2},
    {"depths": (1, 1, 1, 1)},
    {"layers": (1, 1, 1, 1)},
    {"depths": (1, 1, 1)},
    {"num_layers": 2},
    {"num_blocks": 2},
    {},
)
"""Keyword arguments that reduce the depth of a model. The first arguments that its class accepts are used."""


def timm_model(name: str) -> Callable[[Size], Iterator[Callable[[], Built]]]:
    def candidates(size: Size) -> Iterator[Callable[[], Built]]:
        import timm

        config = timm.get_pretrained_cfg(name)
        side = config.input_size[-1] if config else LARGEST_SIDE
        if size.published:
            yield from _published(name, side, size.side)
            return
        shallower = _SMALLER if size.layers <= 2 else ({},)
        for sized in ({"img_size": size.side}, {}):
            for options in shallower:
                sides = [size.side] if sized else sorted({size.side, min(side, LARGEST_SIDE), side})
                for each in sides:

                    def build(each: int = each, given: Any = (sized, options)) -> Built:
                        module = timm.create_model(name, num_classes=CLASSES, **given[0], **given[1])
                        channels = getattr(module, "in_chans", 3)
                        return module, (torch.randn(BATCH, channels, each, each),)

                    yield build

    return candidates


def _published(name: str, side: int, largest: int) -> Iterator[Callable[[], Built]]:
    """Yields builders of the model that timm publishes.

    The images have the side that the model names. If it exceeds `largest`, the side is `LARGEST_SIDE`.
    """
    choices: list[tuple[dict[str, int], int]] = [({}, side)]
    if side > largest:
        choices = [({"img_size": LARGEST_SIDE}, LARGEST_SIDE), ({}, LARGEST_SIDE)]
    for options, each in choices:

        def build(options: Mapping[str, int] = options, each: int = each) -> Built:
            import timm

            module = timm.create_model(name, **options)
            return module, (torch.randn(BATCH, getattr(module, "in_chans", 3), each, each),)

        yield build


TIMM: tuple[str, ...] = (
    "beit_base_patch16_224",
    "halonet_h1",
    "test_byobnet",
    "botnet26t_256",
    "lambda_resnet26t",
    "gernet_s",
    "repvgg_a0",
    "cait_xxs24_224",
    "coat_tiny",
    "convit_tiny",
    "convmixer_768_32",
    "test_convnext",
    "convnextv2_atto",
    "cpubone_nano",
    "crossvit_tiny_240",
    "csatv2",
    "cs3darknet_m",
    "cspresnet50",
    "cspnext_tiny",
    "davit_tiny",
    "deit_tiny_patch16_224",
    "deit_tiny_distilled_patch16_224",
    "densenet121",
    "dla46_c",
    "dpn48b",
    "edgenext_xx_small",
    "efficientformer_l1",
    "efficientformerv2_s0",
    "test_efficientnet",
    "efficientnet_b0",
    "mixnet_s",
    "mnasnet_small",
    "mobilenetv2_035",
    "efficientvim_m1",
    "efficientvim_m1_dist",
    "efficientvit_b0",
    "efficientvit_l1",
    "efficientvit_m0",
    "eva02_tiny_patch14_224",
    "fasternet_t0",
    "fastvit_t8",
    "focalnet_tiny_srf",
    "gcvit_xxtiny",
    "ghostnet_050",
    "ghostnetv2_100",
    "hardcorenas_b",
    "hgnetv2_b0",
    "hiera_tiny_224",
    "sam2_hiera_tiny",
    "hrnet_w18_small",
    "iformer_t",
    "inception_next_atto",
    "inception_resnet_v2",
    "inception_v3",
    "inception_v4",
    "lcnetv2_small",
    "lcnet_050",
    "levit_128s",
    "levit_conv_128s",
    "lowformer_b0",
    "test_mambaout",
    "test_coatnet",
    "test_maxvit",
    "poolformerv2_s12",
    "convformer_s18",
    "caformer_s18",
    "gmlp_ti16_224",
    "resmlp_12_224",
    "mixer_s32_224",
    "mobilenetv3_small_050",
    "mobilevit_xxs",
    "mobilevitv2_050",
    "mvitv2_tiny",
    "nest_tiny",
    "nextvit_small",
    "nfnet_f0",
    "eca_nfnet_l0",
    "dm_nfnet_f0",
    "pit_ti_224",
    "pit_ti_distilled_224",
    "pvt_v2_b0",
    "rdnet_tiny",
    "regnetx_002",
    "regnety_002",
    "regnetv_040",
    "regnetz_b16",
    "repghostnet_050",
    "repvit_m1",
    "res2net50d",
    "res2next50",
    "resnest14d",
    "resnet18",
    "resnet10t",
    "seresnext26t_32x4d",
    "ecaresnet26t",
    "resnetv2_18",
    "resnetv2_50",
    "rexnet_100",
    "selecsls42",
    "legacy_seresnet18",
    "sequencer2d_s",
    "shvit_s1",
    "skresnet18",
    "starnet_s050",
    "swiftformer_xs",
    "swin_tiny_patch4_window7_224",
    "swin_s3_tiny_224",
    "swinv2_tiny_window8_256",
    "swinv2_cr_tiny_224",
    "tiny_vit_5m_224",
    "tnt_s_patch16_224",
    "tresnet_m",
    "twins_svt_small",
    "twins_pcpvt_small",
    "vgg11_bn",
    "visformer_tiny",
    "test_vit",
    "test_vit2",
    "test_vit3",
    "test_vit4",
    "flexivit_small",
    "vit_base_r26_s32_224",
    "vit_relpos_small_patch16_224",
    "vit_srelpos_small_patch16_224",
    "samvit_base_patch16_224",
    "vitamin_small_224",
    "volo_d1_224",
    "vovnet39a",
    "ese_vovnet19b_dw",
    "xception",
    "legacy_xception",
    "xception41",
    "xcit_nano_12_p8_224",
)
"""The names of the smallest model of each family of timm."""
