"""Formats tables as text, with the package rich, for commands that explain or trace a program."""

import io
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tiduc.cli.files import is_terminal, shows_colours

if TYPE_CHECKING:
    from rich.table import Table

WIDTH = 110


def rendered(tables: Iterable["Table"], output: str) -> str:
    """Returns the tables as text. The text is as wide as the terminal if the output is a terminal."""
    from rich.console import Console

    out, is_coloured = io.StringIO(), shows_colours(output)
    console = Console(
        file=out,
        force_terminal=is_coloured,
        color_system="standard" if is_coloured else None,
        width=None if is_terminal(output) else WIDTH,
        highlight=False,
    )
    for table in tables:
        console.print(table)
        if table.caption is not None:
            console.print()
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())


def table(
    title: str,
    header: Iterable[str],
    rows: Iterable[Iterable[str]],
    right: Iterable[int] = (),
    notes: Iterable[str] = (),
) -> "Table":
    """Creates a table. Columns in `right` are aligned to the right, and `notes` are written below the table."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    made = Table(
        title=Text(title, style="bold", no_wrap=True, overflow="ignore"),  # may be wider than the table
        caption=Text("\n".join(notes)) if notes else None,
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1),
    )
    for i, name in enumerate(header):
        made.add_column(name, justify="right" if i in set(right) else "left", overflow="fold")
    count = 0
    for row in rows:
        count += 1
        made.add_row(*(Text(cell) for cell in row))
    if not count:
        made.add_row("none")
    return made
