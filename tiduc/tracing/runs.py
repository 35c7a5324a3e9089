"""runs: the values of sites, and their tangents or cotangents, computed in batches that fit into a limit of memory.

Each batch is one compiled program. If the stacks of one loop exceed the limit, the batch runs once for each window of
iterations of the outermost loop.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np

from tiduc.dialect.graph.functions import symbol
from tiduc.dialect.graph.graph import operations
from tiduc.dialect.mlir.context import stage
from tiduc.dialect.ops.control_ops import CALL, CASE, DERIVATIVES, LOOP
from tiduc.passes.importing.import_stablehlo import clone
from tiduc.passes.materialize_merge import Zero
from tiduc.ports import Wrt
from tiduc.program import Program, from_module
from tiduc.runtime.arrays import Array
from tiduc.tracing.rewrite import PROBE, Ran, Stacks, Trips, Wanted, rewrite
from tiduc.tracing.survey import Site, Survey, graph_in, survey

Run = Callable[[Program], Callable[..., Sequence[Array]]]
"""Makes a callable on arrays from a program, with some engine."""

LIMIT = 2**28
"""How many bytes the values of one run may take together, by default."""


@dataclass(frozen=True)
class Traced:
    """A program with one graph, the survey of the graph, the arguments, and the sizes of stacks of values in loops."""

    program: Program
    found: Survey
    arguments: Sequence[Array]
    run: Run
    trips: Mapping[int, int]  # body of a loop -> the largest number of its iterations
    stacks: Stacks  # of all iterations, or of one row for loops that never run
    limit: int

    def rewritten(self, stacks: Stacks, values: Sequence[Wanted] = (), probes: Sequence[int] = ()) -> Program:
        """The program with values as its outputs, or with probes; see `rewrite`."""
        return _rewritten(self.program, stacks, values, probes)


@dataclass(frozen=True)
class Piece:
    """An array of a site: of all its iterations, or of those in the window `at` of the outermost loop."""

    site: Site
    array: Array
    at: slice


@dataclass(frozen=True)
class Batch:
    """Sites whose values one run returns, with their stacks; there is one run for each first iteration in `starts`."""

    sites: tuple[int, ...]
    stacks: Stacks
    starts: Sequence[int] = (0,)


def traced(program: Program, arguments: Sequence[Array], run: Run, limit: int = LIMIT) -> Traced:
    """The survey of a program, after a run that counts the iterations of its loops."""
    program = with_one_graph(program)
    found = survey(graph_in(program.graphs, program.name))
    loops = list(found.carries)
    trips: dict[int, int] = {}
    if loops:
        counting = _rewritten(program, Stacks({}), [Trips(loop) for loop in loops])
        counts = run(counting)(*arguments, _start(0))
        trips = {loop: int(n) for loop, n in zip(loops, counts, strict=True)}
    stacks = Stacks({loop: max(1, n) for loop, n in trips.items()})
    return Traced(program, found, arguments, run, trips, stacks, limit)


def with_one_graph(program: Program) -> Program:
    """The program as one graph in which every call that may be inlined is inlined.

    A program that was loaded keeps its ops; a derivative becomes its lowered form.
    """
    graph = program.view.graph(program.name)
    is_whole = [port.value for port in program.outputs] == graph.outputs
    is_whole = is_whole and [port.key for port in program.inputs] == list(graph.inputs)
    called = {op.name for op in graph.definitions} & {CALL, CASE, LOOP}
    if is_whole and not called and all(x.definition is None for x in graph.inputs.values()):
        return program
    inlined = from_module(program.module, program.name, program.opset, True, program.loop_memory)
    return inlined.rematerialize(program.memory)


def ran(t: Traced, regions: Sequence[int]) -> dict[int, Array]:
    """For each region, in which iterations of the loops around it the region ran."""
    known = {
        n: np.full(t.stacks.sizes[n], t.trips[n] > 0)
        for n in regions
        if t.found.path[n] == t.found.loops[n] == (n,)
    }
    others = [n for n in regions if n not in known]
    if others:
        got = t.run(t.rewritten(t.stacks, [Ran(n) for n in others]))(*t.arguments, _start(0))
        known |= dict(zip(others, got, strict=True))
    return known


def values(t: Traced, sites: Sequence[int]) -> Iterator[Piece]:
    """The values of sites."""
    for batch in batches(t, sites, 1):
        run = t.run(t.rewritten(batch.stacks, batch.sites))
        for start in batch.starts:
            yield from _pieces(t, batch, start, run(*t.arguments, _start(start)))


def active(t: Traced, sites: Sequence[int], wrt: Wrt) -> list[int]:
    """The sites that a tangent of the inputs in `wrt` reaches."""
    smooth = [n for n in sites if t.program.opset.builder.tangent_type(t.found.values[n].type) is not None]
    if not smooth:
        return []
    tangents = t.rewritten(t.stacks, smooth).jvp(wrt).outputs[len(smooth) :]
    return [n for n, port in zip(smooth, tangents, strict=True) if not isinstance(port.value, Zero)]


def tangents(t: Traced, sites: Sequence[int], wrt: Wrt, seeds: Sequence[Array]) -> Iterator[Piece]:
    """The tangents of sites, which must be active, for tangents of the inputs."""
    for batch in batches(t, sites, 2):
        derived = t.rewritten(batch.stacks, batch.sites).jvp(wrt)
        run = t.run(replace(derived, outputs=derived.outputs[len(batch.sites) :]))
        for start in batch.starts:
            yield from _pieces(t, batch, start, run(*t.arguments, _start(start), *seeds))


def cotangents(
    t: Traced, sites: Sequence[int], wrt: Wrt, seeds: Sequence[Array], shapes: Mapping[int, tuple[int, ...]]
) -> Iterator[Piece | Array]:
    """The cotangents of the inputs in `wrt`, as arrays, and of sites, for cotangents of the outputs.

    `shapes` has the shapes of values outside of loops.
    """
    names = [port.name for port in t.program.differentiated(wrt)]
    for batch in batches(t, sites, 2) if sites else [Batch((), t.stacks)]:
        probed = t.rewritten(batch.stacks, probes=batch.sites)
        ports = probed.inputs[len(t.program.inputs) : -1]
        derived = probed.vjp([*names, *(port.name for port in ports)])
        run = t.run(_without_probes(replace(derived, outputs=derived.outputs[len(probed.outputs) :])))
        zeros = [_zeros(t, n, batch.stacks, shapes) for n in batch.sites]
        for start in batch.starts:
            got = run(*t.arguments, *zeros, _start(start), *seeds)
            if start == 0:
                yield from got[: len(names)]
            yield from _pieces(t, batch, start, got[len(names) :])
        names = []  # those of the inputs are known


def batches(t: Traced, sites: Sequence[int], copies: int) -> Iterator[Batch]:
    """Batches of sites, each within the limit of memory for `copies` arrays of each value."""

    def outermost(n: int) -> int:
        return t.found.sites[n].loops[0] if t.found.sites[n].loops else 0

    if sum(copies * _bytes(t, n, t.stacks) for n in sites) <= t.limit:
        if sites:
            yield Batch(tuple(sites), t.stacks)
        return
    for loop, group in groupby(sorted(sites, key=lambda n: (outermost(n), n)), outermost):
        one = Stacks({**t.stacks.sizes, loop: 1} if loop else {})
        for part, total in _within(t, list(group), one, copies):
            if not loop:
                yield Batch(part, t.stacks)
                continue
            trips = t.stacks.sizes[loop]
            if trips * total <= t.limit:
                yield Batch(part, t.stacks)
            else:
                size = min(trips, max(1, t.limit // total - 1))  # and the last row, for other iterations
                yield Batch(part, Stacks({**t.stacks.sizes, loop: size}, loop), range(0, trips, size))


def _within(
    t: Traced, sites: Sequence[int], stacks: Stacks, copies: int
) -> Iterator[tuple[tuple[int, ...], int]]:
    """Groups of sites that fit into the limit, with their numbers of bytes; a site that does not fit is a group."""
    group: list[int] = []
    total = 0
    for n in sites:
        size = copies * _bytes(t, n, stacks)
        if group and total + size > t.limit:
            yield tuple(group), total
            group, total = [], 0
        group.append(n)
        total += size
    yield tuple(group), total


def _bytes(t: Traced, n: int, stacks: Stacks) -> int:
    """The bytes of a site's stack; an unknown size of a dimension counts as one."""
    site = t.found.sites[n]
    assert site.type.dtype is not None, "the survey leaves out other values"
    shape = (*stacks.shape(t.found, site.regions), *(size or 1 for size in site.type.shape))
    return int(np.prod(shape, dtype=object)) * site.type.dtype.itemsize


