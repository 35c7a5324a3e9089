"""Applies the rewrites of convolutions to convolutions of any size, so that tests can use small ones."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from tiduc.backends.iree.fast.convolutions import convolutions_to_kernels as convolution


@contextmanager
def of_any_size() -> Iterator[None]:
    """Enters a context in which convolutions are rewritten at any size, even if IREE's own code is as fast."""
    limits = {"_WORK": 0, "_WORK_POINTWISE": 0, "_WORK_DILATED": 0}
    with patch.multiple(convolution, **limits), patch.object(convolution, "_is_fast", lambda *_: False):
        yield
