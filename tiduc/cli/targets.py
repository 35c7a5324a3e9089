"""targets: lists the targets of compilation, and the element types that each target lacks."""

import click

from tiduc import documents
from tiduc.backends.iree.targets import TARGETS, Target
from tiduc.cli.files import JSON, OUTPUT, write, write_json

HEADER = ("target", "variants", "runs here", "lacks", "what")


@click.command("targets")
@click.option("--markdown", is_flag=True, help="Write a table in Markdown.")
@JSON
@OUTPUT
def _targets(markdown: bool, as_data: bool, output: str) -> None:
    """List the targets, the element types that each lacks, and whether this machine has a device for its modules.

    A variant follows a colon, as in cuda:sm_86; the first one is the default.
    """
    rows = [_row(target) for target in TARGETS.values()]
    if as_data:
        write_json([_data(target) for target in TARGETS.values()], output)
        return
    if markdown:
        write(documents.markdown_table(HEADER, rows), output)
        return
    lines = []
    for name, variants, runs, lacks, description in rows:
        lines.append(click.style(name, bold=True) + ("" if runs == "yes" else " (does not run here)"))
        lines.append(f"    {description}")
        lines += [f"      variants  {variants}"] if variants else []
        lines += [f"      lacks     {lacks}"] if lacks else []
    write("".join(f"{line}\n" for line in lines), output)


def _row(target: Target) -> tuple[str, ...]:
    lacks = [_but(element, having) for element, having in target.lacks.items()]
    lacks += [target.remark] if target.remark else []
    variants = dict.fromkeys([*([target.default] if target.default else []), *target.variants])
    return target.name, " ".join(variants), _runs(target), ", ".join(lacks), target.description


def _data(target: Target) -> dict[str, object]:
    name, variants, runs, _, description = _row(target)
    lacks = {element: list(having) for element, having in target.lacks.items()}
    return {
        "target": name,
        "variants": variants.split(),
        "runs_here": runs == "yes",
        "lacks_but_for": lacks,
        "remark": target.remark,
        "what": description,
    }


def _but(element: str, having: tuple[str, ...]) -> str:
    """Formats an element type that a target lacks, except for the variants in `having`."""
    return f"{element} (but for {' '.join(having)})" if having else element


def _runs(target: Target) -> str:
    from tiduc.runtime.devices import has_device  # IREE takes a while to import

    return "yes" if target.device and has_device(target.device) else "no"


COMMANDS = {"targets": _targets}
