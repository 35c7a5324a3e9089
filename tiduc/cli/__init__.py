"""The command line: arguments to calls of the stages, errors to diagnostics in MLIR's form."""

import sys

import click

from tiduc.cli.derivatives import COMMANDS as DERIVATIVES
from tiduc.dialect.errors import TiducError


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="tiduc")
def tiduc() -> None:
    """Differentiate StableHLO programs, compile them, run them."""


for _command in DERIVATIVES:
    tiduc.add_command(_command)


def main() -> None:
    """The `tiduc` command."""
    try:
        tiduc()
    except TiducError as error:
        sys.exit(str(error))
