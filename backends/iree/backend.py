"""IREE as a backend: prepares StableHLO for IREE's compiler; `tiduc.runtime` runs the compiled module."""

from tiduc.backends.backend import Backend, Lowered, Options
from tiduc.backends.iree.build import build
from tiduc.runtime.run import Executable


def compile_for_iree(program: Lowered, options: Options) -> Executable:
    """Compiles a program with IREE. The `vmfb` of the returned executable holds the bytes of a `.vmfb` file."""
    return Executable(build(program, options), options.target, program.name)


BACKEND = Backend("iree", "compile with IREE", compile_for_iree)
