"""Writes the stubs in this folder: the types of MLIR's bindings, which the wheels of torch-mlir and IREE do not carry.

    pip install nanobind
    python typings/generate.py

`nanobind` generates stubs from the installed binding modules, and mypy's `stubgen` from the modules in Python around
them. Run this script after an update of torch-mlir or of IREE. Only mypy and editors read the stubs; tiduc's wheel has
none.
"""

import re
from importlib import import_module
from pathlib import Path

from mypy import stubgen
from nanobind.stubgen import StubGen

FOLDER = Path(__file__).parent
LIBRARIES = "_mlir_libs"

BINDINGS = {
    "torch_mlir": ("_mlir", "_mlir.ir", "_mlir.passmanager", "_mlir.rewrite", "_stablehlo"),
    "iree.compiler": ("_mlir", "_mlir.ir", "_mlir.passmanager"),
}
"""The binding modules of each package, in LIBRARIES."""

IMPORTS = (
    "from collections.abc import Mapping\nfrom typing import Any, Self\nfrom numpy.typing import NDArray\n"
)
"""The names that CORRECTIONS need, at the top of each stub of a binding module."""

IN_PYTHON = {
    "torch_mlir": ("ir", "passmanager", "rewrite", "_mlir_libs"),
    "iree.compiler": ("ir", "passmanager", "_mlir_libs"),
}
"""The modules in Python of each package that users import."""

NAMESPACES = {"torch_mlir": "torch_mlir", "iree.compiler": "iree"}
"""The innermost folder of each package without a file `__init__.py`, below which `stubgen` writes."""

CORRECTIONS = (
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
    (r"(def (?:element_type|value|get_splat_value)\(self\)) -> (?:Type|Attribute):", r"\1 -> Any:"),
    (r"(def __getitem__\(self, .*\)) -> Attribute:", r"\1 -> Any:"),
    (r"(def __iter__\(self\) -> Iterator)\[Attribute\]:", r"\1[Any]:"),
)
"""Regular expressions, and what replaces them: signatures that are narrower or wider than the bindings are.

An element type, the value of an attribute and an entry of a mapping have the class of what they hold, such as
`IntegerType`. Only the program knows which, so their type is Any.
"""


def from_bindings(package: str, name: str) -> None:
    """Writes the stub of a binding module, in which bare names of modules become whole ones."""
    module = import_module(f"{package}.{LIBRARIES}.{name}")
    path = FOLDER.joinpath(*module.__name__.split("."))
    path = path / "__init__.pyi" if name == "_mlir" else path.with_suffix(".pyi")
    path.parent.mkdir(parents=True, exist_ok=True)
    generator = StubGen(module, include_docstrings=False, include_private=True)
    generator.put(module)
    stub = re.sub(r"(?<![\w.])_mlir\.ir\b", f"{package}.{LIBRARIES}._mlir.ir", generator.get())
    for pattern, replacement in CORRECTIONS:
        stub = re.sub(pattern, replacement, stub)
    path.write_text(f"{IMPORTS}{stub}")


def from_python(package: str, name: str) -> None:
    """Writes the stub of a module in Python."""
    module = import_module(f"{package}.{name}")
    assert module.__file__ is not None, name
    stubgen.main(["--quiet", "--output", str(FOLDER / NAMESPACES[package]), module.__file__])


def main() -> None:
    """Writes every stub."""
    for package, names in BINDINGS.items():
        bindings = import_module(f"{package}.{LIBRARIES}._mlir.ir")
        bindings.Context, replaced = (
            bindings._Context,
            bindings.Context,
        )  # a function made the class that replaces it
        del bindings._Context
        for name in names:
            from_bindings(package, name)
        bindings.Context, bindings._Context = replaced, bindings.Context
        for name in IN_PYTHON[package]:
            from_python(package, name)


if __name__ == "__main__":
    main()
