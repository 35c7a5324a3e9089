"""Rewrites of convolutions for speed without their lower limits, so that small convolutions test them."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from tiduc.backends.iree.fast import convolutions_to_products as convolution
from tiduc.backends.iree.fast import large_kernels


@contextmanager
def of_any_size() -> Iterator[None]:
    """Rewrites convolutions of any size, and takes any kernel for a large one."""
    limits = {"_WORK": 0, "_WORK_POINTWISE": 0, "_WORK_DEPTHWISE": 0, "_WORK_DILATED": 0}
    with patch.multiple(convolution, **limits), patch.multiple(large_kernels, _LARGE=0, _RATIO=0):
        yield
