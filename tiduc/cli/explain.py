"""explain: prints the activity, the residuals, the costs and the choices at kinks of a program."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from tiduc.cli.communication import communication_tables
from tiduc.cli.derivatives import LOOP_MEMORY, WRT, parse_wrt
from tiduc.cli.diagnostics import about, waiting
from tiduc.cli.files import (
    ENTRY,
    FILE,
    JSON,
    OUTPUT,
    write,
    write_json,
)
from tiduc.cli.rules import RULES, read_with
from tiduc.cli.tables import rendered, table
from tiduc.explain import Explanation, as_json, explain
from tiduc.explain.costs import Cost
from tiduc.explain.orders import Prediction
from tiduc.passes.jet import MAX_ORDER
from tiduc.passes.rules.registry import OpSet
from tiduc.program import from_module
from tiduc.reading import entry_in
from tiduc.view.dot import place as _place
from tiduc.view.label import in_bytes

if TYPE_CHECKING:
    from rich.table import Table

SHOWN = 12  # the largest number of residuals that are listed
PLACES = 3  # the largest number of source locations that are listed for a kink


@click.command("explain")
@FILE
@ENTRY
@WRT
@RULES
@click.option("--inline", is_flag=True, help="Inline every call before differentiating.")
@LOOP_MEMORY
@click.option(
    "--order",
    type=click.IntRange(1, MAX_ORDER),
    metavar="K",
    help="Also predict the cost of the jet of this order, which 'tiduc jet' makes.",
)
@click.option(
    "--memory",
    is_flag=True,
    help="Also list the memory peaks that budgets can reach for the VJP, and the time for each peak.",
)
@click.option(
    "--budget",
    default="",
    metavar="SIZE",
    help="Also list the values that the VJP recomputes within this memory budget, in the syntax of --memory of "
    "'tiduc vjp'.",
)
@click.option(
    "--sharding",
    is_flag=True,
    help="Also list the bytes that the devices of a sharded program exchange, and on paper on 8 to 1,024 devices. "
    "XLA, which needs JAX, partitions the program for simulated devices.",
)
@JSON
@OUTPUT
def _explain(
    file: str,
    entry: str | None,
    wrt: tuple[str, ...],
    opset: OpSet,
    inline: bool,
    loop_memory: str,
    order: int | None,
    memory: bool,
    budget: str,
    sharding: bool,
    as_data: bool,
    output: str,
) -> None:
    """Explain the derivatives of a program: what is active and why, and what they cost.

    Lists the residuals of the reverse pass, with their bytes; the FLOPs and bytes of the program, its JVP and its VJP;
    the five most expensive ops; and each kink whose derivative is a convention. Nothing is compiled or run: costs
    follow from shapes, and bytes are those of ops without fusion.
    """
    with about(file), waiting(f"explaining {file}"):
        module, entry = entry_in(read_with(opset, file), entry)
        program = from_module(module, entry, opset, inline, loop_memory)
        explanation = explain(module, program, parse_wrt(program, wrt), order, memory, budget, sharding)
    if as_data:
        write_json(as_json(explanation), output)
    else:
        write(rendered(_tables(explanation, file, budget), output), output)


def _tables(explanation: Explanation, file: str, budget: str) -> Iterable["Table"]:
    heading = f"{file}: @{explanation.name}"
    yield table(
        heading,
        ("input", "type", "active", "why"),
        [(x.name, x.type, "yes" if x.active else "no", x.why) for x in explanation.inputs],
    )
    yield table(
        "Ops",
        ("active", "ops", "why", "such as"),
        [
            ("yes" if reason.active else "no", f"{reason.ops:,}", reason.why, ", ".join(reason.examples))
            for reason in explanation.activity
        ],
        right={1},
    )
    yield from _residuals(explanation, file)
    yield table(
        "Cost",
        ("", "FLOPs", "transcendental", "bytes", "ops"),
        [_cost_row(name, cost, explanation.costs["primal"]) for name, cost in _costs(explanation)],
        right={1, 2, 3, 4},
        notes=_notes(explanation),
    )
    yield from _memory(explanation, file, budget)
    if explanation.exchange is not None:
        yield from communication_tables(explanation.exchange)
    of = "VJP" if "vjp" in explanation.costs else "program"
    total = max(1, (explanation.costs.get("vjp") or explanation.costs["primal"]).flops)
    yield table(
        f"Most expensive ops of the {of}",
        ("op", "type", "where", "FLOPs", "share", "bytes", "times"),
        [
            (
                op.op,
                op.type,
                _place(op.place, file),
                f"{op.flops:,}",
                f"{op.flops / total:.0%}",
                in_bytes(op.bytes),
                f"{op.times:,}",
            )
            for op in explanation.most_expensive
        ],
        right={3, 4, 5, 6},
    )
    yield table(
        "Choices at kinks",
        ("op", "where", "derivative", "in the program"),
        [
            (kink.op, kink.choice.where, kink.choice.choice, _places(kink.places, kink.times, file))
            for kink in explanation.kinks
        ],
        notes=[f"see {link}" for link in dict.fromkeys(kink.choice.link for kink in explanation.kinks)],
    )


def _residuals(explanation: Explanation, file: str) -> Iterable["Table"]:
    if "vjp" in explanation.refused:
        return
    kept = [x for x in explanation.residuals if not x.is_argument]
    arguments = [x.name for x in explanation.residuals if x.is_argument]
    rows = [(x.name, x.type, _place(x.place, file), in_bytes(x.bytes)) for x in kept[:SHOWN]]
    more = kept[SHOWN:]
    notes = [f"{len(more)} more, of {in_bytes(sum(x.bytes or 0 for x in more))}"] if more else []
    notes += [f"and these arguments: {', '.join(arguments)}"] if arguments else []
    title = f"Kept for the reverse: {len(kept)} value{'s' * (len(kept) != 1)}, {in_bytes(explanation.residual_bytes)}"
    yield table(title, ("value of", "type", "where", "bytes"), rows, right={3}, notes=notes)


def _memory(explanation: Explanation, file: str, budget: str) -> Iterable["Table"]:
    """Yields tables of the memory peaks that the VJP can have, and of the values that it recomputes within a budget."""
    if explanation.memory:
        yield table(
            "Memory of the VJP",
            ("peak", "share", "time"),
            [(in_bytes(x.bytes), f"{x.share:.2f}x", f"{x.time:.2f} x") for x in explanation.memory],
            right={0, 1, 2},
            notes=[
                "estimated for 'tiduc compile' on CPUs; --memory of 'tiduc vjp' takes a budget",
                "peak: with arguments and results; share: without them, relative to the VJP without a plan",
            ],
        )
    if not budget or "vjp" in explanation.refused:
        return
    values = explanation.recomputed
    more = values[SHOWN:]
    notes = [f"{len(more)} more, of {in_bytes(sum(x.bytes for x in more))}"] if more else []
    if values:
        notes.append(
            "they are live at a peak, where no op reads them; the op in the last column reads the recomputed value"
        )
    size, share = in_bytes(sum(x.bytes for x in values)), sum(x.share for x in values)
    title = f"Recomputed within {budget}: {len(values)} value{'s' * (len(values) != 1)}, {size}, {share:.0%} more time"
    rows = [
        (
            x.op,
            x.type,
            _place(x.place, file),
            in_bytes(x.bytes),
            str(x.times),
            f"{x.share:.1%}",
            f"{x.reader} {_place(x.reader_place, file)}",
        )
        for x in values[:SHOWN]
    ]
    header = ("value of", "type", "where", "bytes", "runs", "time", "for")
    yield table(title, header, rows, right={3, 4, 5}, notes=notes)


def _costs(explanation: Explanation) -> Iterable[tuple[str, Cost | Prediction]]:
    """Yields the name and the cost of the program, its JVP, its VJP and its jet."""
    yield from explanation.costs.items()
    if (jet := explanation.jet) is not None:
        yield f"jet, order {jet.order}", jet


def _cost_row(name: str, cost: Cost | Prediction, primal: Cost) -> tuple[str, ...]:
    def times(x: int, y: int) -> str:
        return f"  ({x / y:.2f} x)" if name != "primal" and y else ""

    return (
        "program" if name == "primal" else name.upper() if isinstance(cost, Cost) else name,
        f"{cost.flops:,}{times(cost.flops, primal.flops)}",
        f"{cost.transcendentals:,}",
        f"{in_bytes(cost.bytes)}{times(cost.bytes, primal.bytes)}",
        f"{len(cost.ops) if isinstance(cost, Cost) else cost.ops:,}",
    )


def _notes(explanation: Explanation) -> list[str]:
    """Returns notes below the costs: refused derivatives, facts about the jet, and ops that are not counted."""
    notes = [f"no {rule.upper()}: {why}" for rule, why in explanation.refused.items()]
    if (jet := explanation.jet) is not None:
        how = "" if jet.is_exact else ", predicted from jets of lower orders"
        notes.append(
            f"jet of order {jet.order}{how}; {jet.order} nested JVPs would have {jet.nested_ops:,} ops"
        )
    costs = explanation.costs.values()
    loops = dict.fromkeys(place for cost in costs for place in cost.unknown_loops)
    if loops:
        notes.append(
            f"counted as one iteration, since the trip count is unknown: the loop at {', '.join(loops)}"
        )
    if any(cost.open_sizes for cost in costs):
        notes.append("dynamic dimensions are counted as 1")
    uncounted = dict.fromkeys(name for cost in costs for name in cost.uncounted)
    if uncounted:
        notes.append(f"not counted: {', '.join(uncounted)}")
    return notes


def _places(places: Iterable[str], times: int, file: str) -> str:
    listed = [_place(where, file) for where in places]
    more = f" and {times - PLACES} more" if times > PLACES else ""
    return ", ".join(listed[:PLACES]) + more if listed else f"{times} times"


COMMANDS = {"explain": _explain}
