"""Passes as flags, as in mlir-opt: `--tidu-linearize='wrt=x' --cse` is a pipeline of two passes."""

import click
from click.shell_completion import CompletionItem

from tiduc.cli.options import shared_options
from tiduc.dialect.mlir.context import stage
from tiduc.opt import PASSES, PIPELINES
from tiduc.opt.driver import is_native, scheduled
from tiduc.tables import native_passes


class PassFlags(click.Command):
    """A command that accepts each pass as a flag. Flags may begin with one dash or two, as in MLIR's tools."""

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Completes options of the command and flags of passes."""
        own = super().shell_complete(ctx, incomplete)
        return own + _passes(incomplete) if incomplete.startswith("-") else own

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        known = {name for parameter in self.params for name in (*parameter.opts, *parameter.secondary_opts)}
        known |= set(self.get_help_option_names(ctx))
        rest, elements = [], []
        loads = any(arg.lstrip("-").startswith("load-passes") for arg in args)
        for i, arg in enumerate(args):
            if arg == "--":
                rest += args[i:]
                break
            name, equals, value = arg.lstrip("-").partition("=")
            is_flag = arg.startswith("-") and len(name) > 1
            if is_flag and f"--{name}" in known:
                rest.append(f"--{name}{equals}{value}")
            elif is_flag and f"-{name}" not in known and _is_pass(name, loads and arg.startswith("--")):
                elements.append(_element(name, value))
            else:
                rest.append(arg)
        shared_options().pass_flags = ",".join(elements)
        return super().parse_args(ctx, rest)


def _passes(incomplete: str) -> list[CompletionItem]:
    """Returns the flags of passes that begin with a text.

    MLIR's own passes are included only if the text has two characters or more, because there are many of these passes.
    """
    start = incomplete.lstrip("-")
    own = [*PASSES, *PIPELINES]
    names = own if len(start) < 2 else [*own, *native_passes()]
    return [CompletionItem(f"--{name}") for name in names if name.startswith(start)]


@stage
def _is_pass(name: str, loads: bool) -> bool:
    """Whether a flag names a pass.

    With `loads`, the user loads passes from a file, so any name may be that of a pass.
    """
    return loads or name.startswith("tidu-") or name in PASSES or name in PIPELINES or is_native(name)


@stage
def _element(name: str, options: str) -> str:
    if is_native(name):
        return scheduled(name, options)
    return f"{name}{{{options}}}" if options else name


def chosen_pipeline(pipeline: str) -> str:
    """Returns the pipeline of `--pass-pipeline` or of the pass flags. Raises a usage error if both are given."""
    flags = shared_options().pass_flags
    if flags and pipeline:
        raise click.UsageError("--pass-pipeline cannot be used with flags that name passes")
    return flags or pipeline
