"""profile: finds the time, FLOPs and bytes of each dispatch of a program, and the ops that the dispatch computes.

    program  ->  numbered ops  ->  module, and the ops and bytes of each dispatch   (backends/iree/dispatches.py)
    module   ->  events of several calls, from IREE's profiler                      (events.py)
    dispatches, events  ->  rows                                                    (rows.py)

A row is a dispatch. If a loop or a branch runs the dispatches of a kernel a varying number of times, one row has all
dispatches of this kernel.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from tiduc.backends.backend import LOOPS, Options
from tiduc.backends.iree.dispatches import number_in, numbered, with_dispatches
from tiduc.dialect.errors import RequestError
from tiduc.dialect.facts.rates import Rates
from tiduc.dialect.mlir.context import parse, stage
from tiduc.dialect.ops.ir_types import IrOp
from tiduc.explain.costs import find_cost
from tiduc.profiling.events import DispatchEvent, calls_of
from tiduc.profiling.rows import ComputedOp, Row, rows_of
from tiduc.program import Program, from_module
from tiduc.runtime.arrays import Array
from tiduc.runtime.placement import usual_device
from tiduc.runtime.process import scratch_folder
from tiduc.runtime.run import Executable


@dataclass(frozen=True)
class Profile:
    """The result of `profile`: measured rows, in descending order of time.

    `seconds` is the time of the fastest call, from the start of its first dispatch to the end of its last one. `events`
    are the dispatches of this call, in order. `rates` are the rates of the machine.
    """

    name: str
    device: str
    calls: int
    seconds: float
    rates: Rates
    rows: tuple[Row, ...]
    events: tuple[DispatchEvent, ...]


def profile(
    program: Program, arrays: Sequence[Array], options: Options, rates: Rates, calls: int = 10
) -> Profile:
    """Compiles a program for a CPU, calls it `calls` times with the arrays, and measures its dispatches.

    Raises `RequestError` if the target is not a CPU, or if factorizations call back to NumPy. Also raises the errors of
    `Program.compile`.
    """
    if options.lapack != LOOPS:
        raise RequestError("programs with factorizations by callbacks cannot be profiled: use --lapack loops")
    if not usual_device(options.target).startswith("local-"):
        raise RequestError(f"only programs for CPUs can be profiled, not programs for {options.target}")
    module, places = numbered(program.lower())
    with scratch_folder() as folder:
        vmfb, dispatches = with_dispatches(module, replace(options, cached=False), folder)
        executable = Executable(vmfb, options.target, program.name)
        measured = calls_of(executable, arrays, calls, folder)
    rows = rows_of(dispatches, _computed(places, module.module.operation, program), measured, rates)
    fastest = min(measured, key=lambda call: call[-1].end - call[0].start if call else 0)
    seconds = (fastest[-1].end - fastest[0].start) / 1e9 if fastest else 0.0
    return Profile(program.name, executable.device_name, calls, seconds, rates, tuple(rows), tuple(fastest))


@stage
def _computed(places: Sequence[str], module: IrOp, program: Program) -> dict[int, ComputedOp]:
    """Maps the numbers of ops in the numbered module to the ops, with their costs and their original locations."""
    text = str(module.get_asm(enable_debug_info=True))
    cost = find_cost(from_module(parse(text), program.name, program.opset))
    found: dict[int, ComputedOp] = {}
    for each in cost.ops:
        number = number_in(each.place)
        if number is not None:
            found[number] = ComputedOp(each.op, each.type, places[number], each.flops, each.transcendentals)
    return found


def as_json(profile: Profile) -> dict[str, object]:
    """Converts a profile to data for JSON. docs/profile.md describes the fields."""
    return asdict(replace(profile, events=())) | {"events": [each._asdict() for each in profile.events]}


def as_trace(profile: Profile) -> dict[str, object]:
    """Converts the fastest call to the JSON format of Chrome's trace viewer. Times are in microseconds."""
    start = profile.events[0].start if profile.events else 0
    return {
        "traceEvents": [
            {
                "name": each.kernel,
                "ph": "X",
                "ts": (each.start - start) / 1000,
                "dur": (each.end - each.start) / 1000,
                "pid": 0,
                "tid": 0,
            }
            for each in profile.events
        ],
        "displayTimeUnit": "ns",
    }
