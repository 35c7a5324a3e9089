"""profile: prints the time, FLOPs and bytes of each dispatch of a program."""

import json

import click

from tiduc.backends.backend import Options
from tiduc.calibrate import calibrate
from tiduc.cli.diagnostics import about, waiting
from tiduc.cli.execution import FAST, INPUTS, TARGET, arguments, compiling, program_in
from tiduc.cli.files import ENTRY, FILE, JSON, OUTPUT, write, write_json
from tiduc.cli.rules import RULES
from tiduc.dialect.facts.rates import given_rates
from tiduc.passes.rules.registry import OpSet
from tiduc.profiling import Profile, as_json, as_trace, profile
from tiduc.profiling.rows import ComputedOp, Row

SHOWN = 20  # the largest number of rows that are printed
OPS = 3  # the largest number of ops that are printed in a row


@click.command("profile")
@FILE
@ENTRY
@RULES
@TARGET
@FAST
@INPUTS
@compiling
@click.option(
    "--calls", type=click.IntRange(1, 10**6), default=10, show_default=True, help="Calls to measure."
)
@click.option(
    "--trace", metavar="OUT.json", help="Also write the fastest call as a trace for Chrome or Perfetto."
)
@JSON
@OUTPUT
def _profile(
    file: str,
    entry: str | None,
    opset: OpSet,
    inputs: tuple[str, ...],
    options: Options,
    calls: int,
    trace: str | None,
    as_data: bool,
    output: str,
) -> None:
    """Measure each dispatch of a program on this CPU, and show the ops that the dispatch computes.

    Each row shows the FLOPs and bytes of a dispatch, its least time in several calls, and the fraction of the machine's
    speed that it reaches. Inputs default to random arrays. TIDUC_COSTS names a file with the machine's speed; without
    it, the speed is measured first.
    """
    with about(file):
        program = program_in(file, entry, opset)
        arrays = arguments(inputs or ("random",), program.signature.inputs, 0)
    with about(file), waiting(f"profiling {file}"):
        measured = profile(program, arrays, options, given_rates() or calibrate(options.target), calls)
    if trace is not None:
        write(json.dumps(as_trace(measured)) + "\n", trace)
    if as_data:
        write_json(as_json(measured), output)
    else:
        write("".join(f"{line}\n" for line in _lines(measured)), output)


def _lines(measured: Profile) -> list[str]:
    """Returns the lines of the table, which has a row for each dispatch."""
    total = sum(row.seconds for row in measured.rows)
    table: list[tuple[str, ...]] = [
        ("us", "share", "runs", "FLOPs", "bytes", "peak", "limit", "ops", "kernel")
    ]
    table += [_cells(row, total) for row in measured.rows[:SHOWN]]
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    right = range(6)
    lines = [
        "  ".join(
            cell.rjust(n) if i in right else cell.ljust(n)
            for i, (cell, n) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in table
    ]
    more = len(measured.rows) - SHOWN
    call = f"{1e6 * measured.seconds:.1f} us a call, dispatches {1e6 * total:.1f} us"
    whole = f"@{measured.name} on {measured.device}: {call}"
    return [whole, "", *lines, *([f"{more} more rows: see --json"] if more > 0 else [])]


def _cells(row: Row, total: float) -> tuple[str, ...]:
    share = row.seconds / total if total else 0.0
    return (
        f"{1e6 * row.seconds:.1f}",
        f"{share:.1%}",
        str(row.runs),
        f"{row.flops:,}",
        "-" if row.bytes is None else f"{row.bytes:,}",
        f"{row.peak:.2f}",
        row.limit,
        _ops(row.ops),
        row.kernel,
    )


def _ops(ops: tuple[ComputedOp, ...]) -> str:
    """Lists the ops with the most FLOPs, each with its line and column."""
    most = sorted(ops, key=lambda op: -op.flops)
    named = [f"{op.op} {':'.join(op.place.rsplit(':', 2)[-2:])}".strip() for op in most[:OPS]]
    more = f" and {len(ops) - OPS} more" if len(ops) > OPS else ""
    return ", ".join(named) + more


COMMANDS = {"profile": _profile}
