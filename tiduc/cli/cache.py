"""cache: what is kept of former compilations."""

import click

from tiduc.cli.files import write
from tiduc.runtime import cache


@click.command("cache")
@click.argument("action", metavar="info|clear", type=click.Choice(["info", "clear"]))
def _cache(action: str) -> None:
    """Show where the cache of compiled modules is and what it holds, or throw all of it away.

    TIDUC_CACHE names its folder, or is 'off'; TIDUC_CACHE_SIZE is the MiB that it may hold, 1024 by default,
    TIDUC_CACHE_DAYS the days that a module is kept without being used, 30 by default.
    """
    if action == "clear":
        write(f"removed {cache.clear()} modules\n")
        return
    info = cache.info()
    if info.folder is None:
        write("the cache is off\n")
        return
    write(
        f"folder   {info.folder}\n"
        f"modules  {info.entries}\n"
        f"size     {info.bytes / 2**20:.1f} MiB of {info.limit / 2**20:g}\n"
        f"kept     {info.days:g} days after the last use\n"
    )


COMMANDS = {"cache": _cache}
