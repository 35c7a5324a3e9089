"""explain: says what a derivative of a program computes and costs, before the derivative is compiled.

    explain(module, program, wrt)   ->   what is active and why, residuals, costs, and the derivatives chosen at kinks

The facts follow from the ops of the program, of its JVP and of its VJP. No program runs.
"""

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from torch_mlir import ir

from tiduc.activity import REACHED, Activity, find_activity, functions, name_of
from tiduc.derivatives.jets import check_order
from tiduc.dialect.errors import TiducError, Unsupported, describe
from tiduc.dialect.graph.graph import operations
from tiduc.dialect.mlir.context import stage
from tiduc.dialect.ops.ir_types import IrOp
from tiduc.explain.communication import Exchange, find_exchange
from tiduc.explain.communication import as_json as exchange_as_json
from tiduc.explain.costs import Cost, OpCost, find_cost
from tiduc.explain.kinks import Kink, find_kinks
from tiduc.explain.orders import Prediction, predict
from tiduc.passes.importing.relus import mark_relus
from tiduc.passes.materialize_merge import Zero
from tiduc.passes.rematerialize.inside import total_seconds
from tiduc.passes.rematerialize.rematerialize import memory_curve, recomputed, unplanned
from tiduc.pipeline import loops_of, lowering, run_stages
from tiduc.ports import InputPort, Wrt
from tiduc.program import Program, lowered
from tiduc.splitting import split
from tiduc.view.label import title, type_name

NOT_ASKED = "not in wrt"
NO_PATH = "no output depends on it in a way that has a derivative"
_POINTS = 10  # the largest number of memory peaks in a report
_APART = 0.99  # a listed peak is at most this share of the previous listed peak
_EXAMPLES = 3  # the largest number of examples for each reason why ops are inactive
_NO_OPS = frozenset({"func.return", "return", "stablehlo.constant", "stablehlo.return", "tidu.name"})


@dataclass(frozen=True)
class Input:
    """An input of the program. `active` says whether the input is active, and `why` gives the reason.

    An inactive input has no cotangent, or its cotangent is zero.
    """

    name: str
    type: str
    active: bool
    why: str


@dataclass(frozen=True)
class Reason:
    """The number `ops` of ops that are active, or inactive, for the reason `why`.

    `examples` describes some of these ops, with their locations. Active ops have no examples.
    """

    active: bool
    why: str
    ops: int
    examples: tuple[str, ...]


@dataclass(frozen=True)
class ExplainedResidual:
    """A residual of the reverse pass: an argument of the program, or the result of an op.

    `bytes` is None for a dynamic shape. An argument needs no additional memory.
    """

    name: str
    type: str
    bytes: int | None
    place: str
    is_argument: bool


@dataclass(frozen=True)
class Peak:
    """A possible peak of the VJP's memory in bytes, and the VJP's time, as a multiple of the time without a budget.

    `share` is the value of `--memory` that gives this peak. It is the peak divided by the peak of the VJP without a
    plan, which keeps all values and runs its ops in the order of differentiation. For `share`, arguments and results do
    not count.
    """

    bytes: int
    time: float
    share: float


@dataclass(frozen=True)
class RecomputedValue:
    """A value that the VJP recomputes in order to stay within a memory budget.

    `times` is the number of times that the value's op runs, and `reader` is the op that reads the result of the second
    run. `share` is the time of the additional runs, divided by the time of the VJP without a budget.
    """

    op: str
    type: str
    place: str
    bytes: int
    times: int
    share: float
    reader: str
    reader_place: str


@dataclass(frozen=True)
class Explanation:
    """The contents of the report that `tiduc explain` prints.

    `refused` maps "jvp", "vjp" and "jet" to the error message if tiduc refuses that derivative.
    """

    name: str
    inputs: tuple[Input, ...]
    activity: tuple[Reason, ...]
    residuals: tuple[ExplainedResidual, ...]
    costs: dict[str, Cost]
    refused: dict[str, str]
    kinks: tuple[Kink, ...]
    jet: Prediction | None = None
    memory: tuple[Peak, ...] = ()
    recomputed: tuple[RecomputedValue, ...] = ()
    exchange: Exchange | None = None

    @property
    def residual_bytes(self) -> int:
        """The total size in bytes of the residuals that are not arguments. Dynamic shapes count as 0."""
        return sum(kept.bytes or 0 for kept in self.residuals if not kept.is_argument)

    @property
    def most_expensive(self) -> list[OpCost]:
        """The five ops with the most FLOPs in the VJP, or in the program if it has no VJP."""
        cost = self.costs.get("vjp") or self.costs["primal"]
        return cost.most_expensive()


