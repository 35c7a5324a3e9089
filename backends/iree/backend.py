"""IREE as a backend: StableHLO is prepared for IREE's compiler; `tiduc.runtime` runs the compiled module."""

from tiduc.backends.backend import Backend, Lowered, Options
from tiduc.backends.iree.compile import compile_source
from tiduc.backends.iree.prepare import source_of
from tiduc.runtime.run import Executable


def compile_for_iree(program: Lowered, options: Options) -> Executable:
    """The program compiled by IREE; the executable's `vmfb` holds the bytes of a `.vmfb` file."""
    source = source_of(program, options)
    vmfb = compile_source(source, options.limits, options.cached)
    return Executable(vmfb, options.target, program.name)


BACKEND = Backend("iree", "compile with IREE", compile_for_iree)
