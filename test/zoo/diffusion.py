"""Models of the zoo: networks of diffusion models from diffusers."""

from collections.abc import Callable
from typing import Any

import diffusers
import torch
from entries import REAL, SMALL, Built, Entry, images

GENERATIVE = "generative models of images"


class Sample(torch.nn.Module):
    """Calls a model of diffusers with positional tensors, and returns the first result."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.model(*inputs, return_dict=False)[0]


def _unet(side: int, widths: tuple[int, ...], attention: int, **options: Any) -> Callable[[], Built]:
    """Returns a builder of a UNet2DModel. The stage with the index `attention` has self-attention."""

    def build() -> Built:
        stages = range(len(widths))
        down = ["AttnDownBlock2D" if i == attention else "DownBlock2D" for i in stages]
        model = diffusers.UNet2DModel(
            side,
            block_out_channels=widths,
            down_block_types=down,
            up_block_types=[name.replace("Down", "Up") for name in reversed(down)],
            **options,
        )
        return Sample(model), (images(side), torch.tensor([7]))

    return build


def _conditioned() -> Built:
    model = diffusers.UNet2DConditionModel(
        8,
        block_out_channels=(16, 32),
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        layers_per_block=1,
        cross_attention_dim=16,
        attention_head_dim=2,
        norm_num_groups=4,
    )
    return Sample(model), (images(8, channels=4), torch.tensor([7]), torch.randn(1, 5, 16))


def _autoencoder() -> Built:
    model = diffusers.AutoencoderKL(
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        block_out_channels=(8, 16),
        norm_num_groups=4,
        sample_size=16,
    )
    return Sample(model), (images(16),)


ENTRIES = [
    Entry("diffusers unet", GENERATIVE, SMALL, _unet(16, (16, 32), 1, layers_per_block=1, norm_num_groups=4)),
    Entry("diffusers unet of text", GENERATIVE, SMALL, _conditioned),
    Entry("diffusers autoencoder", GENERATIVE, SMALL, _autoencoder),
    Entry("ddpm 32x32", GENERATIVE, REAL, _unet(32, (128, 256, 256, 256), 1, attention_head_dim=None)),
]
