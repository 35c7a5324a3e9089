"""view: draws a program, or the result of a stage."""

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

import click
from torch_mlir import ir

from tiduc.activity import find_activity, functions
from tiduc.cli.derivatives import LOOP_MEMORY, WRT, derived, parse_wrt
from tiduc.cli.diagnostics import about, waiting
from tiduc.cli.files import ENTRY, FILE, OUTPUT, write, write_binary
from tiduc.cli.rules import RULES, read_with
from tiduc.dialect.errors import RequestError
from tiduc.dialect.mlir.context import stage
from tiduc.dialect.ops.ir_types import IrOp
from tiduc.explain import find_peaks
from tiduc.passes.jet import MAX_ORDER
from tiduc.passes.rules.registry import OpSet
from tiduc.pipeline import DERIVATIVES, lowering, stops
from tiduc.program import Program, from_module
from tiduc.view.curve import chart, listed
from tiduc.view.dot import check_size, dot, is_large
from tiduc.view.draw import draw
from tiduc.view.fold import add_map
from tiduc.view.fold import fold as fold_picture
from tiduc.view.html import page
from tiduc.view.listing import listing
from tiduc.view.png import picture_in_png, png_of
from tiduc.view.read import read_picture
from tiduc.view.scene import Picture, Scene
from tiduc.view.text import text

FORMATS = ("svg", "png", "html", "dot", "txt")
LISTING = "text"


@click.command("view")
@FILE
@ENTRY
@click.option(
    "--derivative",
    type=click.Choice(list(DERIVATIVES)),
    help="Show the graphs of this derivative; by default the file itself.",
)
@click.option(
    "--order",
    type=click.IntRange(1, MAX_ORDER),
    default=2,
    show_default=True,
    metavar="K",
    help="With --derivative jet: the order of the last coefficient.",
)
@WRT
@click.option(
    "--stop-after",
    type=click.Choice(["parse", *stops(list(DERIVATIVES))]),
    help="Show the result of this stage. By default parse, or, with --derivative, the last stage before "
    "graphs are merged.",
)
@click.option(
    "--graph", "name", metavar="NAME", help="Show only this function or graph, and the graphs that it opens."
)
@click.option(
    "--fold/--no-fold",
    default=True,
    help="Fold large graphs: draw repeated ops once, and write changes of shape on arrows.",
)
@click.option(
    "--format",
    "kind",
    type=click.Choice((*FORMATS, LISTING)),
    help="Output format; by default from the ending of OUT, else txt, a tree of each result. text lists the ops "
    "of each graph, with references in place of tidu.external.",
)
@click.option(
    "--memory",
    is_flag=True,
    help="Show the memory peaks that budgets can reach for the derivative, by default the VJP, and the time of each.",
)
@RULES
@click.option("--inline", is_flag=True, help="With --derivative, inline every call.")
@LOOP_MEMORY
@OUTPUT
def _view(
    file: str, kind: str | None, output: str, fold: bool, name: str | None, memory: bool, **asked: Any
) -> None:
    """Show a program as a picture (svg, png), a page to explore (html), input for Graphviz (dot), or text (txt).

    Colours show which values tangents reach. Dashed arrows are values that another graph defines. In the page, a click
    opens calls, loops and folded parts. Pictures and pages need Graphviz, which 'tiduc[view]' installs.
    """
    kind = kind or _kind_of(output)
    with about(file), waiting(f"drawing {file}"):
        if memory:
            _draw_memory(file, kind, output, **asked)
            return
        picture = _picture(file, fold=fold and kind != LISTING, **asked)
        shown = _shown(picture, name)
        if kind == "png":
            check_size(picture, shown)
            write_binary(picture_in_png(picture, shown, file, fold), output)
        else:
            write(_drawn(picture, shown, kind, file, fold), output)


def _draw_memory(
    file: str,
    kind: str,
    output: str,
    entry: str | None,
    derivative: str | None,
    wrt: tuple[str, ...],
    opset: OpSet,
    inline: bool,
    loop_memory: str,
    stop_after: str | None,
    order: int,
) -> None:
    """Draws the memory peaks that a derivative can have under a budget, and the time for each peak."""
    if kind not in ("svg", "png", "dot", "txt") or stop_after is not None:
        raise RequestError("--memory shows a whole derivative, as svg, png, dot or txt")
    program = from_module(read_with(opset, file), entry, opset, inline, loop_memory)
    name = derivative or "vjp"
    options: dict[str, Any] = {"order": order} if name == "jet" else {}
    derived_program, _ = derived(program, name, parse_wrt(program, wrt), **options)
    points = [(peak.bytes, peak.time) for peak in find_peaks(derived_program)]
    if kind == "txt":
        write(listed(points), output)
        return
    source = chart(points, f"Memory of the {name.upper()} of @{program.name}")
    if kind == "png":
        write_binary(png_of(source), output)
    else:
        write(source if kind == "dot" else draw([source])[0] + "\n", output)


