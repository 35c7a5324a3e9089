"""The command line: turns arguments into calls of the stages, and errors into diagnostics in MLIR's form.

`COMMANDS` names the module of each command; a module holds the commands of one group, and the options that only these
commands have. Options that several groups share are in derivatives.py, models.py, files.py and execution.py. A command
only reads its arguments and calls `Program` or a function of `tiduc/`; the work itself belongs there.
"""

import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from typing import NoReturn

import click

from tiduc.cli.advice import advised
from tiduc.cli.colours import COLOR
from tiduc.cli.diagnostics import report
from tiduc.cli.manual import EPILOG, epilog
from tiduc.cli.memory import MEMORY_LIMIT, no_memory
from tiduc.cli.options import SharedOptions, keep, shared_options
from tiduc.cli.stored_help import stored_help
from tiduc.dialect import progress
from tiduc.dialect.errors import TiducError, out_of_memory
from tiduc.dialect.mlir.bindings import lacking

# Maps each command to its module. A module is imported only when its command runs, so that `tiduc --help` is fast.
COMMANDS: dict[str, dict[str, tuple[str, str]]] = {
    "Differentiate": {
        "jvp": (
            "derivatives",
            "Directional derivatives: tangents of the outputs from tangents of the inputs.",
        ),
        "vjp": (
            "derivatives",
            "Adjoint derivatives: cotangents of the inputs from cotangents of the outputs.",
        ),
        "grad": ("derivatives", "The gradient of a program with one scalar output."),
        "hvp": ("derivatives", "The Hessian of a program with one scalar output, times a tangent."),
        "split": (
            "splitting",
            "The VJP as two programs, forward and backward, and the residuals between them.",
        ),
        "train-step": ("training", "Compile a training step: loss, gradient and update in one module."),
        "train": ("train", "Train by a compiled step: epochs, validation, checkpoints."),
        "export": ("export", "Write trained weights to a file of the model."),
        "lora": ("lora", "Write trained LoRA adapters, or add them to the weights."),
        "jacobian": ("jacobians", "Full Jacobians of each output with respect to each input."),
        "hessian": ("jacobians", "Full Hessians of each output with respect to each pair of inputs."),
        "laplacian": ("jacobians", "The Laplacian of each output: the trace of its Hessian."),
        "lagrangian": ("optimization", "The sum of the outputs times multipliers, to be differentiated."),
        "gauss-newton": (
            "optimization",
            "Gauss-Newton matrices of residuals, or their products with tangents.",
        ),
        "second-directional": ("optimization", "Second derivatives of the outputs along two tangents."),
        "jet": ("orders", "Taylor coefficients, or derivatives in one variable, of any order."),
        "batch": ("batching", "A program for many values of some inputs at once (vmap)."),
    },
    "Import models": {
        "import": ("importing", "Convert a model of PyTorch, ONNX or JAX to StableHLO."),
    },
    "Work on modules": {
        "opt": ("opt", "Run passes of tiduc and of MLIR, and print the module."),
        "link": ("modules", "Link several files into one module."),
        "shard": ("sharding", "Split the inputs of a program among a mesh of devices."),
        "reduce": ("reduce", "Make a program smaller while a test finds it interesting."),
    },
    "Compile and run": {
        "compile": ("execution", "Compile programs with IREE."),
        "run": ("running", "Run a program, or a compiled module, on arrays."),
        "size": ("sizes", "Show the sizes of a compiled module: code, constants, memory."),
        "cache": ("cache", "Show or clear the cache of compiled modules and imported models."),
        "targets": ("targets", "List the targets that programs can be compiled for."),
        "trace": (
            "trace",
            "Show the value of each op at given arguments, and the op that made the first NaN.",
        ),
        "profile": ("profile", "Measure each dispatch of a program, with the ops that it computes."),
        "calibrate": ("calibrate", "Measure the speed of this machine, for estimates of time."),
        "check": (
            "check",
            "Compare the derivatives of a program with finite differences and with each other.",
        ),
    },
    "Inspect programs": {
        "view": ("view", "Draw a program, or the result of a stage."),
        "explain": ("explain", "Explain what the derivatives of a program do and cost."),
    },
    "Reference": {
        "ops": ("documents", "List the ops and their derivative rules."),
        "passes": ("documents", "List the passes and their options."),
        "dialect": ("documents", "Print the reference of the tidu dialect, or its IRDL."),
    },
}

LIBRARIES = ("torch-mlir", "iree-base-compiler", "iree-base-runtime")