def _pieces(t: Traced, batch: Batch, start: int, arrays: Sequence[Array]) -> Iterator[Piece]:
    for n, array in zip(batch.sites, arrays, strict=True):
        site = t.found.sites[n]
        if not site.loops:
            yield Piece(site, array, slice(None))
            continue
        loop = site.loops[0]
        stop = min(start + batch.stacks.sizes[loop], t.stacks.sizes[loop])
        yield Piece(site, array[: stop - start], slice(start, stop))


def _zeros(t: Traced, n: int, stacks: Stacks, shapes: Mapping[int, tuple[int, ...]]) -> Array:
    site = t.found.sites[n]
    return np.zeros((*stacks.shape(t.found, site.regions), *shapes[n]), site.type.dtype)


@stage
def _without_probes(program: Program) -> Program:
    """The program with the functions that probe values, and their derivatives, inlined: they only return arguments."""
    module: Any = clone(program.module)
    for op in operations(module.body):
        if symbol(op).startswith(PROBE) and DERIVATIVES[0] in op.attributes:
            del op.attributes[DERIVATIVES[0]]
    made = from_module(module, program.name, program.opset, True, program.loop_memory)
    return made.rematerialize(program.memory)


def _rewritten(
    program: Program, stacks: Stacks, values: Sequence[Wanted], probes: Sequence[int] = ()
) -> Program:
    module: Any = clone(program.graphs)
    rewrite(module, program.name, stacks, values, probes)
    made = from_module(module, program.name, program.opset, loop_memory=program.loop_memory)
    return made.rematerialize(program.memory)


def _start(iteration: int) -> Array:
    return np.array(iteration, np.int32)
