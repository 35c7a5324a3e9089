"""rows: combines the measured times of dispatches with the costs of the ops that each dispatch computes."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tiduc.backends.iree.dispatches import Dispatch
from tiduc.dialect.facts.rates import Rates
from tiduc.profiling.events import Call


@dataclass(frozen=True)
class ComputedOp:
    """An op of the program: its name, type and location, and its total FLOPs and transcendentals in a call."""

    op: str
    type: str
    place: str
    flops: int
    transcendentals: int


@dataclass(frozen=True)
class Row:
    """The number of runs and the total costs, in one call, of a dispatch or of all dispatches of one kernel.

    `seconds` is the minimum over several calls. `bytes` is None if sizes are not constant. Each of the FLOPs, the
    transcendentals and the bytes takes some time at the rate of the machine. `limit` is the cost that takes the longest
    time, and `peak` is this time divided by `seconds`.
    """

    kernel: str
    runs: int
    seconds: float
    flops: int
    transcendentals: int
    bytes: int | None
    peak: float
    limit: str
    ops: tuple[ComputedOp, ...]


class _Measured(NamedTuple):
    kernel: str
    runs: int
    seconds: float
    bytes: int | None
    ops: frozenset[int]


def rows_of(
    dispatches: Sequence[Dispatch], ops: Mapping[int, ComputedOp], calls: Sequence[Call], rates: Rates
) -> list[Row]:
    """The rows, in descending order of time. If several rows have the same op, only the first row has its costs."""
    rows, counted = list[Row](), set[int]()
    for each in sorted(_measured(dispatches, calls), key=lambda each: -each.seconds):
        own = [ops[n] for n in sorted(each.ops - counted) if n in ops]
        counted |= each.ops
        flops, functions = sum(x.flops for x in own), sum(x.transcendentals for x in own)
        least = {
            "FLOPs": flops / rates.flops,
            "functions": functions / rates.functions,
            "bytes": (each.bytes or 0) / rates.bytes,
        }
        limit = max(least, key=least.__getitem__)
        peak = least[limit] / each.seconds if each.seconds else 0.0
        named = tuple(ops[n] for n in sorted(each.ops) if n in ops)
        rows.append(
            Row(each.kernel, each.runs, each.seconds, flops, functions, each.bytes, peak, limit, named)
        )
    return rows


def _measured(dispatches: Sequence[Dispatch], calls: Sequence[Call]) -> Iterator[_Measured]:
    """Yields the dispatches with their times.

    Merges the dispatches of a kernel into one, unless each call runs each of them exactly once.
    """
    of_kernel = defaultdict[str, list[Dispatch]](list)
    for each in dispatches:
        of_kernel[each.kernel].append(each)
    times = [defaultdict[str, list[float]](list) for _ in calls]
    for call, found in zip(calls, times, strict=True):
        for event in call:
            found[event.kernel].append((event.end - event.start) / 1e9)
    for kernel in dict.fromkeys(event.kernel for call in calls for event in call):
        known, every = of_kernel[kernel], [found[kernel] for found in times]
        if all(len(each) == len(known) for each in every):
            for i, one in enumerate(known):
                yield _Measured(kernel, 1, min(each[i] for each in every), one.bytes, frozenset(one.ops))
        else:
            runs = len(every[0])
            sizes = {one.bytes for one in known}
            size = sizes.pop() if len(sizes) == 1 else None
            ops = frozenset(n for one in known for n in one.ops)
            yield _Measured(kernel, runs, min(map(sum, every)), None if size is None else size * runs, ops)
