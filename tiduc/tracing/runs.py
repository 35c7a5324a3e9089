"""runs: computes the values of sites, and their tangents or cotangents, in batches that fit into a memory limit.

A site (`survey.py`) is one result of one op. Each batch is one compiled program. If the stacks of a site in a loop
exceed the limit, the program runs several times, each time for another window of iterations of the outermost loop.
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
"""A function that compiles a program. It returns a function from arrays to arrays."""

LIMIT = 2**28
"""The default limit of the bytes of all values that one run returns."""


@dataclass(frozen=True)
class Traced:
    """A program with one graph, its arguments, the survey of the graph, and the trip counts of its loops."""

    program: Program
    found: Survey
    arguments: Sequence[Array]
    run: Run
    trips: Mapping[int, int]  # region number of a loop's body -> the largest trip count of the loop
    stacks: Stacks  # stacks with a row for each iteration, or with one row for a loop without iterations
    limit: int

    def rewritten(self, stacks: Stacks, values: Sequence[Wanted] = (), probes: Sequence[int] = ()) -> Program:
        """Returns the program with its graph rewritten by `rewrite`."""
        return _rewritten(self.program, stacks, values, probes)


@dataclass(frozen=True)
class Piece:
    """The values, tangents or cotangents of a site in the iterations `at` of the outermost loop around it.

    Outside of loops, `at` is `slice(None)`, and `array` is one value.
    """

    site: Site
    array: Array
    at: slice


@dataclass(frozen=True)
class Batch:
    """Sites whose values one program returns. The program runs once for each number in `starts`.

    These numbers are the first iterations of the windows.
    """

    sites: tuple[int, ...]
    stacks: Stacks
    starts: Sequence[int] = (0,)


def traced(program: Program, arguments: Sequence[Array], run: Run, limit: int = LIMIT) -> Traced:
    """Surveys a program. If it has loops, runs it once to count their iterations."""
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
    """Returns the program as one graph, in which every call that may be inlined is inlined.

    Returns the program itself if it already has this form. Other programs, such as derivatives, are lowered first.
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
    """Returns, for each region, an array of booleans that states in which iterations of its loops the region ran.

    The array has one dimension for each loop around the region. For the body of a loop, this loop is one of them.
    """
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
    """Runs the program and yields the values of `sites`."""
    for batch in batches(t, sites, 1):
        run = t.run(t.rewritten(batch.stacks, batch.sites))
        for start in batch.starts:
            yield from _pieces(t, batch, start, run(*t.arguments, _start(start)))


def active(t: Traced, sites: Sequence[int], wrt: Wrt) -> list[int]:
    """Returns the sites in `sites` whose tangent is not a symbolic zero if the inputs in `wrt` have tangents."""
    smooth = [n for n in sites if t.program.opset.builder.tangent_type(t.found.values[n].type) is not None]
    if not smooth:
        return []
    tangents = t.rewritten(t.stacks, smooth).jvp(wrt).outputs[len(smooth) :]
    return [n for n, port in zip(smooth, tangents, strict=True) if not isinstance(port.value, Zero)]


def tangents(t: Traced, sites: Sequence[int], wrt: Wrt, seeds: Sequence[Array]) -> Iterator[Piece]:
    """Runs JVPs and yields the tangents of `sites`, which must be active.

    `seeds` are the tangents of the inputs in `wrt`.
    """
    for batch in batches(t, sites, 2):
        derived = t.rewritten(batch.stacks, batch.sites).jvp(wrt)
        run = t.run(replace(derived, outputs=derived.outputs[len(batch.sites) :]))
        for start in batch.starts:
            yield from _pieces(t, batch, start, run(*t.arguments, _start(start), *seeds))


def cotangents(
    t: Traced, sites: Sequence[int], wrt: Wrt, seeds: Sequence[Array], shapes: Mapping[int, tuple[int, ...]]
) -> Iterator[Piece | Array]:
    """Runs VJPs and yields the cotangents of the inputs in `wrt`, as arrays, and of `sites`, as pieces.

    `seeds` are the cotangents of the outputs. `shapes` maps each site to the shape of its value in one iteration.
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
        names = []  # the first batch has computed the cotangents of the inputs


def batches(t: Traced, sites: Sequence[int], copies: int) -> Iterator[Batch]:
    """Divides sites into batches. In each batch, `copies` arrays for each site take at most `t.limit` bytes.

    A site that exceeds this limit even for one iteration is the only site in its batch.
    """

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
                # One row is for the iterations outside the window.
                size = min(trips, max(1, t.limit // total - 1))
                yield Batch(part, Stacks({**t.stacks.sizes, loop: size}, loop), range(0, trips, size))


def _within(
    t: Traced, sites: Sequence[int], stacks: Stacks, copies: int
) -> Iterator[tuple[tuple[int, ...], int]]:
    """Divides sites into groups that fit into the limit. Yields each group and its size in bytes.

    A site that exceeds the limit is the only site in its group.
    """
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
    """Returns the size in bytes of a site's stack. A dynamic dimension counts as a dimension of size 1."""
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
    """Returns the program with the functions `probe` inlined.

    Their custom derivatives are removed, because functions with custom derivatives are not inlined.
    """
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
