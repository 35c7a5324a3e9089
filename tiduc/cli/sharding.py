"""shard: splits the inputs of a program among devices."""

import click

from tiduc.cli.diagnostics import about
from tiduc.cli.files import EMIT, ENTRY, FILE, OUTPUT, write, write_binary
from tiduc.cli.rules import RULES, read_with
from tiduc.dialect.mlir.emit import emit, shortest
from tiduc.passes.rules.registry import OpSet
from tiduc.program import from_module
from tiduc.sharding import shard


def _mesh(context: click.Context, parameter: click.Parameter, text: str) -> dict[str, int]:
    mesh = {}
    for part in text.split(","):
        axis, _, size = part.partition("=")
        if not axis or not size.isdigit() or not int(size):
            raise click.BadParameter(f"{part!r} is not an axis and its size, such as data=4")
        mesh[axis] = int(size)
    return mesh


def _shardings(
    context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]
) -> dict[str, list[str | None]]:
    """Maps each input to the axes that split it. The name of an input may contain an equals sign."""
    given: dict[str, list[str | None]] = {}
    for text in texts:
        name, equals, axes = text.rpartition("=")
        if not equals or not name:
            raise click.BadParameter(f"{text!r} is not an input and its axes, such as x=data")
        given[name] = [axis or None for axis in axes.split(",")]
    return given


@click.command("shard")
@FILE
@ENTRY
@RULES
@click.option(
    "--mesh",
    required=True,
    metavar="AXES",
    callback=_mesh,
    help="The axes of the mesh of devices and their sizes: data=4,model=2.",
)
@click.option(
    "--shard",
    "shardings",
    multiple=True,
    metavar="INPUT=AXES",
    callback=_shardings,
    help="The axis that splits each dimension of an input, in order: x=data, or w=,model for the second dimension. "
    "Repeatable; other inputs are whole on each device.",
)
@click.option(
    "--fully-shard",
    "fully",
    metavar="AXIS",
    help="Also split each float input along this axis, and gather it before it is used (fully sharded data "
    "parallelism). Inputs that the axis splits already, such as the batch, do not change.",
)
@OUTPUT
@EMIT
def _shard(
    file: str,
    entry: str | None,
    opset: OpSet,
    mesh: dict[str, int],
    shardings: dict[str, list[str | None]],
    fully: str | None,
    output: str,
    kind: str | None,
) -> None:
    """Split the inputs of a program among a mesh of devices, with Shardy's attributes.

    The engine xla propagates the shardings to all values: 'tiduc run --engine xla'. Derivatives keep the shardings.
    """
    with about(file):
        module = shard(from_module(read_with(opset, file), entry, opset), mesh, shardings, fully).module
        kind = kind or shortest(module)
        data = emit(module, kind)
    (write if kind == "text" else write_binary)(data, output)


COMMANDS = {"shard": _shard}
