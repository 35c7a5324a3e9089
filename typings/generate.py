"""Writes the stubs in this folder: the types of MLIR's bindings, which the wheel of torch-mlir does not carry.

    pip install nanobind
    python typings/generate.py

`nanobind` generates stubs from the installed binding modules, and mypy's `stubgen` from the modules in Python around
them. Run this script after an update of torch-mlir. Only mypy and editors read the stubs; tiduc's wheel has none.
"""

import re
from importlib import import_module
from pathlib import Path

from mypy import stubgen
from nanobind.stubgen import StubGen
from torch_mlir import ir

FOLDER = Path(__file__).parent
LIBRARIES = "torch_mlir._mlir_libs"

BINDINGS = ("_mlir", "_mlir.ir", "_mlir.passmanager", "_mlir.rewrite", "_stablehlo")
"""The binding modules, in LIBRARIES."""

IMPORTS = (
    "from collections.abc import Mapping\nfrom typing import Any, Self\nfrom numpy.typing import NDArray\n"
)
"""The names that CORRECTIONS need, at the top of each stub of a binding module."""

IN_PYTHON = ("ir", "passmanager", "rewrite", "_mlir_libs")
"""The modules in Python that users import, in `torch_mlir`."""

CORRECTIONS = (
    (r"(?<![\w.])_mlir\.ir\b", f"{LIBRARIES}._mlir.ir"),  # a bare name of a module
    (r"\b(attributes|value): dict\[", r"\1: Mapping["),  # any mapping is converted
    (
        r": Buffer\b",
        ": Buffer | NDArray[Any]",
    ),  # before Python 3.12, NumPy's types do not say that arrays are buffers
    (  # Python iterates over what has numbered items
        r"(?<!@overload\n)    def __getitem__\(self, arg: int, /\) -> (\w+): \.\.\.",
        r"\g<0>\n\n    def __iter__(self) -> Iterator[\1]: ...",
    ),
    (r"class DictAttr\(.*", r"\g<0>\n    def __iter__(self) -> Iterator[NamedAttribute]: ..."),
    (r"(def get\(cls, .*) -> object:", r"\1 -> Self:"),
    (r"(def (?:element_type|value)\(self\)) -> (?:Type|Attribute):", r"\1 -> Any:"),
    (r"(def __getitem__\(self, .*\)) -> Attribute:", r"\1 -> Any:"),
    (r"(def __iter__\(self\) -> Iterator)\[Attribute\]:", r"\1[Any]:"),
)
"""Regular expressions, and what replaces them: signatures that are narrower or wider than the bindings are.

An element type, the value of an attribute and an entry of a mapping have the class of what they hold, such as
`IntegerType`. Only the program knows which, so their type is Any.
"""


def from_bindings(name: str) -> None:
    """Writes the stub of a binding module, in which bare names of modules become whole ones."""
    module = import_module(f"{LIBRARIES}.{name}")
    path = FOLDER.joinpath(*module.__name__.split("."))
    path = path / "__init__.pyi" if name == "_mlir" else path.with_suffix(".pyi")
    path.parent.mkdir(parents=True, exist_ok=True)
    generator = StubGen(module, include_docstrings=False, include_private=True)
    generator.put(module)
    stub = generator.get()
    for pattern, replacement in CORRECTIONS:
        stub = re.sub(pattern, replacement, stub)
    path.write_text(f"{IMPORTS}{stub}")


def from_python(name: str) -> None:
    """Writes the stub of a module in Python."""
    module = import_module(f"torch_mlir.{name}")
    assert module.__file__ is not None, name
    stubgen.main(["--quiet", "--output", str(FOLDER / "torch_mlir"), module.__file__])


def main() -> None:
    """Writes every stub."""
    bindings = import_module(f"{LIBRARIES}._mlir.ir")
    bindings.Context, replaced = bindings._Context, ir.Context  # a function made the class that replaces it
    del bindings._Context
    for name in BINDINGS:
        from_bindings(name)
    bindings.Context, bindings._Context = replaced, bindings.Context
    for name in IN_PYTHON:
        from_python(name)


if __name__ == "__main__":
    main()
