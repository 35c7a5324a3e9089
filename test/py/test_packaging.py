"""The package contains all files of the source tree, and no file or function is too long."""

import ast
import os
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINKS = ("backends", "dialect", "passes", "runtime")
SETUPTOOLS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
LONGEST_FILE, LONGEST_FUNCTION = 400, 60


def packages() -> set[str]:
    """The names of all packages. A package is a folder with an `__init__.py`."""
    listed = set()
    for top in ("tiduc", *LINKS):
        for folder, subfolders, names in os.walk(ROOT / top):  # does not follow links
            subfolders[:] = [name for name in subfolders if name != "__pycache__"]
            if "__init__.py" in names:
                parts = Path(folder).relative_to(ROOT).parts
                listed.add(".".join(parts if top == "tiduc" else ("tiduc", *parts)))
    return listed


def sources() -> list[Path]:
    paths = []
    for top in ("tiduc", *LINKS, "test", "examples"):
        for folder, subfolders, names in os.walk(ROOT / top):
            subfolders[:] = [name for name in subfolders if name not in ("__pycache__", "Output")]
            paths += [Path(folder) / name for name in names if name.endswith(".py")]
    return sorted(paths)


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_packages_are_listed() -> None:
    assert set(SETUPTOOLS["packages"]) == packages()
    assert len(SETUPTOOLS["packages"]) == len(packages())


def test_package_directories() -> None:
    directories = SETUPTOOLS["package-dir"]
    for package in packages():
        top = ".".join(package.split(".")[:2])
        folder = Path(directories.get(top, directories["tiduc"] + "/" + "/".join(top.split(".")[1:])))
        assert (ROOT / folder / Path(*package.split(".")[2:]) / "__init__.py").is_file(), package


@pytest.mark.parametrize("name", LINKS)
def test_links(name: str) -> None:
    link = ROOT / "tiduc" / name
    assert link.is_symlink() and os.readlink(link) == f"../{name}"


def test_typed() -> None:
    assert SETUPTOOLS["package-data"]["tiduc"] == ["py.typed"]
    assert (ROOT / "tiduc" / "py.typed").is_file()


def test_data_is_listed() -> None:
    """The patterns of package data match all files that are not Python modules. Otherwise, wheels would lack files."""
    listed = {
        path
        for package, patterns in SETUPTOOLS["package-data"].items()
        for pattern in patterns
        for path in (ROOT / package.replace(".", "/")).glob(pattern)
    }
    folders = [ROOT / "tiduc", *(ROOT / "tiduc" / link for link in LINKS)]  # rglob does not follow links
    held = {
        path
        for folder in folders
        for path in folder.rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc")
    }
    assert held == listed


def test_every_folder_of_python_is_a_package() -> None:
    for path in sources():
        if path.relative_to(ROOT).parts[0] in ("tiduc", *LINKS):
            assert (path.parent / "__init__.py").is_file(), relative(path)


def test_the_architecture_page_names_each_room() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    rooms = {path.parent for path in sources() if path.relative_to(ROOT).parts[0] in ("tiduc", *LINKS)}
    assert [relative(room) for room in sorted(rooms - {ROOT / "tiduc"}) if f"{room.name}/" not in page] == []


def test_length_of_files() -> None:
    lengths = {relative(path): len(path.read_text().splitlines()) for path in sources()}
    too_long = {name: length for name, length in lengths.items() if length > LONGEST_FILE}
    assert too_long == {}, "split these files by subject"


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """All statements in a syntax tree, and other nodes that may contain statements.

    `ast.walk` would visit ten times as many nodes.
    """
    for node in ast.iter_child_nodes(tree):
        if not isinstance(node, ast.expr):
            yield node
            yield from statements(node)


def test_functions_are_short_and_files_have_docstrings() -> None:
    long, bare = [], []
    for path in sources():
        tree = ast.parse(path.read_text())
        if not ast.get_docstring(tree):
            bare.append(relative(path))
        for node in statements(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
                if node.end_lineno - node.lineno >= LONGEST_FUNCTION:
                    long.append(f"{relative(path)}:{node.lineno}: {node.name}")
    assert long == [], f"functions of more than {LONGEST_FUNCTION} lines"
    assert bare == [], "a file begins with a docstring that says what the file holds"
