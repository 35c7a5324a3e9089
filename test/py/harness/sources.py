"""The sources of the attempts to compile a program with IREE, by default for a CPU with AVX-512 (`variants.py`)."""

from collections.abc import Iterator

from harness.variants import AVX512
from tiduc.backends.backend import LOOPS, Options
from tiduc.backends.iree.prepare import Prepared
from tiduc.backends.iree.source import Source
from tiduc.program import Program


def source_of(program: Program, target: str = AVX512, lapack: str = LOOPS, fast: bool = True) -> Source:
    """The source of the first applicable attempt to compile a program."""
    return next(sources_of(program, target, lapack, fast))


def sources_of(
    program: Program, target: str = AVX512, lapack: str = LOOPS, fast: bool = True
) -> Iterator[Source]:
    """The sources of the applicable attempts to compile a program, in order."""
    return Prepared(program.lower(), Options(target, lapack, fast=fast)).applicable()
