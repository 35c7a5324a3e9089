"""Imports point one way: errors < dialect < rules < passes < backends < tiduc; backends may import runtime."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("backends", "dialect", "passes", "runtime", "tiduc")

# A layer, the modules it is, and the layers that it may import; each may import itself. First match wins.
LAYERS = {
    "errors": (("tiduc.dialect.errors", "tiduc.dialect.progress", "tiduc.dialect.reading"), ()),
    "context": (("tiduc.dialect.context",), ("errors", "dialect")),
    "dialect": (("tiduc.dialect",), ("errors", "context")),
    "rules": (("tiduc.passes.rules",), ("errors", "context", "dialect")),
    "batching": (("tiduc.passes.batching",), ("errors", "context", "dialect", "rules")),
    "passes": (("tiduc.passes",), ("errors", "context", "dialect", "rules", "batching")),
    "runtime": (("tiduc.runtime",), ("errors",)),
    "backends": (
        ("tiduc.backends",),
        ("errors", "context", "dialect", "rules", "batching", "passes", "runtime"),
    ),
    "eager": (
        ("tiduc.eager",),
        (
            "errors",
            "context",
            "dialect",
            "rules",
            "batching",
            "passes",
            "backends",
            "runtime",
            "tiduc",
        ),
    ),
    "tiduc": (
        ("tiduc",),
        ("errors", "context", "dialect", "rules", "batching", "passes", "backends", "runtime"),
    ),
}


def layer(module: str) -> str:
    """The layer a module belongs to."""
    return next(
        name
        for name, (roots, _) in LAYERS.items()
        if any(module == root or module.startswith(f"{root}.") for root in roots)
    )


def files() -> dict[str, Path]:
    """Every file of the package, by the name of its module."""
    found = {}
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = list(path.relative_to(ROOT).with_suffix("").parts)
            if parts[0] == "tiduc" and len(parts) > 1 and parts[1] in FOLDERS:
                continue  # reached through a link
            parts = parts if parts[0] == "tiduc" else ["tiduc", *parts]
            found[".".join(parts).removesuffix(".__init__")] = path
    return found


def imports(source: str) -> Iterator[tuple[int, str]]:
    """The modules, and names of modules, that a file imports, at any depth, with their lines."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)


def violations(module: str, source: str) -> list[str]:
    """What a file imports that its layer may not."""
    name = layer(module)
    allowed = {name, *LAYERS[name][1]}
    found = []
    for line, imported in imports(source):
        root = imported.split(".")[0]
        if not root:
            found.append(f"{module}:{line}: a relative import")
        elif root in FOLDERS and root != "tiduc":
            found.append(f"{module}:{line}: {imported} is a second copy of tiduc.{imported}")
        elif root == "tiduc" and layer(imported) not in allowed:
            found.append(f"{module}:{line}: {name} may not import {layer(imported)} ({imported})")
    return found


def test_files_are_found() -> None:
    known = files()
    for module in (
        "tiduc",
        "tiduc.program",
        "tiduc.dialect.view",
        "tiduc.passes.rules.gather",
        "tiduc.runtime.run",
    ):
        assert known[module].is_file()


@pytest.mark.parametrize("module", files())
def test_imports(module: str) -> None:
    assert violations(module, files()[module].read_text()) == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("tiduc.dialect.errors", "from tiduc.dialect import context"),
        ("tiduc.dialect.view", "from tiduc.passes.resolve import resolve"),
        ("tiduc.dialect.view", "import tiduc.program"),
        ("tiduc.passes.rules.gather", "from tiduc.passes import linearize"),
        ("tiduc.passes.rules.gather", "from tiduc.passes.linearize import linearize"),
        ("tiduc.passes.lower.lower", "from tiduc.program import load"),
        ("tiduc.passes.lower.lower", "import tiduc.runtime.run"),
        ("tiduc.passes.lower.lower", "from tiduc.backends.iree import legalize_for_iree"),
        ("tiduc.backends.iree.legalize", "from tiduc.program import load"),
        ("tiduc.runtime.run", "from tiduc.backends.iree import legalize_for_iree"),
        ("tiduc.passes.lower.lower", "def f():\n    if 1:\n        from tiduc.runtime import run"),
        ("tiduc.runtime.run", "from tiduc.dialect.context import context"),
        ("tiduc.runtime.run", "from tiduc.passes.driver.passes import PASSES"),
        ("tiduc.backends.reference.interpreter", "from tiduc.program import Program"),
        ("tiduc.program", "from dialect.view import View"),
        ("tiduc.program", "import passes"),
        ("tiduc.passes.lower.lower", "from . import resolve"),
        ("tiduc.passes.lower.lower", "from .resolve import resolve"),
    ],
)
def test_a_violation_is_seen(module: str, source: str) -> None:
    assert len(violations(module, f"import os\nfrom typing import Any\n{source}\n")) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("tiduc.dialect.context", "from tiduc.dialect.tidu import Tidu"),
        ("tiduc.passes.linearize", "from tiduc.passes.rules.registry import OpSet"),
        ("tiduc.backends.reference.in_process", "from tiduc.dialect.context import parse, stage"),
        ("tiduc.runtime.run", "from tiduc.dialect.errors import InputError"),
        ("tiduc.cli.check", "from tiduc.passes.rules import OPSET\nfrom tiduc.runtime.run import Executable"),
        ("tiduc.program", "import numpy.typing"),
    ],
)
def test_what_is_allowed(module: str, source: str) -> None:
    assert violations(module, source) == []
