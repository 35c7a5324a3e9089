"""Commands of tests that run in forks of a process that has loaded their libraries."""

import os
import subprocess
import sys
import traceback
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import filecheck.main

import tiduc.__main__


def run_code() -> int:
    """Runs the code in the first argument as a program of its own."""
    try:
        exec(compile(sys.argv[1], "<code>", "exec"), {"__name__": "__main__"})
    except Exception:
        traceback.print_exc()
        return 1
    return 0


MAINS = {"filecheck": filecheck.main.main, "forked_python": run_code, "tiduc": tiduc.__main__.main}


class Popen(subprocess.Popen[Any]):
    """A process that runs a command of `MAINS` in this process's libraries, and other commands as usual."""

    def __init__(self, args: Sequence[str], **options: Any) -> None:
        if Path(args[0]).name in MAINS:
            # Called in the fork, which has the streams and the folder of the command by then.
            options |= {"preexec_fn": partial(_run, args, options["env"]), "restore_signals": False}
        super().__init__(args, **options)


def _run(arguments: Sequence[str], environment: dict[str, str]) -> NoReturn:
    """Runs a command in the process that `Popen` forked, and ends the process."""
    status = 1
    try:
        # The last of these files tells the process of `Popen`, which waits, that the command runs.
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        status = status_of(arguments, environment)
    finally:
        os._exit(status)


def status_of(arguments: Sequence[str], environment: dict[str, str]) -> int:
    """Runs a command with the standard streams of this process, and gives its exit status."""
    # Files of Python remember whether they can seek: a file may have become a pipe.
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
