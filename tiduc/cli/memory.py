"""The option `--memory-limit`, which limits the memory of the command's process."""

import re

import click

from tiduc.dialect import progress
from tiduc.dialect.errors import TiducError

_UNITS = {"": 1, "k": 2**-10, "m": 1, "g": 2**10, "t": 2**20}  # in MiB
_LEAST = 256  # MiB
_SIZE = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)([kmgt]?)(?:i?b)?", re.IGNORECASE)


def _mebibytes(context: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    """Returns the number of MiB in a size such as 4096, 512M or 1.5GiB."""
    if value is None:
        return None
    match = _SIZE.fullmatch(value)
    if match is None:
        raise click.BadParameter(f"{value!r} is not a size such as 4096, 512M or 1.5G", context, parameter)
    size = float(match[1]) * _UNITS[match[2].lower()]
    if 0 < size < _LEAST:
        raise click.BadParameter(
            f"{value!r} is too small: libraries fail with less than {_LEAST}M", context, parameter
        )
    return int(size)


MEMORY_LIMIT = click.option(
    "--memory-limit",
    metavar="SIZE",
    envvar="TIDUC_MEMORY_LIMIT",
    callback=_mebibytes,
    help="Memory limit of tiduc without the compilers that it starts (Linux only): MiB, or a number with K, "
    "M, G or T; 0 means no limit.  [default: three quarters of the machine's memory]",
)


def no_memory() -> TiducError:
    """Returns the error to report if memory runs out. The error names the stage that was running."""
    stage, file = progress.recorded()
    return TiducError(
        f"out of memory during {stage}; --memory-limit, or the shell's 'ulimit', may allow more",
        "<stdin>" if file == "-" else file,
    )
