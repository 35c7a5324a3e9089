"""trace: prints the values of the ops of a program, and the op that made the first NaN."""

import math
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import count
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from tiduc.backends.backend import Options, Runnable, compile_program
from tiduc.cli.derivatives import LOOP_MEMORY, WRT, parse_wrt
from tiduc.cli.diagnostics import about, source_at, waiting
from tiduc.cli.execution import ENGINE, FAST, INPUTS, TARGET, WEIGHTS, compiling, with_weights
from tiduc.cli.files import ENTRY, FILE, JSON, write, write_binary, write_json
from tiduc.cli.random_seeds import SEED, seeds_of
from tiduc.cli.rules import RULES, read_with
from tiduc.cli.tables import rendered, table
from tiduc.dialect.errors import InputError, RequestError
from tiduc.passes.rules.registry import OpSet
from tiduc.program import Program, from_module
from tiduc.runtime.array_files import write_npz
from tiduc.runtime.arrays import Array
from tiduc.runtime.signature import SignatureValue
from tiduc.tracing.picture import picture
from tiduc.tracing.runs import LIMIT
from tiduc.tracing.summaries import Summary
from tiduc.tracing.trace import DERIVATIVES, OF, Place, RunTrace, TracedValue, inputs_of, trace
from tiduc.view.dot import place as short_place

if TYPE_CHECKING:
    from rich.table import Table


@click.command("trace")
@FILE
@ENTRY
@click.option(
    "--derivative",
    type=click.Choice(DERIVATIVES),
    help="Also show the tangent (jvp) or the cotangent (vjp) of each value. Tangents of inputs, or cotangents of "
    "outputs, may follow the arguments of --input; by default they are ones.",
)
@WRT
@click.option(
    "--only",
    multiple=True,
    metavar="OP",
    help="Trace only these ops: a line such as 12 or 12:8, the name of an op such as tanh, or a name in the "
    "location of an op. Repeatable.",
)
@click.option(
    "--first-bad",
    is_flag=True,
    help="Print only the op that made the first NaN, and the one that made the first infinity. The exit status is 1 "
    "if there is one.",
)
@click.option(
    "--iterations",
    type=click.IntRange(min=1),
    default=4,
    show_default=True,
    metavar="N",
    help="Number of iterations to print for each op in a loop: the first ones and the last one. Files contain all "
    "iterations.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=LIMIT >> 20,
    show_default=True,
    metavar="MIB",
    help="Memory for the values of one run. More values are computed in several runs.",
)
@RULES
@LOOP_MEMORY
@INPUTS
@WEIGHTS
@SEED
@TARGET
@FAST
@ENGINE
@compiling
@click.option(
    "--picture",
    "drawing",
    metavar="OUT",
    type=click.Path(),
    help="Also draw the program with the norms in its boxes (.svg or .png); an op with a NaN or an infinity is red.",
)
@JSON
@click.option(
    "-o",
    "--output",
    default="-",
    metavar="OUT.npz",
    help="Also write the arrays to this file. The name of an array has the line and the op, as in 12.tanh.",
)
def _trace(
    file: str,
    entry: str | None,
    derivative: str | None,
    wrt: tuple[str, ...],
    only: tuple[str, ...],
    first_bad: bool,
    iterations: int,
    limit: int,
    opset: OpSet,
    loop_memory: str,
    inputs: tuple[str, ...],
    weights: str | None,
    seed: int | None,
    engine: str,
    options: Options,
    drawing: str | None,
    as_data: bool,
    output: str,
) -> int:
    """Show the value of each op of a program: its norm, extremes, NaNs and infinities, by iteration inside loops.

    Below the table are the ops that made the first NaN and the first infinity. Inputs that are not given are random.
    """
    if drawing is not None and PurePath(drawing).suffix not in (".svg", ".png"):
        raise RequestError(f"{drawing} must end in .svg or .png")
    with ExitStack() as stack:
        place = _files(stack) if output != "-" else None
        with about(file), waiting(f"tracing {file}"):
            program = from_module(read_with(opset, file), entry, opset, True, loop_memory)
            positions = parse_wrt(program, wrt)
            given = _arguments(file, program, inputs, weights, seed, derivative, positions)

            def run(each: Program) -> Runnable:
                return compile_program(each.lower(), engine, options)

            traced = trace(
                program, given, derivative, positions, only, run=run, limit=limit << 20, place=place
            )
        if output != "-":
            write_npz(output, traced.arrays)
    if drawing is not None:
        with about(file), waiting("drawing"):
            write_binary(picture(traced, drawing, file), drawing)
    if as_data:
        write_json(_as_data(traced, file))
    else:
        tables = [] if first_bad else [_table(traced, file, iterations)]
        write(rendered(tables, "-") + "".join(_origins(traced, file)))
    return int(first_bad and bool(traced.origins))


def _files(stack: ExitStack) -> Place:
    """Returns a function that creates arrays as files in a temporary folder. Memory then need not hold all arrays."""
    folder, numbers = stack.enter_context(tempfile.TemporaryDirectory(prefix="tiduc-trace-")), count()

    def place(shape: tuple[int, ...], dtype: "np.dtype[Any]") -> Array:
        if not math.prod(shape):
            return np.zeros(shape, dtype)
        return np.memmap(Path(folder) / f"{next(numbers)}", dtype, "w+", shape=shape)

    return place


