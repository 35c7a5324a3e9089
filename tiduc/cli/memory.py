"""`--memory-limit`: how much memory the process of the command may take."""

import re

import click

_UNITS = {"": 1, "k": 2**-10, "m": 1, "g": 2**10, "t": 2**20}  # in MiB
_SIZE = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)([kmgt]?)(?:i?b)?", re.IGNORECASE)


def _mebibytes(context: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    """The number of MiB in a size such as 4096, 512M or 1.5GiB."""
    if value is None:
        return None
    found = _SIZE.fullmatch(value)
    if found is None:
        raise click.BadParameter(f"{value!r} is not a size such as 4096, 512M or 1.5G", context, parameter)
    size = float(found[1]) * _UNITS[found[2].lower()]
    return max(1, int(size)) if size else 0


MEMORY_LIMIT = click.option(
    "--memory-limit",
    metavar="SIZE",
    envvar="TIDUC_MEMORY_LIMIT",
    callback=_mebibytes,
    help="How much memory tiduc may take beside the compilers that it starts, on Linux: MiB, or a number with K, M, "
    "G or T; 0 is no limit.  [default: three quarters of what there is]",
)
