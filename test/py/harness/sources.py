"""Lists the attempts of compiling a program with IREE, by default for a CPU with AVX-512."""

from collections.abc import Iterator

from harness.variants import AVX512, named
from tiduc.backends.backend import LOOPS, Options
from tiduc.backends.iree.prepare import Prepared
from tiduc.backends.iree.source import Source
from tiduc.loading import load
from tiduc.program import Program


def source_of(program: Program, target: str = AVX512, lapack: str = LOOPS, fast: bool = True) -> Source:
    """Returns the source of the first attempt of compiling a program that applies to it."""
    return next(sources_of(program, target, lapack, fast))


def sources_of(
    program: Program, target: str = AVX512, lapack: str = LOOPS, fast: bool = True
) -> Iterator[Source]:
    """Yields the sources of the attempts of compiling a program that apply to it, in order."""
    return Prepared(program.lower(), Options(target, lapack, fast=fast)).applicable()


def kernels_in(text: str, target: str = AVX512) -> int:
    """The number of kernels of vectors in a program that is compiled for a target with a named CPU."""
    return str(source_of(load(text), named(target)).stablehlo).count("flow.executable.export")
