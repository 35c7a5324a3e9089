"""build: the compiled module of a program, for every caller."""

from tiduc.backends.backend import Lowered, Options
from tiduc.backends.iree.compile import compile_source
from tiduc.backends.iree.prepare import source_of


def build(program: Lowered, options: Options) -> bytes:
    """The compiled module of a program: the bytes of a `.vmfb` file.

    Raises `CompileError` if the target lacks an element type, or if IREE's compiler refuses the program; `Unsupported`
    for an op that IREE cannot run.
    """
    return compile_source(source_of(program, options), options.limits, options.cached)
