"""Marks the tests that need PyTorch, which the second ring installs: those that call `importorskip("torch")`.

The call may be in the test's module, in the test, or in a fixture that the test uses. Marks set by hand would duplicate
these calls.
"""

import inspect
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

import pytest


def mark_torch(items: Sequence[Any]) -> None:
    """Marks each test `torch` that needs PyTorch."""
    for item in items:
        if isinstance(getattr(item.module, "torch", None), ModuleType) or any(map(_calls, _functions(item))):
            item.add_marker(pytest.mark.torch)


def _functions(item: Any) -> Iterator[Any]:
    """The function of a test, and those of its fixtures."""
    yield item.function
    for definitions in item._fixtureinfo.name2fixturedefs.values():
        yield from (each.func for each in definitions)


def _calls(function: Any) -> bool:
    code = inspect.unwrap(function).__code__
    return "importorskip" in code.co_names and "torch" in code.co_consts
