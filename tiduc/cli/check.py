"""check: the table of comparisons."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import click

from tiduc.backends.named_main import text_with_main
from tiduc.check import Comparison, check
from tiduc.cli.derivatives import LOOP_MEMORY, WRT, wanted
from tiduc.cli.diagnostics import about, is_quiet, waiting
from tiduc.cli.execution import INPUTS, SEED, TARGET, arguments, compiling
from tiduc.cli.files import ENTRY, FILE, JSON, read_module, write, write_json
from tiduc.cli.rules import RULES
from tiduc.dialect.errors import InputError
from tiduc.passes.rules.registry import OpSet
from tiduc.program import Program, from_module
from tiduc.runtime.arrays import Array, read_npz
from tiduc.runtime.process import Limits

_AGREES = click.style("agrees", fg="green")
_DISAGREES = click.style("DISAGREES", fg="red", bold=True)


@click.command("check")
@FILE
@ENTRY
@WRT
@RULES
@LOOP_MEMORY
@INPUTS
@SEED
@TARGET
@click.option(
    "--engine",
    type=click.Choice(["iree", "xla", "reference"]),
    default="iree",
    show_default=True,
    help="Run what IREE or XLA compiles, or the reference interpreter of StableHLO: slow, and exact.",
)
@compiling
@click.option(
    "--expect",
    metavar="FILE.npz",
    help="Compare with stored numbers too: loss, grad.0, grad.1, ..., jvp, hvp.0, ... along tangent.0, .... "
    "Without --input, the arguments are its input.0, input.1, ....",
)
@JSON
def _check(
    file: str,
    entry: str | None,
    wrt: tuple[str, ...],
    opset: OpSet,
    loop_memory: str,
    inputs: tuple[str, ...],
    seed: int,
    target: str,
    engine: str,
    limits: Limits,
    cached: bool,
    expect: str | None,
    as_data: bool,
) -> int:
    """Check the derivatives of a program: JVP against central differences, VJP against JVP.

    Arguments are random unless given. Exit status 1 means that something disagrees.
    """
    with about(file):
        program = from_module(
            read_module(file, dialects=opset.dialects), entry, opset, loop_memory=loop_memory
        )
        expected = read_npz(expect) if expect is not None else None
        values = program.signature.inputs
        if inputs or expected is None:
            given: Sequence[Array] = arguments(inputs or ["random"], values, seed)
        else:
            given = _stored_inputs(expected, len(values), str(expect))
        comparisons = []
        for c in check(
            program, given, _engine(engine, target, limits, cached), wanted(program, wrt), expected, seed
        ):
            verdict = _AGREES if c.agrees else _DISAGREES
            line = f"{verdict}  {c.name}: differs by {c.difference:.1e}, may by {c.allowed:.1e}\n"
            if not as_data and not (c.agrees and is_quiet()):
                write(line)
            comparisons.append(c)
    wrong = [c for c in comparisons if not c.agrees]
    if as_data:
        write_json({"file": file, "agrees": not wrong, "comparisons": [_data(c) for c in comparisons]})
        return int(bool(wrong))
    if not wrong and is_quiet():
        return 0
    against = f" with {_source(expected, str(expect))} and" if expected is not None else " with"
    count = f"{len(comparisons)} comparison{'s' * (len(comparisons) != 1)}"
    if wrong:
        write(f"{file}: {len(wrong)} of {count} disagree\n")
        return 1
    write(f"{file}: the derivatives agree{against} finite differences, in {count}\n")
    return 0


def _data(c: Comparison) -> dict[str, Any]:
    """A comparison as JSON; what is not finite is null there."""
    numbers = {"difference": float(c.difference), "allowed": float(c.allowed)}
    finite = {name: x if math.isfinite(x) else None for name, x in numbers.items()}
    return {"name": c.name, "agrees": bool(c.agrees), **finite}


def _engine(
    engine: str, target: str, limits: Limits, cached: bool
) -> Callable[[Program], Callable[..., Any]]:
    def compiled(program: Program) -> Callable[..., Any]:
        with waiting(f"compiling for {target}"):
            if engine == "xla":
                return program.compile(target, engine="xla")
            return program.compile(target, limits=limits, cached=cached)

    def interpreted(program: Program) -> Callable[..., Any]:
        from tiduc.backends.reference.interpreter import evaluate

        text = text_with_main(program.module)
        return lambda *arrays: evaluate(text, arrays, limits)

    return interpreted if engine == "reference" else compiled


def _stored_inputs(expected: dict[str, Array], count: int, path: str) -> list[Array]:
    missing = next((i for i in range(count) if f"input.{i}" not in expected), None)
    if missing is not None:
        raise InputError(f"no array input.{missing}; give the arguments with --input", path)
    return [expected[f"input.{i}"] for i in range(count)]


def _source(expected: dict[str, Array], path: str) -> str:
    return f"{expected['source']} ({path})" if "source" in expected else f"those in {path}"


COMMANDS = {"check": _check}
