"""Removes the lower size limits of rewrites of convolutions, so that small convolutions test the rewrites."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from tiduc.backends.iree.fast.convolutions import convolutions_to_kernels as convolution


@contextmanager
def of_any_size() -> Iterator[None]:
    """A context in which convolutions of any size are rewritten, even if IREE's own code is as fast."""
    limits = {"_WORK": 0, "_WORK_POINTWISE": 0, "_WORK_DEPTHWISE": 0, "_WORK_DILATED": 0}
    with patch.multiple(convolution, **limits), patch.object(convolution, "_is_fast", lambda *_: False):
        yield
