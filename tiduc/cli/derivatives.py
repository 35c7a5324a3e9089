"""jvp, vjp, grad, hvp: write the derivative of a program."""

import functools
from collections.abc import Callable, Sequence

import click
from torch_mlir import ir

from tiduc.cli.completion import inputs_of_file
from tiduc.cli.diagnostics import about, remark, waiting
from tiduc.cli.files import EMIT, ENTRY, FILE, JSON, OUTPUT, write, write_binary, write_json
from tiduc.cli.rules import RULES, read_with
from tiduc.cli.watching import watched
from tiduc.dialect.mlir.emit import emit, shortest
from tiduc.dialect.ops.control_ops import MEMORIES
from tiduc.passes.rules.registry import OpSet
from tiduc.pipeline import DERIVATIVES, stops
from tiduc.program import Program, from_module

WRT = click.option(
    "--wrt",
    multiple=True,
    metavar="INPUTS",
    shell_complete=inputs_of_file,
    help="The inputs to differentiate with respect to, by position or name: 0,2 or x,y. Repeatable, for "
    "names that contain commas; @2 is the name 2. By default all inputs of float or complex type that a model "
    "does not freeze.",
)

LOOP_MEMORY = click.option(
    "--loop-memory",
    type=click.Choice(MEMORIES),
    default="auto",
    show_default=True,
    help="How the reverse pass of a loop of n iterations gets its residuals, unless an attribute of the loop says "
    "so: stack stores the residuals of all iterations, and large arrays whole; sqrt and log recompute iterations from "
    "checkpoints of about sqrt n or log n iterations; auto is stack up to 256 MB, and sqrt beyond.",
)

MEMORY = click.option(
    "--memory",
    default="",
    metavar="SIZE",
    help="Memory budget of the program: a size such as 100MB or 1.5GiB, which includes arguments and results; a share "
    "such as 0.3x of the memory that the program would otherwise take besides arguments and results; or min, for the "
    "lowest peak. To fit a budget, values are recomputed instead of kept. By default, ops are reordered and cheap "
    "values are recomputed.",
)


def parse_wrt(program: Program, texts: Sequence[str]) -> list[int | str] | None:
    """Returns the inputs that the texts of `--wrt` name, or None if there are no texts.

    A text is the whole name of an input, or a list of positions and names separated by commas.
    """
    if not texts:
        return None
    names = {port.name for port in program.inputs}
    entries: list[int | str] = []
    for text in texts:
        for part in [text] if text in names else [part.strip() for part in text.split(",")]:
            entries.append(int(part) if part.isdecimal() else part if part in names else part.lstrip("@%"))
    return entries


_Option = Callable[[Callable[..., None]], Callable[..., None]]
"""Adds an option to the function of a command."""


def _derivative(
    file: str,
    entry: str | None,
    opset: OpSet,
    inline: bool,
    loop_memory: str,
    memory: str,
    stop_after: str | None,
    kind: str | None,
    output: str,
    as_data: bool,
    name: str,
    wrt: tuple[str, ...] = (),
    **options: object,
) -> None:
    with about(file), waiting(f"differentiating {file}"):
        module = read_with(opset, file)
        program = from_module(module, entry, opset, inline, loop_memory).rematerialize(memory)
        positions = parse_wrt(program, wrt)
        derivative, module = derived(program, name, positions, stop_after, **options)
        if not program.differentiated(positions):
            remark(file, "no input is of float or complex type, so none has a derivative")
        if name == "grad":
            _remark_on_order(file, program, positions)
        if as_data:
            write_json(_as_data(derivative, module), output)
            return
        kind = kind or shortest(module)
        data = emit(module, kind)
    (write if kind == "text" else write_binary)(data, output)


def _as_data(program: Program, module: ir.Module) -> dict[str, object]:
    """Returns a derivative as data for JSON: its function, its inputs and outputs, and its text."""
    ports = {"inputs": program.inputs, "outputs": program.outputs}
    listed = {
        kind: [{"name": port.name, "type": str(port.type)} for port in of] for kind, of in ports.items()
    }
    return {"entry": program.name, **listed, "module": emit(module).decode("utf-8", "surrogateescape")}


