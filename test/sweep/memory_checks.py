"""The option `--check-memory` of sweeps. With it, a sweep checks how programs use memory (`check_memory`).

An environment variable passes the option on to worker processes.
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
        "--check-memory", action="store_true", help="check that programs read and write only their own memory"
    )


def pass_on(options: argparse.Namespace) -> None:
    """Passes the option on to the worker processes that are started later."""
    if options.check_memory:
        os.environ[_VARIABLE] = "1"


class MemoryFault(Exception):
    """Raised if a program reads memory that it must not read, or overwrites an argument."""


def checks_memory() -> bool:
    """Returns whether the sweep runs with the option `--check-memory`."""
    return _VARIABLE in os.environ


def results_in_checked_memory(program: Program, target: str, arguments: Sequence[Any]) -> Sequence[Any]:
    """Runs a program with `check_memory` and returns its results.

    Raises `MemoryFault` if the check fails, and `CompileError` if IREE cannot compile the program.
    """
    try:
        return check_memory(program.lower(), Options(target, cached=False), arguments)
    except CompileError:
        raise
    except TiducError as error:
        raise MemoryFault(str(error)) from error


def memory_fault(program: Program, target: str, arguments: Sequence[Any]) -> str:
    """Returns the error that `check_memory` finds in a program.

    Returns "" if there is none, or without `--check-memory`.
    """
    if checks_memory():
        try:
            results_in_checked_memory(program, target, arguments)
        except (CompileError, MemoryFault) as error:
            return str(error)
    return ""
