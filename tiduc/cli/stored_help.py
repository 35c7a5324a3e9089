"""The help texts of commands, stored as data. With them, `tiduc COMMAND --help` does not import the command's module.

`python docs/generate.py` writes the data, and test/py/test_docs.py checks that they are up to date.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from tiduc.cli.manual import epilog

_SPELLED = re.compile(r"(?<!\S)-{1,2}[a-z][\w-]*")
"""Matches an option in a record of the help, such as `-o, --output OUT`."""

PATH = Path(__file__).parents[1] / "tables" / "help.json"


class StoredHelp(click.Command):
    """A command that can only print its help."""

    def __init__(self, name: str, stored: dict[str, Any]) -> None:
        super().__init__(name, help=stored["help"], epilog=epilog(name))
        self._stored = stored

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return list(self._stored["usage"])

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Options"):
            records = [(spelled, about) for spelled, about in self._stored["options"]]
            own = [option.get_help_record(ctx) for option in self.get_params(ctx)]  # --help
            formatter.write_dl(records + [record for record in own if record is not None])


def stored_help(name: str, arguments: Sequence[str]) -> StoredHelp | None:
    """Returns a command that prints the stored help, if `arguments` ask only for help. Otherwise returns None."""
    if list(arguments) not in (["--help"], ["-h"]) or not PATH.is_file():
        return None
    stored = json.loads(PATH.read_text())
    return StoredHelp(name, stored[name]) if name in stored else None


def options_of_commands() -> dict[str, set[str]]:
    """Maps each command to its options, with their dashes.

    Returns an empty dictionary if the help texts are not stored.
    """
    stored = json.loads(PATH.read_text()) if PATH.is_file() else {}
    return {
        command: {name for spelled, _ in help_["options"] for name in _SPELLED.findall(spelled)}
        for command, help_ in stored.items()
    }


def to_store(name: str, command: click.Command) -> dict[str, object]:
    """Returns the help of a command as data to store."""
    context = click.Context(command, info_name=name)
    options = [each for each in command.params if isinstance(each, click.Option)]
    records = [option.get_help_record(context) for option in options]
    return {
        "usage": command.collect_usage_pieces(context),
        "help": command.help,
        "options": [record for record in records if record is not None],
    }