def _arguments(
    file: str,
    program: Program,
    texts: Sequence[str],
    weights: str | None,
    seed: int | None,
    derivative: str | None,
    wrt: Sequence[int | str] | None,
) -> list[Array]:
    """Returns the arguments. Tangents or cotangents follow if `--input` gives them."""
    seeds = partial(seeds_of, file, program.signature, seed)
    texts = texts or ["random"]

    def parsed(values: Sequence[SignatureValue]) -> list[Array]:
        return with_weights(weights, texts, values, seed or 0, seeds)

    own = program.signature.inputs
    values = inputs_of(program, derivative, wrt)
    try:
        return parsed(own)
    except InputError:
        if len(values) == len(own):
            raise
    return parsed(values)


# ---- text --------------------------------------------------------------------------------------------------------


def _table(traced: RunTrace, file: str, iterations: int) -> "Table":
    program, derivative = traced.program, traced.derivative
    notes = []
    if traced.untraced:
        notes.append(f"{traced.untraced} ops are not shown, because no array can hold their results")
    of = [] if derivative is None else [f"{OF[derivative]} (norm)"]
    header = ["op", "where", "type", "iteration", "norm", "least", "greatest", *of, "not finite"]
    hidden = {"constant"}
    rows = [
        cells
        for row in traced.rows
        if row.op not in hidden or not all(np.ravel(row.value.nans == 0))
        for cells in _cells(row, file, iterations, derivative is not None)
    ]
    heading = f"{file}: @{program.name}"
    if not any(cells[-1] for cells in rows):
        header, rows = header[:-1], [cells[:-1] for cells in rows]
    return table(heading, header, rows, right={3, 4, 5, 6, *([7] if derivative else [])}, notes=notes)


def _cells(row: TracedValue, file: str, iterations: int, with_derivative: bool) -> Iterator[list[str]]:
    """Yields the cells of one row for each printed iteration."""
    value = row.value
    name = row.name if row.site is None else row.op
    type_ = "x".join([*map(str, value.shape), row.type.element])
    derived = row.derivative
    for at in _printed(value, iterations):
        numbers = [_number(x[at]) for x in (value.norm, value.low, value.high)]
        bad = _bad(value, at)
        if with_derivative:
            numbers.append("" if derived is None else _number(derived.norm[at]))
            bad = "; ".join(filter(None, [bad, "" if derived is None else _bad(derived, at)]))
        yield [name, short_place(row.place, file), type_, ".".join(map(str, at)), *numbers, bad]


def _printed(value: Summary, iterations: int) -> list[tuple[int, ...]]:
    """Returns the iterations to print: the first ones, the first one with a NaN or an infinity, and the last one."""
    if not value.ran.ndim:
        return [()] if value.ran else []
    ran = [tuple(map(int, at)) for at in np.argwhere(value.ran)]
    bad = np.argwhere((value.nans + value.infinities) > 0)[:1]
    chosen = {*ran[: max(0, iterations - 1)], *ran[-1:], *(tuple(map(int, at)) for at in bad)}
    return sorted(chosen)


def _bad(value: Summary, at: tuple[int, ...]) -> str:
    counts = (int(value.nans[at]), "NaN"), (int(value.infinities[at]), "inf")
    return ", ".join(f"{n} {name}" for n, name in counts if n)


def _number(x: float) -> str:
    return "-" if np.isnan(x) else f"{x:.4g}"


def _origins(traced: RunTrace, file: str) -> Iterable[str]:
    """Yields the lines about the first NaN and the first infinity, with the lines of the source."""
    for origin in traced.origins:
        place = click.style(f"{origin.place or file}: ", bold=True)
        yield f"{place}{click.style(str(origin), fg='red', bold=True)}\n"
        yield from (f"{line}\n" for line in source_at(origin.place))
    if not traced.origins:
        yield f"{file}: every value is finite\n" if _is_finite(traced) else f"{file}: no op makes a NaN\n"


def _is_finite(traced: RunTrace) -> bool:
    summaries = [x for row in traced.rows for x in (row.value, row.derivative) if x is not None]
    return not any(np.any(x.nans) or np.any(x.infinities) for x in summaries)


# ---- JSON --------------------------------------------------------------------------------------------------------


def _as_data(traced: RunTrace, file: str) -> dict[str, object]:
    rows = []
    for row in traced.rows:
        data: dict[str, object] = {"name": row.name, "op": row.op, "place": row.place}
        data |= {"shape": list(row.value.shape), "ran": row.value.ran.tolist(), "value": _numbers(row.value)}
        if traced.derivative is not None:
            derived = row.derivative
            data[OF[traced.derivative]] = None if derived is None else _numbers(derived)
        rows.append(data)
    first = [
        {
            "kind": x.kind,
            "op": x.op,
            "place": x.place,
            "iteration": list(x.iteration),
            "elements": x.count,
            "derivative": x.derivative or None,
        }
        for x in traced.origins
    ]
    return {"file": file, "entry": traced.program.name, "rows": rows, "first": first}


def _numbers(x: Summary) -> dict[str, object]:
    """Returns the numbers of a summary for JSON, as lists that are nested like the loops around the op.

    Numbers that are not finite become null.
    """
    facts = {"norm": x.norm, "least": x.low, "greatest": x.high}
    wide = {name: np.asarray(values).astype(object) for name, values in facts.items()}
    for name, values in wide.items():
        values[~np.isfinite(facts[name])] = None
    counts = {"nans": x.nans, "infinities": x.infinities}
    return {name: values.tolist() for name, values in (*wide.items(), *counts.items())}


COMMANDS = {"trace": _trace}
