"""Compares slices, concatenations and similar ops with XLA. Without tiduc's rewrites, IREE is wrong or rejects them."""

import numpy as np
import pytest
from cases.iree_programs import CONCATENATED, SLICED, STEPS, VECTORS_FIRST, WINDOWS_OVER_NOTHING
from harness.vulkan import skip_without_device
from harness.xla import by_xla
from numpy.typing import NDArray

from tiduc.loading import load
from tiduc.runtime.signature import DTYPES

ON_CPU = {
    "vectors first": VECTORS_FIRST,
    "a gather of a slice with steps": STEPS,
    "windows over nothing": WINDOWS_OVER_NOTHING,
}
ON_VULKAN = {"slices between fourth elements": SLICED, "arrays put there": CONCATENATED}


def _arguments(text: str) -> list[NDArray[np.generic]]:
    """Arguments of a program. Floats are distinct; integers, which are indices, are small and may be out of range."""
    rng, arguments = np.random.default_rng(0), []
    for value in load(text).signature.inputs:
        shape, dtype = tuple(n or 0 for n in value.type.shape), DTYPES[value.type.element]
        x = rng.integers(-2, 6, shape) if dtype.kind == "i" else rng.permutation(np.arange(np.prod(shape)))
        arguments.append(x.reshape(shape).astype(dtype))
    return arguments


@pytest.mark.parametrize("name", ON_CPU)
def test_values_are_those_of_xla(name: str) -> None:
    text = ON_CPU[name]
    arguments = _arguments(text)
    for got, expected in zip(load(text).compile()(*arguments), by_xla(text, arguments), strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("name", ON_VULKAN)
def test_values_on_vulkan_are_those_of_xla(name: str) -> None:
    skip_without_device("vulkan:llvmpipe")
    text = ON_VULKAN[name]
    main, arguments = load(text).compile("vulkan:llvmpipe"), _arguments(text)
    for i in range(5):
        arguments = [x if x.ndim else np.array(i, x.dtype) for x in arguments]
        for got, expected in zip(main(*arguments), by_xla(text, arguments), strict=True):
            np.testing.assert_array_equal(got, expected)
