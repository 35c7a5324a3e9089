"""Runs commands of tests in forks of a process that has already loaded their libraries."""

import gc
import os
import pkgutil
import subprocess
import sys
import traceback
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import filecheck.main

import tiduc
import tiduc.__main__
import tiduc.cli

_PROGRAM = """func.func @main(%x: tensor<2xf64>, %y: tensor<2xf64>) -> tensor<f64> {
  %zero = stablehlo.constant dense<0.0> : tensor<f64>
  %0 = stablehlo.multiply %x, %y : tensor<2xf64>
  %1 = stablehlo.sine %0 : tensor<2xf64>
  %2 = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [0]
    : (tensor<2xf64>, tensor<f64>) -> tensor<f64>
  return %2 : tensor<f64>
}"""


def prepare() -> None:
    """Loads the modules of all commands, MLIR's dialects, and the rules, which each derivative needs.

    Loading takes longer than the rest of a typical command. MLIR must not start threads here, because forks would lack
    them.
    """
    for module in pkgutil.iter_modules(tiduc.cli.__path__, "tiduc.cli."):
        import_module(module.name)
    program = tiduc.load(_PROGRAM)
    assert program.jvp().text and program.vjp().text
    del program
    gc.collect()
    gc.freeze()  # a collection would write to these objects' memory, which forks share


def run_code() -> int:
    """Runs the code in the first argument as a main program."""
    try:
        exec(compile(sys.argv[1], "<code>", "exec"), {"__name__": "__main__"})
    except Exception:
        traceback.print_exc()
        return 1
    return 0


MAINS = {"filecheck": filecheck.main.main, "forked_python": run_code, "tiduc": tiduc.__main__.main}


class Popen(subprocess.Popen[Any]):
    """A process. Commands of `MAINS` run with this process's libraries, other commands as usual."""

    def __init__(self, args: Sequence[str], **options: Any) -> None:
        if Path(args[0]).name in MAINS:
            # Called in the fork, after it has the streams and the folder of the command.
            options |= {"preexec_fn": partial(_run, args, options["env"]), "restore_signals": False}
        super().__init__(args, **options)


def _run(arguments: Sequence[str], environment: dict[str, str]) -> NoReturn:
    """Runs a command in the process that `Popen` forked, and ends the process."""
    status = 1
    try:
        # `Popen` in the parent process waits until the last of these files is closed, which means that the command
        # runs.
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        status = status_of(arguments, environment)
    finally:
        os._exit(status)


def status_of(arguments: Sequence[str], environment: dict[str, str]) -> int:
    """Runs a command with the standard streams of this process. Returns its exit status."""
    # Python's file objects cache whether they can seek, but a stream may have become a pipe.
    sys.stdin, sys.stdout, sys.stderr = (open(i, mode, closefd=False) for i, mode in enumerate("rww"))
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = list(arguments)
    try:
        code = MAINS[Path(arguments[0]).name]()
    except SystemExit as ending:
        code = ending.code
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    return code if isinstance(code, int) else int(code is not None)
