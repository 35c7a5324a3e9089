"""cache: shows or clears the cache of compiled modules."""

from dataclasses import asdict

import click

from tiduc.cli.files import JSON, write, write_json
from tiduc.runtime import cache


@click.command("cache")
@click.argument("action", metavar="info|clear", type=click.Choice(["info", "clear"]))
@JSON
def _cache(action: str, as_data: bool) -> None:
    """Show where the cache of compiled modules is and what it holds, or throw all of it away.

    TIDUC_CACHE names its folder, or is 'off'; TIDUC_CACHE_SIZE is the MiB that it may hold, 1024 by default,
    TIDUC_CACHE_DAYS the days that a module is kept without being used, 30 by default. The folder is used only if it is
    the user's, and others can write neither there nor to a folder above it.
    """
    if action == "clear":
        removed = cache.clear()
        if as_data:
            write_json({"removed": removed})
        else:
            write(f"removed {removed} modules\n")
        return
    info = cache.info()
    if as_data:
        write_json({**asdict(info), "folder": str(info.folder) if info.folder is not None else None})
        return
    if info.folder is None:
        write("the cache is off\n")
        return
    refused = f"not used {info.refused}\n" if info.refused else ""
    write(
        f"folder   {info.folder}\n{refused}"
        f"modules  {info.entries}\n"
        f"size     {info.bytes / 2**20:.1f} MiB of {info.limit / 2**20:g}\n"
        f"kept     {info.days:g} days after the last use\n"
    )


COMMANDS = {"cache": _cache}
