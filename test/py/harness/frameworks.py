"""Adds marks to the tests that require PyTorch or a software device of Vulkan. The fast tests skip them.

Such a test, or its module or fixtures, calls `importorskip("torch")`, or calls `skip_without_device` with a target for
Vulkan. The marks are derived from these calls.
"""

import inspect
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

import pytest

DEVICE = "vulkan:llvmpipe"
"""The target of Vulkan's software device."""


def mark_torch(items: Sequence[Any]) -> None:
    """Adds the mark `torch` to each test that requires PyTorch."""
    for item in items:
        if isinstance(getattr(item.module, "torch", None), ModuleType) or any(map(_calls, _functions(item))):
            item.add_marker(pytest.mark.torch)


def mark_vulkan(items: Sequence[Any]) -> None:
    """Adds the mark `more` to each test that runs programs on Vulkan's software device, unless it is slow."""
    for item in items:
        if item.get_closest_marker("slow") is None and any(
            _runs_on_vulkan(each, item) for each in _functions(item)
        ):
            item.add_marker(pytest.mark.more)


def _runs_on_vulkan(function: Any, item: Any) -> bool:
    """Returns whether a function calls `skip_without_device` for a Vulkan device.

    The device is a constant in the function or a parameter of the test. It may also be the name of a test case of a
    fault on Vulkan, which begins with `vulkan/`.
    """
    code = inspect.unwrap(function).__code__
    if "skip_without_device" not in code.co_names:
        return False
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return DEVICE in code.co_consts or any(
        isinstance(each, str) and each.startswith((DEVICE, "vulkan/")) for each in parameters
    )


def _functions(item: Any) -> Iterator[Any]:
    """Yields the functions of a test and of its fixtures."""
    yield item.function
    for definitions in item._fixtureinfo.name2fixturedefs.values():
        yield from (each.func for each in definitions)


def _calls(function: Any) -> bool:
    code = inspect.unwrap(function).__code__
    return "importorskip" in code.co_names and "torch" in code.co_consts
