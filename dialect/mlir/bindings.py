"""Chooses the package of MLIR's Python bindings: torch_mlir, or the package that `TIDUC_MLIR` names.

tiduc's sources import `torch_mlir`. With `TIDUC_MLIR=mlir`, an import hook loads the modules of the package `mlir`
instead. It first checks that these bindings have the modules and passes that tiduc uses.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from tiduc.dialect.errors import RequestError

VARIABLE, DEFAULT = "TIDUC_MLIR", "torch_mlir"

MODULES = ("ir", "passmanager", "rewrite", "dialects.ext", "dialects.quant", "_mlir_libs._stablehlo")
PASSES = (
    "canonicalize",
    "cse",
    "inline",
    "symbol-dce",
    "func.func(chlo-legalize-to-stablehlo)",
    "func.func(stablehlo-aggressive-simplification)",
    "func.func(stablehlo-canonicalize-dynamism)",
    "func.func(stablehlo-legalize-composite-to-call)",
    "func.func(stablehlo-legalize-deprecated-ops)",
    "func.func(stablehlo-legalize-quantized-op-to-qdq)",
    "stablehlo-compatibility-expander",
    "stablehlo-refine-arguments",
    "stablehlo-refine-shapes",
)
"""The passes of MLIR and StableHLO that tiduc runs, except those that convert models of PyTorch and ONNX."""


def redirect() -> None:
    """Makes imports of `torch_mlir` load the package that `TIDUC_MLIR` names."""
    if _package() != DEFAULT:
        sys.meta_path.insert(0, _Finder(_package()))


def register_passes() -> None:
    """Registers StableHLO's optimization passes, which are in a library of torch-mlir.

    Does nothing if other bindings are chosen and lack this library.
    """
    if _package() == DEFAULT:
        import_module(f"{DEFAULT}._mlir_libs._torchMlir")
    else:
        _has(f"{_package()}._mlir_libs._torchMlir")


def lacking(error: ImportError) -> RequestError | None:
    """Converts the error of an import to a `RequestError` if the package that `TIDUC_MLIR` names lacks the module.

    Returns None for any other failed import. A package may lack optional modules, such as importers of models.
    """
    package = _package()
    if package == DEFAULT or not f"{error.name}.".startswith(f"{package}."):
        return None
    return RequestError(f"{VARIABLE}={package}: {error}")


def _package() -> str:
    return os.environ.get(VARIABLE) or DEFAULT


class _Finder:
    """An import hook that loads the module `package.x` when code imports `torch_mlir.x`."""

    def __init__(self, package: str) -> None:
        self._package = package
        self._checked = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] != DEFAULT:
            return None
        if not self._checked:
            self._checked = True
            _check(self._package)
        loader: Any = self  # no subclass of `Loader`, because importing that class takes milliseconds
        return ModuleSpec(fullname, loader)

    def create_module(self, spec: ModuleSpec) -> None:
        """Returns None, so that Python creates an empty module, which `exec_module` then replaces."""

    def exec_module(self, module: ModuleType) -> None:
        sys.modules[module.__name__] = import_module(self._package + module.__name__.removeprefix(DEFAULT))


def _check(package: str) -> None:
    """Raises `RequestError` if a package of bindings lacks modules or passes. The message lists all missing ones."""
    if not _has(package):
        raise RequestError(f"{VARIABLE}={package}: there is no such package")
    modules = [name for name in MODULES if not _has(f"{package}.{name}")]
    passes = [] if {"ir", "passmanager", "_mlir_libs._stablehlo"} & {*modules} else _missing_passes(package)
    missing = {"modules": modules, "passes": list(passes)}
    if lists := [f"{kind} {', '.join(names)}" for kind, names in missing.items() if names]:
        raise RequestError(f"{VARIABLE}={package}: these bindings lack what tiduc uses: {'; '.join(lists)}")


def _has(module: str) -> bool:
    try:
        import_module(module)
    except ImportError:
        return False
    return True


def _missing_passes(package: str) -> Iterator[str]:
    stablehlo = import_module(f"{package}._mlir_libs._stablehlo")
    parse = import_module(f"{package}.passmanager").PassManager.parse
    stablehlo.register_stablehlo_passes()
    _has(f"{package}._mlir_libs._torchMlir")
    with import_module(f"{package}.ir").Context() as context:
        stablehlo.register_dialect(context)
        for name in PASSES:
            try:
                parse(f"builtin.module({name})")
            except ValueError:
                yield name.removeprefix("func.func(").removesuffix(")")