def _kind_of(output: str) -> str:
    """Returns the output format for the suffix of a file's name, and `txt` for standard output."""
    suffix = PurePath(output).suffix.removeprefix(".").lower()
    if output == "-":
        return "txt"
    if suffix not in FORMATS:
        raise RequestError(
            f"{output} must end in one of .{', .'.join(FORMATS)}, or name the format with --format"
        )
    return suffix


@stage
def _picture(
    file: str,
    entry: str | None,
    derivative: str | None,
    wrt: tuple[str, ...],
    stop_after: str | None,
    opset: OpSet,
    inline: bool,
    loop_memory: str,
    fold: bool,
    order: int = 2,
) -> Picture:
    """Returns the picture of a file's functions and graphs after the requested stage."""
    module = read_with(opset, file)
    title = "<stdin>" if file == "-" else file
    active: dict[str, range | list[int]]
    tangents: dict[str, range] = {}
    if derivative is None and stop_after in (None, "parse") and not wrt:
        active = {name: _differentiable(op, opset) for name, op in _public(module, entry).items()}
    else:
        program = from_module(module, entry, opset, inline, loop_memory)
        positions = parse_wrt(program, wrt)
        chosen = program.differentiated(positions)
        active = {program.name: [i for i, port in enumerate(program.inputs) if port in chosen]}
        if derivative is not None and stop_after != "parse":
            _check_stage(derivative, stop_after)
            by = stop_after or next(reversed(DERIVATIVES[derivative]), "lower")
            options = {"order": order} if derivative == "jet" else {}
            derivative_program, module = derived(program, derivative, positions, by, **options)
            title += f", {derivative} after {by}"
            if lowering(by):
                tangents = {program.name: range(len(program.inputs), len(derivative_program.inputs))}
        elif stop_after not in (None, "parse"):
            module = _without_derivative(program, stop_after)
            title += f" after {stop_after}"
    picture = read_picture(module, find_activity(module, active, opset, tangents), title)
    if fold:
        fold_picture(picture)
    return picture


def _check_stage(derivative: str, stop_after: str | None) -> None:
    stages = stops([derivative])
    if stop_after is not None and stop_after not in stages:
        raise RequestError(f"{derivative} has no stage {stop_after}; it has {', '.join(stages)}")


def _without_derivative(program: Program, stop_after: str) -> Any:
    if stop_after not in stops([]):
        raise RequestError(f"--stop-after {stop_after} needs --derivative")
    return program.module_after(stop_after)


def _public(module: ir.Module, entry: str | None) -> dict[str, ir.Operation]:
    """Returns the functions and graphs that are not private or, if `entry` is given, only the one of this name."""
    public = functions(module)
    if entry is not None and entry not in public:
        raise RequestError(f"no function or graph @{entry}; there are {_listed(public)}")
    return {
        name: op
        for name, op in public.items()
        if name == entry or (entry is None and "private" not in str(op.attributes.get("sym_visibility")))
    }


def _differentiable(op: IrOp, opset: OpSet) -> list[int]:
    arguments = op.regions[0].blocks[0].arguments
    return [i for i, x in enumerate(arguments) if opset.builder.tangent_type(x.type) is not None]


def _shown(picture: Picture, name: str | None) -> list[str]:
    """Returns the names of the scenes to draw: the default scenes or, if `name` is given, only the scene of this name.

    `name` may lack the @ of the scene's name.
    """
    if not picture.scenes:
        raise RequestError("no function and no graph to show")
    if name is None:
        return picture.shown or list(picture.scenes)
    for scene in (f"@{name}", name):
        if scene in picture.scenes:
            return [scene]
    raise RequestError(f"no graph {name}; there are {_listed(picture.scenes)}")


def _listed(names: Mapping[str, Scene | IrOp]) -> str:
    return ", ".join(name if name.startswith("@") else f"@{name}" for name in names) or "none"


def _drawn(picture: Picture, shown: list[str], kind: str, file: str, fold: bool) -> str:
    if kind == LISTING:
        return listing(picture, shown)
    if kind == "txt":
        return text(picture, shown, file)
    if kind != "dot":
        check_size(picture, shown)
    if kind == "html":
        return page(picture, shown, file, fold)
    has_map = len(shown) > 1 and is_large(picture, shown)
    source = dot(picture, [add_map(picture, shown), *shown] if has_map else shown, file, separate=has_map)
    return source if kind == "dot" else draw([source])[0] + "\n"


COMMANDS = {"view": _view}