@stage
def explain(
    module: ir.Module,
    program: Program,
    wrt: Wrt = None,
    order: int | None = None,
    memory: bool = False,
    budget: str = "",
    sharding: bool = False,
) -> Explanation:
    """The explanation of `program`, which was loaded from `module`. `wrt` is as in `Program.vjp`.

    With `order`, the explanation contains the cost of the jet of that order. With `memory`, it contains the possible
    peaks of the VJP's memory, with times. With `budget`, it contains the values that the VJP recomputes to stay within
    this memory budget. With `sharding`, it contains the communication of the sharded program, and of its VJP. Raises
    `RequestError` if no plan stays within the budget, or if `sharding` is set but the program is not sharded.
    """
    chosen = program.differentiated(wrt)
    positions = [i for i, port in enumerate(program.inputs) if port in chosen]
    mark_relus(functions(module))  # an import of the module would do this, too
    activity = find_activity(module, {program.name: positions}, program.opset)
    costs = {"primal": find_cost(lowered(program))}
    refused: dict[str, str] = {}
    residuals: list[ExplainedResidual] = []
    peaks: list[Peak] = []
    reverse: Program | None = None
    zero: set[str] = set()
    for mode in ("jvp", "vjp"):
        try:
            derivative = getattr(program, mode)([port.name for port in chosen])
            costs[mode] = find_cost(lowered(derivative))
            if mode == "vjp":
                peaks = find_peaks(derivative) if memory else []
                reverse = derivative
                residuals = _residuals(program, [port.name for port in chosen])
                results = derivative.outputs[len(program.outputs) :]
                zero = {p.name for p, y in zip(chosen, results, strict=True) if isinstance(y.value, Zero)}
        except TiducError as error:
            refused[mode] = str(error)
    jet = None
    if order is not None:
        check_order(order)
        try:
            jet = predict(program, order, [port.name for port in chosen])
        except Unsupported as error:
            refused["jet"] = str(error)
    return Explanation(
        program.name,
        tuple(_input(program, port, chosen, zero) for port in program.inputs),
        tuple(_reasons(module, activity)),
        tuple(residuals),
        costs,
        refused,
        tuple(find_kinks(module, activity)),
        jet,
        tuple(peaks),
        tuple(_recomputed(reverse, budget) if budget and reverse is not None else ()),
        find_exchange({"primal": program} | ({"vjp": reverse} if reverse else {})) if sharding else None,
    )


@stage
def find_peaks(program: Program) -> list[Peak]:
    """At most `_POINTS` possible peaks of a program's memory, in descending order.

    A peak is omitted if it is less than 1% below the previous peak. From longer lists, evenly spaced peaks are chosen.
    The last peak is always the lowest possible peak.
    """
    structured = run_stages(program, lowering("structure")[1:], program.merged)
    given = unplanned(program.view, structured)
    beside = given.peak - given.throughout
    curve = [
        Peak(peak, time, (peak - given.throughout) / beside if beside else 1.0)
        for peak, time in memory_curve(program.view, structured, loops_of(program))
    ]
    points: list[Peak] = []
    for peak in curve:
        if not points or peak.bytes <= _APART * points[-1].bytes:
            points.append(peak)
    if len(points) > 1:
        points[-1] = curve[-1]  # the peak that `--memory min` reaches
    step = (len(points) - 1) / (_POINTS - 1)
    return points if len(points) <= _POINTS else [points[round(i * step)] for i in range(_POINTS)]


