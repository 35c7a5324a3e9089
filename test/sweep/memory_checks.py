"""The option `--check-memory` of sweeps. It also compares results, bit for bit, with those in plain memory.

An environment variable passes the option on to workers.
"""

import argparse
import os
from collections.abc import Sequence
from typing import Any

from tiduc.backends.backend import Options
from tiduc.backends.iree.memory_check import check_memory
from tiduc.dialect.errors import CompileError, TiducError
from tiduc.program import Program

_VARIABLE = "TIDUC_SWEEP_CHECKS_MEMORY"


def add_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--check-memory", action="store_true", help="compare runs with and without placed arrays"
    )


def pass_on(options: argparse.Namespace) -> None:
    """Passes the option on to workers that are started later."""
    if options.check_memory:
        os.environ[_VARIABLE] = "1"


class MemoryFault(Exception):
    """A program reads memory that it must not read, or overwrites an argument."""


def checks_memory() -> bool:
    """Whether the sweep runs with the option."""
    return _VARIABLE in os.environ


def results_in_checked_memory(program: Program, target: str, arguments: Sequence[Any]) -> Sequence[Any]:
    """The results of a program. Raises `MemoryFault`, or a `CompileError` if IREE refuses the program."""
    try:
        return check_memory(program.lower(), Options(target, cached=False), arguments)
    except CompileError:
        raise
    except TiducError as error:
        raise MemoryFault(str(error)) from error


def memory_fault(program: Program, target: str, arguments: Sequence[Any]) -> str:
    """The fault in a program's use of memory. Empty without a fault, and without the option."""
    if checks_memory():
        try:
            results_in_checked_memory(program, target, arguments)
        except (CompileError, MemoryFault) as error:
            return str(error)
    return ""
