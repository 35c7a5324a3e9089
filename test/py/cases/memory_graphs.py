"""Creates graphs for tests of memory budgets, and computes their lowest peaks."""

import functools
import heapq
import itertools
import random
from collections.abc import Sequence

from torch_mlir import ir

from tiduc.dialect.graph.graph import Definition, Graph, Value
from tiduc.dialect.mlir.context import context

MIB = 2**20


def graph_of(sizes: Sequence[int], needs: Sequence[Sequence[int]], outputs: Sequence[int]) -> Graph:
    """Returns a graph of ops that compilers cannot fuse.

    Op i returns an array of `sizes[i]` MiB. Its operands are the results of the ops `needs[i]`, or an argument of one
    byte if `needs[i]` is empty.
    """
    graph = Graph("main", ir.Location.unknown(context()))
    with context(), ir.Location.unknown():
        byte = ir.IntegerType.get_signless(8)
        argument = Value(ir.RankedTensorType.get([1], byte), graph, key="x")
        graph.inputs["x"] = argument
        for size, before in zip(sizes, needs, strict=True):
            operands = tuple(graph.definitions[j].results[0] for j in before) or (argument,)
            op = Definition("stablehlo.composite", operands, graph, location=graph.location)
            op.results = (Value(ir.RankedTensorType.get([size * MIB], byte), graph, op),)
            graph.definitions.append(op)
    graph.outputs = [graph.definitions[i].results[0] for i in outputs]
    return graph


def random_dag(seed: int, count: int = 9) -> tuple[list[int], list[list[int]], list[int]]:
    """Draws the arguments of `graph_of` for a random graph.

    The sizes are from 1 to 8 MiB. The outputs are the results that no other op reads.
    """
    source = random.Random(seed)
    sizes = [source.randint(1, 8) for _ in range(count)]
    needs = [sorted(source.sample(range(i), min(i, source.randint(1, 3)))) for i in range(count)]
    read = set(itertools.chain(*needs))
    return sizes, needs, [i for i in range(count) if i not in read]


def lowest_peak(sizes: Sequence[int], needs: Sequence[Sequence[int]], outputs: Sequence[int]) -> int:
    """Returns the lowest peak in MiB of all schedules, which may compute results several times.

    The search goes over all sets of live results. An output is live from its op to the end.
    """
    goal = set(outputs)
    total, taken = sum(sizes[i] for i in outputs), [0 if i in goal else n for i, n in enumerate(sizes)]
    start: frozenset[int] = frozenset()
    best = {start: total}
    queue = [(total, 0, start)]
    numbers = itertools.count(1)
    while queue:
        peak, _, live = heapq.heappop(queue)
        if goal <= live:
            return peak
        if peak > best[live]:
            continue
        held = total + sum(taken[i] for i in live)
        following = [(peak, live - {i}) for i in live]
        following += [
            (max(peak, held + taken[i]), live | {i})
            for i in range(len(sizes))
            if i not in live and live.issuperset(needs[i])
        ]
        for after, state in following:
            if after < best.get(state, 2**60):
                best[state] = after
                heapq.heappush(queue, (after, next(numbers), state))
    raise AssertionError("no schedule")


def chain(layers: int) -> tuple[list[int], list[list[int]], list[int]]:
    """Returns the arguments of `graph_of` for the gradient of a chain of `layers` steps.

    The reverse pass has the same number of steps. Each of its steps reads a result of the forward pass. All results
    have 1 MiB.
    """
    needs: list[list[int]] = [[i - 1] if i else [] for i in range(layers)]
    for i in reversed(range(layers)):
        needs.append([len(needs) - 1, i])
    return [1] * len(needs), needs, [len(needs) - 1]


@functools.cache
def binomial(steps: int, checkpoints: int) -> int:
    """Returns the least number of forward steps for the reversal of a chain of `steps` steps.

    The memory holds `checkpoints` checkpoints. By Griewank and Walther (2000), the number is
    r steps - C(checkpoints + r, r - 1), where r is the number of times that a step is computed at most.
    """
    import math

    r = 1
    while math.comb(checkpoints + r, r) < steps:
        r += 1
    return r * steps - math.comb(checkpoints + r, r - 1)
