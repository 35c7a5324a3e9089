"""Backends: the engines that compile a lowered program for a target and run it.

    find_backend("iree").compile(Lowered(module, signature, "main"), Options(target="cpu"))(x, y)

To add an engine, add a folder with a module `backend` that defines `BACKEND`. Nothing else lists the engines.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Protocol, TypedDict

from numpy.typing import ArrayLike
from torch_mlir import ir

from tiduc.dialect.errors import RequestError
from tiduc.dialect.ops.ir_types import IrOp
from tiduc.runtime.arrays import Array
from tiduc.runtime.process import Limits
from tiduc.runtime.signature import Signature

ENGINES = tuple(sorted(module.name for module in iter_modules([str(Path(__file__).parent)]) if module.ispkg))
"""The names of the engines, which are those of the folders beside this file."""


@dataclass(frozen=True)
class Lowered:
    """A program as a backend receives it: a module of plain StableHLO.

    The first function of the `ir.Module` `module` is the program. `signature` has the names and types of the
    function's inputs and outputs; `name` is the function's symbol. `others` maps the symbols of further public
    functions to their signatures; only IREE compiles modules that have such functions.
    """

    module: ir.Module | IrOp
    signature: Signature
    name: str
    others: Mapping[str, Signature] = field(default_factory=dict)

    def as_text(self) -> str:
        """Returns the module as text."""
        return str(self.module)


LOOPS, CALLBACK = "loops", "callback"
LAPACK = (LOOPS, CALLBACK)
"""The values of `Options.lapack`. `LOOPS`: matrices are factorized by loops in StableHLO. `CALLBACK`: by calls of
LAPACK on the host."""


@dataclass(frozen=True)
class Options:
    """Options for compiling: the target, the method of matrix factorization, limits on the compiler, and the cache.

    An engine without a compiler process ignores `limits`. An engine without a cache ignores `cached`. With
    `fast=False`, IREE's backend omits rewrites that only make programs faster; other engines ignore `fast`. With
    `finite`, static libraries of scalar ops replace products with a constant zero by zero, and divisions of derivatives
    by products with reciprocals, which is correct only if all numbers and these reciprocals are finite.
    """

    target: str = "cpu"
    lapack: str = LOOPS
    limits: Limits | None = None
    cached: bool = True
    fast: bool = True
    finite: bool = False


class CompileOptions(TypedDict, total=False):
    """Some keyword arguments of `Program.compile`. Each sets the field of `Options` with the same name."""

    lapack: str
    limits: Limits | None
    cached: bool
    fast: bool


class Runnable(Protocol):
    """A compiled program. Calling it with arrays returns a tuple of arrays."""

    @property
    def signature(self) -> Signature: ...

    def __call__(self, *arguments: ArrayLike) -> tuple[Array, ...]: ...


@dataclass(frozen=True)
class Backend:
    """An engine: its name, a phrase that describes it in help texts, and the function that compiles a program.

    `compile` raises `CompileError` if the engine refuses the program, and `RequestError` if the engine lacks the
    target.
    """

    name: str
    description: str
    compile: Callable[[Lowered, Options], Runnable]


def compile_program(program: Lowered, engine: str, options: Options) -> Runnable:
    """Compiles a program with an engine. Raises the errors of `find_backend` and of `Backend.compile`."""
    return find_backend(engine).compile(program, options)


def find_backend(engine: str) -> Backend:
    """Imports and returns the backend of an engine. Raises `RequestError` for an unknown engine."""
    if engine not in ENGINES:
        raise RequestError(f"unknown engine {engine!r}; there are: {', '.join(ENGINES)}")
    backend: Backend = import_module(f"tiduc.backends.{engine}.backend").BACKEND
    return backend
