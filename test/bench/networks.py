"""Networks, written in PyTorch, with the sizes of published models and random weights."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from attention import LSTM, Text, ViT
from torch import nn
from torch.nn import functional


class Network(NamedTuple):
    """A network. `make` creates its module, and `training` states whether it is in training mode.

    `shape` is the shape of the input: images with channels first or, if `vocabulary` is not 0, tokens.
    """

    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    training: bool = False
    vocabulary: int = 0


class Loss(nn.Module):
    """A module that computes the mean of the squares of a network's results."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Any) -> Any:
        return self.network(x).square().mean()


def convolved(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Conv2d:
    """Returns a convolution without bias, padded so that it divides the size of images by the stride."""
    return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)


# ---- ResNet --------------------------------------------------------------------------------------------------------


class Basic(nn.Module):
    """The block of ResNet with two convolutions."""

    expansion = 1

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.norm1 = convolved(inputs, width, 3, stride), nn.BatchNorm2d(width)
        self.conv2, self.norm2 = convolved(width, width, 3), nn.BatchNorm2d(width)
        self.shortcut = shortcut(inputs, width, stride)

    def forward(self, x: Any) -> Any:
        y = functional.relu(self.norm1(self.conv1(x)))
        return functional.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


class Bottleneck(nn.Module):
    """The block of ResNet with three convolutions, of which the middle one has fewer channels."""

    expansion = 4

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.norm1 = convolved(inputs, width, 1), nn.BatchNorm2d(width)
        self.conv2, self.norm2 = convolved(width, width, 3, stride), nn.BatchNorm2d(width)
        self.conv3, self.norm3 = convolved(width, 4 * width, 1), nn.BatchNorm2d(4 * width)
        self.shortcut = shortcut(inputs, 4 * width, stride)

    def forward(self, x: Any) -> Any:
        y = functional.relu(self.norm1(self.conv1(x)))
        y = functional.relu(self.norm2(self.conv2(y)))
        return functional.relu(self.norm3(self.conv3(y)) + self.shortcut(x))


def shortcut(inputs: int, outputs: int, stride: int) -> nn.Module:
    """Returns the shortcut of a block: the identity, or a 1x1 convolution if the block changes sizes."""
    if inputs == outputs and stride == 1:
        return nn.Identity()
    return nn.Sequential(convolved(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))


def resnet(block: Any, counts: tuple[int, ...]) -> nn.Module:
    """Returns a ResNet for 1000 classes. `counts` are the numbers of blocks in its stages."""
    parts: list[nn.Module] = [convolved(3, 64, 7, 2), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for stage, count in enumerate(counts):
        for i in range(count):
            parts.append(block(inputs, 64 * 2**stage, 2 if stage and not i else 1))
            inputs = 64 * 2**stage * block.expansion
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000))


# ---- MobileNet and EfficientNet ------------------------------------------------------------------------------------


class Squeeze(nn.Module):
    """Squeeze and excitation: multiplies each channel by a factor that depends on the means of all channels."""

    def __init__(self, channels: int, width: int, gate: type[nn.Module], act: type[nn.Module]) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(channels, width, 1), nn.Conv2d(width, channels, 1)
        self.act, self.gate = act(), gate()

    def forward(self, x: Any) -> Any:
        mean = functional.adaptive_avg_pool2d(x, 1)
        return x * self.gate(self.second(self.act(self.first(mean))))


class Inverted(nn.Module):
    """The block of MobileNet and EfficientNet: expansion, depthwise convolution, squeeze and excitation, projection."""

    def __init__(
        self, inputs: int, width: int, outputs: int, kernel: int, stride: int, act: Any, squeeze: Any
    ) -> None:
        super().__init__()
        parts: list[nn.Module] = []
        if width != inputs:
            parts += [convolved(inputs, width, 1), nn.BatchNorm2d(width), act()]
        parts += [convolved(width, width, kernel, stride, width), nn.BatchNorm2d(width), act()]
        parts += [squeeze] if squeeze is not None else []
        self.body = nn.Sequential(*parts, convolved(width, outputs, 1), nn.BatchNorm2d(outputs))
        self.adds = stride == 1 and inputs == outputs

    def forward(self, x: Any) -> Any:
        return x + self.body(x) if self.adds else self.body(x)


_MOBILE = (
    (16, 16, 16, 3, 2, True, False), (16, 72, 24, 3, 2, False, False), (24, 88, 24, 3, 1, False, False),
    (24, 96, 40, 5, 2, True, True), (40, 240, 40, 5, 1, True, True), (40, 240, 40, 5, 1, True, True),
    (40, 120, 48, 5, 1, True, True), (48, 144, 48, 5, 1, True, True), (48, 288, 96, 5, 2, True, True),
    (96, 576, 96, 5, 1, True, True), (96, 576, 96, 5, 1, True, True),
)  # fmt: skip


