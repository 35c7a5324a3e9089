"""Advice after errors in a command line: how to give inputs and arrays, and which commands have an option."""

from difflib import SequenceMatcher

import click

from tiduc.cli.stored_help import options_of_commands

_CLOSE = 0.7
"""The similarity of two names, without dashes, from which a name counts as a misspelt option."""

_DERIVATIVES = ("jvp", "vjp", "grad", "hvp", "jacobian", "hessian", "laplacian", "gauss-newton")
_HIGHER = "a derivative is a program that can be differentiated again: tiduc {0} FILE | tiduc {0} -, or tiduc hvp FILE"

_PLACES = {
    "--wrt": "inputs to differentiate follow --wrt",
    "--input": "arrays follow --input, as in --input @x.npy",
}


def advised(error: click.ClickException) -> click.ClickException:
    """Adds advice to errors about unknown options, and about inputs or arrays that are given in place of files."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is None:
        return error
    if isinstance(error, click.NoSuchOption):
        return _of_option(error, context)
    if not error.message.startswith("Got unexpected extra argument"):
        return error
    known = {spelled for each in context.command.params for spelled in each.opts}
    places = [place for option, place in _PLACES.items() if option in known]
    return click.UsageError("; ".join([f"{error.message}. The only argument is FILE", *places]), context)


def _of_option(error: click.NoSuchOption, context: click.Context) -> click.ClickException:
    """Adds advice to an error about an unknown option: similar options, or the commands that have the option."""
    name = error.option_name
    parts = [f"No such option: {name}"]
    close = [known for known in error.possibilities or () if _similarity(name, known) >= _CLOSE]
    if close:
        parts.append(f"did you mean {' or '.join(sorted(close))}?")
    else:
        if name == "--order" and context.info_name in _DERIVATIVES:
            parts.append(_HIGHER.format(context.info_name))
        commands = [command for command, options in options_of_commands().items() if name in options]
        if commands and context.parent is not None:
            parts.append(f"it is an option of: {', '.join(f'tiduc {command}' for command in commands)}")
    return click.UsageError("; ".join(parts), context)


def _similarity(name: str, other: str) -> float:
    return SequenceMatcher(None, name.lstrip("-"), other.lstrip("-")).ratio()
