"""Models of the zoo: networks for images from torchvision and timm."""

from collections.abc import Callable
from typing import Any

import timm
import torch
import torchvision
from entries import REAL, SMALL, Built, Entry, images
from torchvision.models import segmentation

CONVOLUTIONAL, ATTENTION, SEGMENTATION = (
    "convolutional networks",
    "vision transformers and mixers",
    "segmentation",
)


def _torchvision(name: str, side: int, **options: Any) -> Callable[[], Built]:
    return lambda: (getattr(torchvision.models, name)(weights=None, **options), (images(side),))


def _timm(name: str, side: int, **options: Any) -> Callable[[], Built]:
    return lambda: (timm.create_model(name, pretrained=False, **options), (images(side),))


def _segmentation(name: str, side: int) -> Callable[[], Built]:
    make = getattr(segmentation, name)
    return lambda: (make(weights=None, weights_backbone=None, num_classes=5), (images(side),))


def _resnet(block: Any, **options: Any) -> Callable[[], Built]:
    """Returns a builder of a ResNet with one block per stage."""
    from torchvision.models.resnet import ResNet

    return lambda: (ResNet(block, [1, 1, 1, 1], num_classes=10, **options), (images(64),))


def _small_vit() -> Built:
    from torchvision.models import VisionTransformer

    return VisionTransformer(32, 8, 2, 4, 64, 128, num_classes=10), (images(32),)


def _small_swin() -> Built:
    from torchvision.models import SwinTransformer

    return SwinTransformer([4, 4], 24, [2, 2], [2, 4], [4, 4], num_classes=10), (images(64),)


def _small_convnext() -> Built:
    from torchvision.models.convnext import CNBlockConfig, ConvNeXt

    stages = [CNBlockConfig(16, 32, 1), CNBlockConfig(32, 64, 1), CNBlockConfig(64, None, 1)]
    return ConvNeXt(stages, num_classes=10), (images(64),)


def _small_mixer() -> Built:
    from timm.models.mlp_mixer import MlpMixer

    return MlpMixer(num_classes=10, img_size=32, patch_size=8, num_blocks=2, embed_dim=32), (images(32),)


def _small_densenet() -> Built:
    from torchvision.models import DenseNet

    return DenseNet(8, (2, 2, 2), 16, num_classes=10), (images(64),)


class Double(torch.nn.Sequential):
    """The block of a UNet. It consists of two convolutions with group normalization."""

    def __init__(self, inputs: int, outputs: int) -> None:
        layers: list[torch.nn.Module] = []
        for count in (inputs, outputs):
            layers += [
                torch.nn.Conv2d(count, outputs, 3, padding=1),
                torch.nn.GroupNorm(4, outputs),
                torch.nn.SiLU(),
            ]
        super().__init__(*layers)


class UNet(torch.nn.Module):
    """A UNet whose decoder uses transposed convolutions (Ronneberger et al. 2015)."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        widths = [width * 2**i for i in range(depth + 1)]
        pairs = list(zip(widths[:-1], widths[1:], strict=True))
        self.first = Double(3, width)
        self.down = torch.nn.ModuleList(Double(a, b) for a, b in pairs)
        self.up = torch.nn.ModuleList(torch.nn.ConvTranspose2d(b, a, 2, 2) for a, b in reversed(pairs))
        self.merge = torch.nn.ModuleList(Double(2 * a, a) for a, _ in reversed(pairs))
        self.last = torch.nn.Conv2d(width, 3, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = [self.first(x)]
        for down in self.down:
            kept.append(down(torch.nn.functional.max_pool2d(kept[-1], 2)))
        x = kept.pop()
        for up, merge in zip(self.up, self.merge, strict=True):
            x = merge(torch.cat([up(x), kept.pop()], 1))
        return self.last(x)


def _blocks() -> tuple[Any, Any]:
    from torchvision.models.resnet import BasicBlock, Bottleneck

    return BasicBlock, Bottleneck


_BASIC, _BOTTLENECK = _blocks()

ENTRIES = [
    Entry("resnet, basic blocks", CONVOLUTIONAL, SMALL, _resnet(_BASIC)),
    Entry("resnet, bottlenecks", CONVOLUTIONAL, SMALL, _resnet(_BOTTLENECK)),
    Entry("resnext", CONVOLUTIONAL, SMALL, _resnet(_BOTTLENECK, groups=8, width_per_group=4)),
    Entry("densenet", CONVOLUTIONAL, SMALL, _small_densenet),
    Entry("convnext", CONVOLUTIONAL, SMALL, _small_convnext),
    Entry("alexnet", CONVOLUTIONAL, SMALL, _torchvision("alexnet", 64, num_classes=10)),
    Entry("squeezenet1_1", CONVOLUTIONAL, SMALL, _torchvision("squeezenet1_1", 64, num_classes=10)),
    Entry("mobilenet_v2 0.25", CONVOLUTIONAL, SMALL, _torchvision("mobilenet_v2", 64, width_mult=0.25)),
    Entry("mnasnet0_5", CONVOLUTIONAL, SMALL, _torchvision("mnasnet0_5", 64, num_classes=10)),
    Entry("shufflenet_v2_x0_5", CONVOLUTIONAL, SMALL, _torchvision("shufflenet_v2_x0_5", 64, num_classes=10)),
    Entry("regnet_y_400mf", CONVOLUTIONAL, SMALL, _torchvision("regnet_y_400mf", 64, num_classes=10)),
    Entry("vision transformer", ATTENTION, SMALL, _small_vit),
    Entry("swin transformer", ATTENTION, SMALL, _small_swin),
    Entry("mlp-mixer", ATTENTION, SMALL, _small_mixer),
    Entry(
        "deit",
        ATTENTION,
        SMALL,
        _timm("deit_tiny_patch16_224", 64, img_size=64, depth=2, num_classes=10),
    ),
    Entry("poolformer", ATTENTION, SMALL, _timm("poolformer_s12", 64, num_classes=10)),
    Entry("fcn_resnet50", SEGMENTATION, SMALL, _segmentation("fcn_resnet50", 64)),
    Entry("lraspp_mobilenet_v3", SEGMENTATION, SMALL, _segmentation("lraspp_mobilenet_v3_large", 64)),
    Entry("unet", SEGMENTATION, SMALL, lambda: (UNet(16, 2), (images(64),))),
    Entry("resnet18", CONVOLUTIONAL, REAL, _torchvision("resnet18", 224)),
    Entry("resnet50", CONVOLUTIONAL, REAL, _torchvision("resnet50", 224)),
    Entry("mobilenet_v3_large", CONVOLUTIONAL, REAL, _torchvision("mobilenet_v3_large", 224)),
    Entry("efficientnet_b0", CONVOLUTIONAL, REAL, _torchvision("efficientnet_b0", 224)),
    Entry("convnext_tiny", CONVOLUTIONAL, REAL, _torchvision("convnext_tiny", 224)),
    Entry("densenet121", CONVOLUTIONAL, REAL, _torchvision("densenet121", 224)),
    Entry("vit_b_16", ATTENTION, REAL, _torchvision("vit_b_16", 224)),
    Entry("swin_t", ATTENTION, REAL, _torchvision("swin_t", 224)),
    Entry("unet 128x128", SEGMENTATION, REAL, lambda: (UNet(32, 4), (images(128),))),
]
