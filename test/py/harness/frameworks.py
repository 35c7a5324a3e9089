"""Marks the tests that need PyTorch or Vulkan's software device, which only the second ring installs.

Such a test, its module or its fixtures call `importorskip("torch")`, or `skip_without_device` with a target for Vulkan.
The marks are derived from these calls, so that no test needs marks by hand.
"""

import inspect
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

import pytest

DEVICE = "vulkan:llvmpipe"
"""The target of Vulkan's software device. Names of witnesses of faults on Vulkan begin with `vulkan/`."""


def mark_torch(items: Sequence[Any]) -> None:
    """Marks each test that needs PyTorch with `torch`."""
    for item in items:
        if isinstance(getattr(item.module, "torch", None), ModuleType) or any(map(_calls, _functions(item))):
            item.add_marker(pytest.mark.torch)


def mark_vulkan(items: Sequence[Any]) -> None:
    """Marks each test that runs programs on Vulkan's software device with `more`, unless the test is slow."""
    for item in items:
        if item.get_closest_marker("slow") is None and any(
            _runs_on_vulkan(each, item) for each in _functions(item)
        ):
            item.add_marker(pytest.mark.more)


def _runs_on_vulkan(function: Any, item: Any) -> bool:
    """Whether a function calls `skip_without_device`, and names a Vulkan device or gets one as a parameter."""
    code = inspect.unwrap(function).__code__
    if "skip_without_device" not in code.co_names:
        return False
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return DEVICE in code.co_consts or any(
        isinstance(each, str) and each.startswith((DEVICE, "vulkan/")) for each in parameters
    )


def _functions(item: Any) -> Iterator[Any]:
    """The functions of a test and of its fixtures."""
    yield item.function
    for definitions in item._fixtureinfo.name2fixturedefs.values():
        yield from (each.func for each in definitions)


def _calls(function: Any) -> bool:
    code = inspect.unwrap(function).__code__
    return "importorskip" in code.co_names and "torch" in code.co_consts
