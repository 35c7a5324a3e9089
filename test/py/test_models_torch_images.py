"""PyTorch's interpolation of images: outputs and gradients are PyTorch's."""

from typing import Any

import numpy as np
import pytest

import tiduc

torch = pytest.importorskip("torch")
nn = torch.nn

from test_models_torch import against_autograd  # noqa: E402


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize(("mode", "rank"), [("linear", 1), ("bilinear", 2), ("bicubic", 2), ("trilinear", 3)])
def test_interpolated_images(mode: str, rank: int, corners: bool) -> None:
    x = torch.randn(2, 2, *[3, 6, 4][:rank])
    sizes: tuple[dict[str, Any], ...] = (
        {"size": [7, 5, 1][:rank]},
        {"scale_factor": (1.7, 0.6, 2.3)[:rank]},
        {"scale_factor": (1.7, 0.6, 2.3)[:rank], "recompute_scale_factor": True},
    )
    for given in sizes:
        against_autograd(nn.Upsample(mode=mode, align_corners=corners, **given), x)


def test_an_infinite_pixel_affects_only_its_neighbours() -> None:
    x = torch.zeros(1, 1, 4, 4)
    x[..., 0, 0] = -torch.inf
    module = nn.Upsample(scale_factor=2, mode="bilinear")
    y = tiduc.from_torch(module, (x,))(x.numpy())
    assert np.isfinite(y[..., 3:, :]).all() and np.isneginf(y[..., 0, 0]).all()


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_means_of_windows(rank: int) -> None:
    """Adaptive means equal PyTorch's for windows of equal sizes, of at most two elements, and of several elements."""
    pool = getattr(nn, f"AdaptiveAvgPool{rank}d")
    for image, sizes in (((6, 4, 9), (3, 2, 1)), ((3, 5, 4), (7, 4, 4)), ((10, 11, 13), (4, 3, 2))):
        against_autograd(pool(sizes[:rank]), torch.randn(2, 3, *image[:rank]))


def test_an_infinite_pixel_affects_only_its_windows() -> None:
    """The windows of 11 pixels are 0 to 3, 3 to 7 and 7 to 10."""
    x = torch.zeros(1, 1, 11, 11)
    x[..., 3, 9] = torch.inf
    y = tiduc.from_torch(nn.AdaptiveAvgPool2d(3), (x,))(x.numpy())
    expected = np.zeros((1, 1, 3, 3))
    expected[..., :2, 2] = np.inf
    np.testing.assert_array_equal(y, expected)
