"""link: merges several modules into one."""

import click

from tiduc.cli.files import OUTPUT, PATH, read_module, write
from tiduc.dialect.mlir.context import stage
from tiduc.dialect.mlir.emit import emit
from tiduc.linking import link


@click.command("link")
@click.argument("files", metavar="FILES...", nargs=-1, required=True, type=PATH)
@click.option(
    "--search-path",
    multiple=True,
    metavar="DIR",
    type=click.Path(),
    help="Directory to search for NAME.mlir, for a graph or function @NAME that no file defines. Repeatable.",
)
@OUTPUT
@stage
def _link(files: tuple[str, ...], search_path: tuple[str, ...], output: str) -> None:
    """Merge several files into one module that defines all graphs and functions to which the files refer.

    All references are checked: each must lead to one value of its type, and no value may depend on itself.
    """
    write(emit(link([(file, read_module(file)) for file in files], search_path)), output)


COMMANDS = {"link": _link}