def mobilenet() -> nn.Module:
    """Returns the small MobileNetV3 for 1,000 classes."""
    parts: list[nn.Module] = [convolved(3, 16, 3, 2), nn.BatchNorm2d(16), nn.Hardswish()]
    for inputs, width, outputs, kernel, stride, squeezes, hard in _MOBILE:
        squeeze = Squeeze(width, -(-width // 32) * 8, nn.Hardsigmoid, nn.ReLU) if squeezes else None
        act = nn.Hardswish if hard else nn.ReLU
        parts.append(Inverted(inputs, width, outputs, kernel, stride, act, squeeze))
    parts += [convolved(96, 576, 1), nn.BatchNorm2d(576), nn.Hardswish(), nn.AdaptiveAvgPool2d(1)]
    return nn.Sequential(*parts, nn.Flatten(), nn.Linear(576, 1024), nn.Hardswish(), nn.Linear(1024, 1000))


_EFFICIENT = (
    (32, 1, 16, 3, 1), (16, 6, 24, 3, 2), (24, 6, 24, 3, 1), (24, 6, 40, 5, 2), (40, 6, 40, 5, 1),
    (40, 6, 80, 3, 2), (80, 6, 80, 3, 1), (80, 6, 112, 5, 1), (112, 6, 192, 5, 2), (192, 6, 320, 3, 1),
)  # fmt: skip


def efficientnet() -> nn.Module:
    """Returns the first convolution of EfficientNet-B0, followed by one block of each different size."""
    parts: list[nn.Module] = [convolved(3, 32, 3, 2), nn.BatchNorm2d(32), nn.SiLU()]
    for inputs, factor, outputs, kernel, stride in _EFFICIENT:
        width = inputs * factor
        squeeze = Squeeze(width, inputs // 4, nn.Sigmoid, nn.SiLU)
        parts.append(Inverted(inputs, width, outputs, kernel, stride, nn.SiLU, squeeze))
    return nn.Sequential(*parts)


# ---- ConvNeXt ------------------------------------------------------------------------------------------------------


class Next(nn.Module):
    """The block of ConvNeXt: a depthwise 7x7 convolution, then two linear layers that are applied to each pixel."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width)
        self.first, self.second = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.scale = nn.Parameter(torch.full((width,), 0.1))

    def forward(self, x: Any) -> Any:
        y = self.norm(self.conv(x).permute(0, 2, 3, 1))
        y = self.scale * self.second(functional.gelu(self.first(y)))
        return x + y.permute(0, 3, 1, 2)


def convnext() -> nn.Module:
    """Returns two blocks of ConvNeXt, each after a convolution that reduces the image."""
    return nn.Sequential(nn.Conv2d(3, 96, 4, 4), Next(96), nn.Conv2d(96, 192, 2, 2), Next(192))


# ---- UNet ----------------------------------------------------------------------------------------------------------


class Twice(nn.Module):
    """Two convolutions, each followed by group normalization and SiLU."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        parts: list[nn.Module] = []
        for n in (inputs, outputs):
            parts += [nn.Conv2d(n, outputs, 3, padding=1), nn.GroupNorm(8, outputs), nn.SiLU()]
        self.body = nn.Sequential(*parts)

    def forward(self, x: Any) -> Any:
        return self.body(x)


class UNet(nn.Module):
    """A UNet that enlarges images by transposed convolutions."""

    def __init__(self, widths: tuple[int, ...] = (32, 64, 128)) -> None:
        super().__init__()
        pairs = list(zip(widths, widths[1:], strict=False))
        self.first = Twice(3, widths[0])
        self.down = nn.ModuleList(Twice(a, b) for a, b in pairs)
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in reversed(pairs))
        self.after = nn.ModuleList(Twice(2 * a, a) for a, _ in reversed(pairs))
        self.last = nn.Conv2d(widths[0], 3, 1)

    def forward(self, x: Any) -> Any:
        levels = [self.first(x)]
        for down in self.down:
            levels.append(down(functional.max_pool2d(levels[-1], 2)))
        y = levels.pop()
        for up, after in zip(self.up, self.after, strict=True):
            y = after(torch.cat([levels.pop(), up(y)], 1))
        return self.last(y)


NETWORKS = {
    "resnet18": Network(lambda: resnet(Basic, (2, 2, 2, 2)), (1, 3, 224, 224)),
    "resnet18 train": Network(lambda: resnet(Basic, (2, 2, 2, 2)), (4, 3, 64, 64), training=True),
    "resnet50": Network(lambda: resnet(Bottleneck, (3, 4, 6, 3)), (1, 3, 224, 224)),
    "mobilenet": Network(mobilenet, (1, 3, 224, 224)),
    "efficientnet": Network(efficientnet, (1, 3, 112, 112)),
    "convnext": Network(convnext, (1, 3, 112, 112)),
    "unet": Network(UNet, (1, 3, 64, 64)),
    "vit": Network(ViT, (1, 3, 224, 224)),
    "gpt2": Network(lambda: Text(50257, True), (1, 128), vocabulary=50257),
    "bert": Network(lambda: Text(30522, False), (1, 128), vocabulary=30522),
    "lstm": Network(LSTM, (4, 32), vocabulary=1000),
}
"""Maps the names of networks to networks."""


def made(name: str) -> tuple[nn.Module, Any]:
    """Returns the module that computes the loss of a network, and a random input of the network."""
    torch.manual_seed(0)
    network = NETWORKS[name]
    module = Loss(network.make()).train(network.training)
    for part in module.modules() if network.training else ():
        if isinstance(part, nn.BatchNorm2d):  # the module would also return updated running statistics
            part.track_running_stats, part.running_mean, part.running_var = False, None, None
            part.num_batches_tracked = None
    if network.vocabulary:
        return module, torch.randint(network.vocabulary, network.shape)
    return module, torch.randn(network.shape)