def _remark_on_order(file: str, program: Program, positions: Sequence[int | str] | None) -> None:
    """Prints a remark if the user differentiates a gradient with respect to the scalar variable of that gradient."""
    ports = program.differentiated(positions)
    if len(ports) == 1 and not ports[0].type.rank and len(program.outputs) == 1:
        x = ports[0].name
        if program.outputs[0].name == f"{x}.cotangent":
            what = f"this is the gradient of a gradient in the scalar {x!r}"
            remark(
                file, f"{what}; 'tiduc jet --derivatives --order K' on the function itself writes fewer ops"
            )


def derived(
    program: Program,
    name: str,
    positions: Sequence[int | str] | None,
    stop_after: str | None = None,
    **options: object,
) -> tuple[Program, ir.Module]:
    """Returns the program of the derivative `name`, and its module after the stage `stop_after`.

    Without `stop_after`, the module is lowered to StableHLO. If the derivative needs several stages, and `stop_after`
    is not the last of them, the program is the part of the derivative that exists after `stop_after`.
    """
    if stop_after != "import":
        by_then = DERIVATIVES.get(name, {}).get(stop_after or "", name)
        given = {} if positions is None else {"wrt": positions}
        program = getattr(program, by_then)(**given, **(options if by_then == name else {}))
    return program, program.module_after(stop_after or "lower")


def command(name: str, help: str, more: Sequence[_Option] = (), has_wrt: bool = True) -> click.Command:
    """Creates the command for a method of `Program`, with the options that all derivatives share and the options
    `more`.
    """
    options: list[_Option] = [
        FILE,
        ENTRY,
        *([WRT] if has_wrt else []),
        RULES,
        click.option(
            "--inline",
            is_flag=True,
            help="Inline every call. By default, a function that is called several times is differentiated once.",
        ),
        LOOP_MEMORY,
        MEMORY,
        OUTPUT,
        click.option(
            "--stop-after",
            type=click.Choice(stops([name])),
            help="Print the IR after this stage instead of the result.",
        ),
        EMIT,
        JSON,
    ]
    if name in ("grad", "hvp"):
        options.append(
            click.option("--value", is_flag=True, help="Also return the value, before its derivative.")
        )
    if name in ("grad", "vjp"):
        options.append(
            click.option(
                "--conjugate",
                is_flag=True,
                help="Conjugate complex cotangents, as JAX does; see the page on conventions.",
            )
        )
    if name in ("jvp", "vjp"):
        options.append(
            click.option(
                "--batch",
                type=click.IntRange(1, 2**31 - 1),
                metavar="K",
                help="Batch K tangents or cotangents: these inputs, and the results, get a leading dimension of size "
                "K.",
            )
        )
    function: Callable[..., None] = watched()(functools.partial(_derivative, name=name.replace("-", "_")))
    for option in reversed([*options, *more]):
        function = option(function)
    return click.command(name, help=help)(function)


COMMANDS = {
    "jvp": command(
        "jvp",
        """Write the JVP: (primals..., tangents of wrt...) -> (outputs..., their tangents...).

        Integer and boolean inputs and outputs have no tangents.""",
    ),
    "vjp": command(
        "vjp",
        """Write the VJP: (primals..., cotangents of the outputs...) -> (outputs..., cotangents of wrt...).

        Integer and boolean inputs and outputs have no cotangents.""",
    ),
    "grad": command(
        "grad",
        """Write the gradient: (primals...) -> (gradient in each of wrt...).

        The program must have one output, a real float scalar.""",
    ),
    "hvp": command(
        "hvp",
        """Write the Hessian-vector product: (primals..., tangents of wrt...) -> (Hessian times tangent...).

        The program must have one output, a real float scalar.""",
    ),
}
