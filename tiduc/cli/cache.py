"""cache: shows or clears the cache of compiled modules and of imported models."""

from dataclasses import asdict

import click

from tiduc.cli.files import JSON, write, write_json
from tiduc.runtime import cache


@click.command("cache")
@click.argument("action", metavar="info|clear", type=click.Choice(["info", "clear"]))
@JSON
def _cache(action: str, as_data: bool) -> None:
    """Show the folder and the contents of the cache of compiled modules and imported models, or clear the cache.

    TIDUC_CACHE names the folder; 'off' disables the cache. TIDUC_CACHE_SIZE limits its size in MiB (default: 1024), and
    TIDUC_CACHE_DAYS limits the days that an unused entry is kept (default: 30). The folder is used only if it belongs
    to the user, and other users cannot write to it or to a folder above it.
    """
    if action == "clear":
        removed = cache.clear()
        if as_data:
            write_json({"removed": removed})
        else:
            write(f"removed {removed} entries\n")
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
        f"entries  {info.entries}\n"
        f"size     {info.bytes / 2**20:.1f} MiB of {info.limit / 2**20:g}\n"
        f"kept     {info.days:g} days after the last use\n"
    )


COMMANDS = {"cache": _cache}
