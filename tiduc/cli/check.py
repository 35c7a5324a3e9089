"""check: compares derivatives and prints a line for each comparison."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import click

from tiduc.backends.backend import Options, compile_program
from tiduc.checking.by_op import OpError, ops_at_fault
from tiduc.checking.check import DTYPES, MODES, check, in_double, point_of
from tiduc.checking.comparisons import Call, Comparison, Run
from tiduc.cli.derivatives import LOOP_MEMORY, MEMORY, WRT, parse_wrt
from tiduc.cli.diagnostics import about, is_quiet, remark, source_at, waiting
from tiduc.cli.execution import ENGINE, INPUTS, TARGET, arguments, compiling
from tiduc.cli.files import ENTRY, FILE, JSON, write, write_json
from tiduc.cli.random_seeds import SEED
from tiduc.cli.rules import RULES, read_with
from tiduc.dialect.errors import InputError, TiducError
from tiduc.passes.rules.registry import OpSet
from tiduc.program import Program, from_module
from tiduc.runtime.array_files import read_npz
from tiduc.runtime.arrays import Array

_MOST = 3  # the largest number of ops at fault that are printed
_AGREES = click.style("agrees", fg="green")
_DISAGREES = click.style("DISAGREES", fg="red", bold=True)


def _modes(ctx: click.Context, parameter: click.Parameter, value: str) -> tuple[str, ...]:
    """Returns the modes in a text such as `fwd,rev`."""
    modes = tuple(dict.fromkeys(part.strip() for part in value.split(",")))
    if unknown := [mode for mode in modes if mode not in MODES]:
        raise click.BadParameter(f"{unknown[0]!r} is neither {' nor '.join(map(repr, MODES))}")
    return modes


@click.command("check")
@FILE
@ENTRY
@WRT
@RULES
@LOOP_MEMORY
@MEMORY
@INPUTS
@SEED
@TARGET
@ENGINE
@compiling
@click.option(
    "--dtype",
    type=click.Choice(DTYPES),
    default="f64",
    show_default=True,
    help="Check the program widened to f64, constants included (f64), or unchanged, for a target without f64 "
    "(as-is).",
)
@click.option(
    "--order",
    type=click.IntRange(1, 2),
    default=1,
    show_default=True,
    metavar="NUMBER",
    help="Order of derivatives to check; 2 also checks the derivatives of the JVP and of the VJP.",
)
@click.option(
    "--modes",
    default=",".join(MODES),
    show_default=True,
    callback=_modes,
    metavar="MODES",
    help="The derivatives to check: fwd, rev or both. Use rev for a function that defines its derivative by "
    "tidu.vjp.",
)
@click.option(
    "--rtol",
    type=click.FloatRange(min=0, min_open=True),
    metavar="NUMBER",
    show_default="1e-06 in f64",
    help="Tolerance: the largest relative error against finite differences.",
)
@click.option(
    "--expect",
    metavar="FILE.npz",
    help="Compare with stored numbers too: loss, grad.0, grad.1, ..., jvp, hvp.0, ... along tangent.0, .... "
    "Without --input, the arguments are the stored input.0, input.1, ....",
)
@JSON
def _check(
    file: str,
    entry: str | None,
    wrt: tuple[str, ...],
    opset: OpSet,
    loop_memory: str,
    memory: str,
    inputs: tuple[str, ...],
    seed: int | None,
    engine: str,
    options: Options,
    dtype: str,
    order: int,
    modes: tuple[str, ...],
    rtol: float | None,
    expect: str | None,
    as_data: bool,
) -> int:
    """Check the derivatives of a program: compare JVP and VJP with central differences and with each other.

    The program is widened to f64. Arguments are random unless given. Exit status 1 means that a comparison failed.
    """
    seed = seed or 0
    with about(file):
        program = from_module(read_with(opset, file), entry, opset, loop_memory=loop_memory)
        program = program.rematerialize(memory)
        expected = read_npz(expect) if expect is not None else None
        given = _arguments(program, inputs, seed, dtype, expected, str(expect))
        comparisons, run, positions = [], _engine(engine, options), parse_wrt(program, wrt)
        asked: dict[str, Any] = {"rtol": rtol, "dtype": dtype, "modes": modes}
        for c in check(program, given, run, positions, expected, seed, order=order, **asked):
            if not as_data and not (c.agrees and is_quiet()):
                write(_line(c))
            comparisons.append(c)
    wrong = [c for c in comparisons if not c.agrees]
    faults: list[OpError] = []
    if wrong:
        try:
            with waiting("looking for the op at fault"):
                faults = ops_at_fault(point_of(program, given, run, positions, seed, **asked))
        except TiducError as error:  # the results of the comparisons are printed nevertheless
            remark(file, f"cannot check op by op: {error.message}")
    if as_data:
        data = {"file": file, "agrees": not wrong, "comparisons": [_data(c) for c in comparisons]}
        write_json(data | {"ops_at_fault": [_fault(x) for x in faults]})
        return int(bool(wrong))
    if not wrong and is_quiet():
        return 0
    against = f" with {_source(expected, str(expect))} and" if expected is not None else " with"
    count = f"{len(comparisons)} comparison{'s' * (len(comparisons) != 1)}"
    if wrong:
        write(f"{file}: {len(wrong)} of {count} disagree\n")
        write("".join(_lines_of(faults, file)))
        return 1
    write(f"{file}: the derivatives agree{against} finite differences, in {count}\n")
    return 0


def _line(c: Comparison) -> str:
    verdict = _AGREES if c.agrees else _DISAGREES
    where = "" if c.agrees or not c.where else f" {c.where}"
    line = f"{verdict}  {c.name}: relative error {c.error:.1e}{where} (tolerance {c.tolerance:.1e})"
    if not c.agrees and not c.uncertainty <= c.tolerance:
        line += f"; finite differences are uncertain by {c.uncertainty:.1e}"
    return f"{line}\n"


def _data(c: Comparison) -> dict[str, object]:
    """Returns a comparison as data for JSON. Numbers that are not finite become null."""
    numbers = {"error": c.error, "tolerance": c.tolerance, "uncertainty": c.uncertainty}
    finite = {name: float(x) if math.isfinite(x) else None for name, x in numbers.items()}
    return {"name": c.name, "agrees": bool(c.agrees), "where": c.where, **finite}


def _lines_of(faults: Sequence[OpError], file: str) -> Iterator[str]:
    """Yields a line for each op whose derivative disagrees with finite differences, with the line of its source."""
    if not faults:
        yield f"{file}: the derivative of each op agrees by itself, or no op has a derivative\n"
    for fault in list({x.site.number: x for x in reversed(faults)}.values())[::-1][:_MOST]:
        place = click.style(f"{fault.site.place or file}: ", bold=True)
        what = f"the {'JVP' if fault.mode == 'fwd' else 'VJP'} of {fault.site.short} is at fault"
        c = fault.comparison
        error = f"relative error {c.error:.1e} (tolerance {c.tolerance:.1e})"
        yield f"{place}{click.style(what, fg='red', bold=True)}: {error}\n"
        yield from (f"{line}\n" for line in source_at(fault.site.place))
    more = len({x.site.number for x in faults}) - _MOST
    if more > 0:
        yield f"and {more} more: see --json\n"


def _fault(fault: OpError) -> dict[str, object]:
    numbers = {name: x for name, x in _data(fault.comparison).items() if name in ("error", "tolerance")}
    return {"op": fault.site.name, "place": fault.site.place, "mode": fault.mode, **numbers}


def _engine(engine: str, options: Options) -> Run:
    def compiled(program: Program) -> Call:
        with waiting(f"compiling for {options.target}"):
            return compile_program(program.lower(), engine, options)

    return compiled


def _arguments(
    program: Program,
    texts: Sequence[str],
    seed: int,
    dtype: str,
    expected: dict[str, Array] | None,
    path: str,
) -> Sequence[Array]:
    """Returns the arrays that `--input` gives. Without `--input`, returns the stored arguments or else random ones."""
    values = (in_double(program) if dtype == "f64" else program).signature.inputs
    if texts or expected is None:
        return arguments(texts or ["random"], values, seed)
    return _stored_inputs(expected, len(values), path)


def _stored_inputs(expected: dict[str, Array], count: int, path: str) -> list[Array]:
    missing = next((i for i in range(count) if f"input.{i}" not in expected), None)
    if missing is not None:
        raise InputError(f"no array input.{missing}; give the arguments with --input", path)
    return [expected[f"input.{i}"] for i in range(count)]


def _source(expected: dict[str, Array], path: str) -> str:
    return f"{expected['source']} ({path})" if "source" in expected else f"those in {path}"


COMMANDS = {"check": _check}
