"""The option --color. It decides, with NO_COLOR, TERM and the terminal, whether output is coloured."""

import os
from typing import TextIO

import click


def _choose(context: click.Context, _: click.Parameter, value: str) -> None:
    """Sets the context's colour option, which `click.echo` reads.

    None lets click test whether the stream is a terminal.
    """
    if value == "auto":
        plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        context.color = False if plain else None
    else:
        context.color = value == "always"


COLOR = click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    expose_value=False,
    callback=_choose,
    help="Colour results and diagnostics; auto does so on a terminal, unless NO_COLOR is set or TERM is dumb.",
)


def is_coloured(stream: TextIO | None) -> bool:
    """Whether text for this stream may be coloured."""
    context = click.get_current_context(silent=True)
    if context is not None and context.color is not None:
        return context.color
    return stream is not None and stream.isatty()
