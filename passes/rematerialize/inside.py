"""inside: the bytes that are live in the regions of loops, branches and calls, and the time of these regions.

    while h, s:  t = tanh h (4 MiB);  s' = update s by t;  h' = t w (4 MiB)      inside: t and h'

A loop-carried value does not count as inside, because it is a result of the loop. The model assumes that loop-carried
values, such as the array s, are updated in place. The host runs a large loop, and launches the ops of each iteration.
In contrast, a small loop is one kernel, which launches nothing and allocates no memory in its iterations
(`dialect/control/small_loops.py`).
"""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace

from tiduc.dialect.control.control import Branches, Loop, control, is_control
from tiduc.dialect.control.small_loops import is_small
from tiduc.dialect.control.trip_count import most_iterations
from tiduc.dialect.facts.costs import is_open, seconds, size_in_bytes
from tiduc.dialect.facts.rates import rates
from tiduc.dialect.facts.updates import updated
from tiduc.dialect.graph.cache import Cache
from tiduc.dialect.graph.graph import Definition, Graph, Value
from tiduc.dialect.graph.view import View
from tiduc.dialect.ops.traits import traits_of
from tiduc.dialect.ops.verify import RECOMPUTED
from tiduc.dialect.shapes.origins import DYNAMIC, sizes_in
from tiduc.passes.rematerialize.emit import BARRIER
from tiduc.passes.rematerialize.liveness import Liveness, liveness


@dataclass(frozen=True)
class Inside:
    """The memory and the time of an op's regions, or of a graph.

    `bytes` is the peak of the live bytes, without operands and results. `seconds` is the time without the launches of
    ops; `launches` is the number of launches.
    """

    bytes: int
    seconds: float
    launches: int = 1


_END_REGIONS = "algebra", "call", "order"
"""The kinds of ops after which IREE starts another execution region."""

_OF_GRAPHS = Cache[tuple[Graph, int], Inside]()


def with_inside(view: View, model: Liveness, inputs: Collection[Value] = ()) -> Liveness:
    """Adds the bytes that are live in the regions of control flow to the model, and returns the new model.

    `inputs` are the graph inputs whose memory may be overwritten. A loop reuses the memory of an initial value that
    nothing else reads. Operands that a loop does not read in its regions do not count as read.
    """
    within: dict[Definition, int] = {}
    if not any(is_control(op) for op in model.ops):
        return model
    readers = Counter(x for op in model.ops for x in dict.fromkeys(op.reads))
    number = {y: i for i, op in enumerate(model.ops) for y in op.results}
    stored, reads = set(inputs), list(model.reads)
    for i, op in enumerate(model.ops):
        if model.size[i] and i not in model.kept:
            stored.update(op.results)
    for i, op in enumerate(model.ops):
        if not is_control(op):
            continue
        record = control(view, op)
        within[op] = inside(view, op).bytes
        if isinstance(record, Loop):
            reused = [x for x in record.inits if readers[x] == 1 and x in stored]
            within[op] -= sum(map(size_in_bytes, reused))
            read = [number[x] for x in _read(record) if x in number]
            reads[i] = tuple(dict.fromkeys(k for j in read for k in model.roots[j]))
    return replace(model, inside=within, reads=reads)


def _read(record: Loop) -> list[Value]:
    """Returns the operands of a loop, except invariants that its condition and body neither read nor return."""
    graphs = [record.body, *([record.cond] if record.cond else [])]
    read = {x for graph in graphs for op in graph.definitions for x in op.reads}
    first = len(record.inits) + len(record.sequences)
    inner = [list(graph.inputs.values())[first:] for graph in graphs]
    if any(len(each) != len(record.invariants) for each in inner):
        return list(record.operands)
    invariants = [
        x
        for x, *same in zip(record.invariants, *inner, strict=True)
        if not read.isdisjoint(same) or not set(record.body.outputs).isdisjoint(same)
    ]
    return [*record.inits, *record.sequences, *invariants]


def with_regions(view: View, model: Liveness) -> Liveness:
    """Returns the model of a whole program, with `may_split` set if the program may be split into two regions.

    It may not if a value has a dynamic dimension, or if an op ends an execution region anyway. Such ops are loops that
    are not one kernel, branches, calls, and barriers other than those of recomputed ops. Sorts, factorizations and
    custom calls are such ops, too, because `tiduc compile` lowers them to loops or puts them between barriers.
    """
    for op in model.ops:
        if op.name == BARRIER:
            ends = RECOMPUTED not in op.attributes
        elif traits_of(op.name).kind in _END_REGIONS:
            ends = True
        else:
            ends = is_control(op) and not _is_kernel(control(view, op), view)
        if ends or any(map(is_open, op.results)):
            return model
    return replace(model, may_split=True)


def total_seconds(view: View, graph: Graph) -> float:
    """The estimated time of a graph. The estimate includes launches only for ops in loops.

    A loop of unknown trip count counts as many iterations as its bound, or one iteration if it has no bound.
    """
    return sum(inside(view, op).seconds if is_control(op) else seconds(op) for op in graph.definitions)


def seconds_of_iteration(view: View, body: Graph) -> float:
    """The estimated time of one iteration of a loop. It includes launches of ops unless the loop is one kernel."""
    measured = _of_graph(view, body)
    return measured.seconds + (0 if is_small(view, body) else measured.launches / rates().launches)


def inside(view: View, op: Definition) -> Inside:
    """Returns the memory and time of the regions of a control-flow op. For branches, returns the maxima over them."""
    record = control(view, op)
    if isinstance(record, Branches):
        every = [_of_graph(view, graph) for graph in record.graphs]
        return Inside(max(each.bytes for each in every), max(each.seconds for each in every))
    count = record.trip_count or record.bound or most_iterations(record)
    if count is None and record.cond is None and record.sequences:
        length = sizes_in(record.sequences[0].type)[0]
        count = length if length != DYNAMIC else None
    body = _of_graph(view, record.body, len(record.inits))
    bytes_ = 0 if _is_kernel(record, view) else body.bytes
    return Inside(bytes_, (count or 1) * seconds_of_iteration(view, record.body))


def _is_kernel(record: Branches | Loop, view: View) -> bool:
    """Whether control flow is a loop that is small enough for one kernel."""
    if isinstance(record, Branches):
        return False
    return is_small(view, record.body) and (record.cond is None or is_small(view, record.cond))


def _of_graph(view: View, graph: Graph, carries: int = 0) -> Inside:
    """The memory and time of a graph that may overwrite its first `carries` inputs."""
    return _OF_GRAPHS.get(view, (graph, carries), lambda: _measured(view, graph, carries))


def _measured(view: View, graph: Graph, carries: int) -> Inside:
    written = set(list(graph.inputs.values())[:carries])
    model = with_inside(view, liveness(graph), written)
    for i, op in enumerate(model.ops):
        if updated(op) in written:
            model.size[i], model.kept[i] = 0, 0
            written.update(op.results)
    launches = sum(size > 0 for size in model.size)
    return Inside(model.peak(range(len(model.ops))) - model.arguments, total_seconds(view, graph), launches)
