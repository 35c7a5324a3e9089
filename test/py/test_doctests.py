"""Each example in a docstring of tiduc gives the result that the docstring shows."""

import doctest
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("backends", "dialect", "passes", "runtime", "tiduc")


def modules_with_examples() -> list[str]:
    """The names of modules with examples in docstrings. Each file is found once, although `tiduc/` links to it too."""
    paths = (path.relative_to(ROOT) for room in ROOMS for path in sorted((ROOT / room).rglob("*.py")))
    names = (path.with_suffix("").parts for path in paths if ">>> " in (ROOT / path).read_text())
    return [".".join(parts if parts[0] == "tiduc" else ("tiduc", *parts)) for parts in names]


@pytest.mark.parametrize("name", modules_with_examples())
def test_examples(name: str) -> None:
    failed, tried = doctest.testmod(import_module(name))
    assert tried and not failed