def _recomputed(program: Program, budget: str) -> list[RecomputedValue]:
    """The values that a program recomputes within a memory budget, in descending order of recomputed bytes."""
    structured = run_stages(program, lowering("structure")[1:], program.merged)
    total = total_seconds(program.view, structured)
    values = recomputed(program.view, structured, budget, loops_of(program))
    found = sorted(values, key=lambda each: -each.bytes * (each.times - 1))
    return [
        RecomputedValue(
            each.op.name.removeprefix("stablehlo."),
            ", ".join(type_name(y.type) for y in each.op.results),
            describe(each.op.location),
            each.bytes,
            each.times,
            each.seconds / total if total else 0.0,
            each.reader.name.removeprefix("stablehlo."),
            describe(each.reader.location),
        )
        for each in found
    ]


def as_json(explanation: Explanation) -> dict[str, Any]:
    """An explanation as a dictionary for JSON. docs/explain.md describes the fields."""
    return {
        "program": explanation.name,
        "inputs": [asdict(x) for x in explanation.inputs],
        "activity": [asdict(x) for x in explanation.activity],
        "residuals": [asdict(x) for x in explanation.residuals],
        "residual_bytes": explanation.residual_bytes,
        "costs": {name: _cost(cost) for name, cost in explanation.costs.items()},
        "jet": None if explanation.jet is None else asdict(explanation.jet),
        "memory": [asdict(peak) for peak in explanation.memory],
        "recomputed": [asdict(each) for each in explanation.recomputed],
        "communication": None if explanation.exchange is None else exchange_as_json(explanation.exchange),
        "most_expensive": [asdict(op) for op in explanation.most_expensive],
        "refused": explanation.refused,
        "kinks": [
            {
                "op": kink.op,
                "where": kink.choice.where,
                "choice": kink.choice.choice,
                "link": kink.choice.link,
                "places": list(kink.places),
                "times": kink.times,
            }
            for kink in explanation.kinks
        ],
    }


def _cost(cost: Cost) -> dict[str, Any]:
    return {
        "flops": cost.flops,
        "transcendentals": cost.transcendentals,
        "bytes": cost.bytes,
        "ops": len(cost.ops),
        "unknown_loops": list(cost.unknown_loops),
        "open_sizes": cost.open_sizes,
        "uncounted": list(cost.uncounted),
    }


def _residuals(program: Program, wrt: list[int | str]) -> list[ExplainedResidual]:
    """The residuals that `tiduc split` lists, in descending order of size. Arguments come last."""
    kept = []
    for residual in split(program, wrt).residuals:
        kind, _, name = residual.kind.partition(" ")
        name = name if kind == "input" else residual.kind.removeprefix("stablehlo.").removeprefix("func.")
        kept.append(
            ExplainedResidual(name, str(residual.type), residual.bytes, residual.place, kind == "input")
        )
    return sorted(kept, key=lambda each: (each.is_argument, -(each.bytes or 0)))


def _input(program: Program, port: InputPort, chosen: list[InputPort], zero: set[str]) -> Input:
    why = REACHED
    if program.opset.builder.tangent_type(port.type) is None:
        why = f"{type_name(port.type)} has no tangent"
    elif port not in chosen:
        why = NOT_ASKED
    elif port.name in zero:
        why = NO_PATH
    return Input(port.name, type_name(port.type), why == REACHED, why)


def _reasons(module: ir.Module, activity: Activity) -> list[Reason]:
    """The numbers of active and inactive ops of a module, grouped by reason. Active ops come first."""
    counts: Counter[str] = Counter()
    examples: dict[str, list[str]] = {}
    for function in functions(module).values():
        for op in operations(function.regions[0].blocks[0]):
            if op.name in _NO_OPS or not len(op.results):
                continue
            why = activity.why.get(op, REACHED)
            counts[why] += 1
            places = examples.setdefault(why, [])
            if why != REACHED and len(places) < _EXAMPLES:
                places.append(f"{title(op) or name_of(op)} {_line(op)}".rstrip())
    order = sorted(counts, key=lambda why: (why != REACHED, -counts[why]))
    return [Reason(why == REACHED, why, counts[why], tuple(examples[why])) for why in order]


def _line(op: IrOp) -> str:
    """The line and column of an op as ":LINE:COLUMN". Returns "" if the location is unknown."""
    return ":" + ":".join(describe(op.location).rsplit(":", 2)[-2:]) if describe(op.location) else ""