class _Commands(click.Group):
    """The group of the commands in `COMMANDS`. The module of a command is imported when the command is needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for section in COMMANDS.values() for name in section]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        for section in COMMANDS.values():
            if cmd_name in section:
                module, summary = section[cmd_name]
                command = import_module(f"tiduc.cli.{module}").COMMANDS[cmd_name]
                assert isinstance(command, click.Command)
                command.short_help = summary
                command.epilog = epilog(cmd_name)
                return command
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        names = self.list_commands(ctx)
        if (stored := stored_help(args[0], args[1:])) is not None:
            return args[0], stored, args[1:]
        if args[0] not in names and (close := get_close_matches(args[0], names)):
            ctx.fail(f"No such command '{args[0]}'. Did you mean {' or '.join(close)}?")
        if args[0] not in names and ("." in args[0] or "/" in args[0]):
            ctx.fail(f"No such command '{args[0]}'. The command comes before the file: tiduc grad {args[0]}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> int:
        """Runs the command and returns its exit status.

        Reports errors here, because the context says whether to colour them.
        """
        try:
            return int(super().invoke(ctx) or 0)
        except TiducError as error:
            report(error)
            return 1
        except (MemoryError, OSError, ImportError) as error:
            if (known := _from_the_system(error)) is None:
                raise
            report(known)
            return 1

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, section in COMMANDS.items():
            with formatter.section(title):
                formatter.write_dl([(name, summary) for name, (_, summary) in section.items()])


def _version(context: click.Context, parameter: click.Parameter, asked: bool) -> None:
    if asked and not context.resilient_parsing:
        version = import_module("importlib.metadata").version  # this import is slow
        libraries = ", ".join(f"{name} {version(name)}" for name in LIBRARIES)
        own = import_module("tiduc.version").version()
        click.echo(f"tiduc, version {own} ({libraries})")
        context.exit()


@click.group(
    cls=_Commands,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_version,
    help="Show the versions of tiduc and of its libraries, and exit.",
)
@click.option(
    "-q",
    "--quiet",
    is_flag=True,
    envvar="TIDUC_QUIET",
    expose_value=False,
    callback=keep,
    help="Print results and errors only: no progress, and nothing on success.",
)
@click.option(
    "--json-errors",
    is_flag=True,
    expose_value=False,
    callback=keep,
    help="Print each error as one line of JSON; --json of a command implies this.",
)
@MEMORY_LIMIT
@COLOR
@click.pass_context
def tiduc(context: click.Context, memory_limit: int | None) -> None:
    """Differentiate StableHLO programs: read a .mlir file, and write a .mlir file with its derivative."""
    progress.enter(str(context.invoked_subcommand))
    if (loaded := shared_options().loaded) is not None:
        loaded(memory_limit)


ENDINGS = {"SIGINT": KeyboardInterrupt(), "SIGTERM": SystemExit(143), "SIGHUP": SystemExit(129)}


def attend(memory_limit: int | None) -> None:
    """Prepares this worker process for a command whose libraries are loaded.

    Limits the memory of the process to `memory_limit` MiB or, if it is None, to three quarters of the available memory.
    Installs handlers for signals that end the process. The handlers end the compilers that the process has started and
    remove temporary files.
    """
    from tiduc.runtime.process import limit_memory, memory

    limit_memory(memory() * 3 // 4 if memory_limit is None else memory_limit)
    for name, ending in ENDINGS.items():
        number = getattr(signal, name, None)  # Windows has no SIGHUP
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:  # nohup ignores SIGHUP
            signal.signal(number, partial(_end, ending))


def _end(ending: BaseException, *_: object) -> NoReturn:
    for name in ENDINGS:  # ignores further signals, which would interrupt the handling of this one
        if number := getattr(signal, name, None):
            signal.signal(number, signal.SIG_IGN)
    raise ending


def run(arguments: list[str] | None = None, loaded: Callable[[int | None], None] | None = None) -> int:
    """Runs one command line and returns its exit status.

    The exit status is 0 on success, 1 after a diagnostic, 2 for a wrong command line, and 130 after an interrupt.
    `loaded` is called with the value of --memory-limit after the libraries of the command are loaded.
    """
    options = SharedOptions(loaded, arguments=tuple(sys.argv[1:] if arguments is None else arguments))
    try:
        return int(tiduc.main(arguments, prog_name="tiduc", standalone_mode=False, obj=options) or 0)
    except click.ClickException as error:
        advised(error).show()
        return error.exit_code
    except click.Abort:  # the user has interrupted from the keyboard
        return 130
    except OSError as error:  # raised by --help; standard error may be closed or full as well
        with suppress(OSError):
            report(TiducError(f"cannot write: {error.strerror}", "<stdout>"))
        return 1


def _from_the_system(error: Exception) -> TiducError | None:
    """Converts an error of the system, such as exhausted memory, to a `TiducError`.

    Returns None for any other error.
    """
    if isinstance(error, MemoryError) or out_of_memory(str(error).encode(errors="replace")):
        return no_memory()
    if isinstance(error, OSError) and error.strerror:
        return TiducError(error.strerror, error.filename or progress.recorded()[1])
    return lacking(error) if isinstance(error, ImportError) else None
