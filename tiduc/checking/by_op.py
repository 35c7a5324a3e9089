"""by_op: finds the ops of a program whose derivatives disagree with finite differences.

    main: y = f(x), z = g(y)      ->      ops: (x) -> f(x), (y') -> g(y')        at y' = the value of y in a run

Each op of a program becomes a function with its own inputs. The function is checked at the values that the op reads in
a run of the program. A single program contains all these functions, so its JVP and VJP check all ops at once. A site
(`../tracing/survey.py`) is one result of one op.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from torch_mlir import ir

from tiduc.checking.comparisons import (
    Call,
    Comparison,
    Point,
    compare_elements,
    compare_products,
    random_like,
    scaled,
    wide,
)
from tiduc.checking.differences import DifferenceEstimate, derivatives
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.graph import captured, replace_captured
from tiduc.dialect.mlir.context import stage
from tiduc.dialect.ops.ir_types import IrValue
from tiduc.dialect.ops.verify import TERMINATOR
from tiduc.passes.importing.import_stablehlo import clone
from tiduc.program import Program, from_module
from tiduc.runtime.arrays import Array
from tiduc.tracing.runs import Traced, active, ran, traced, values
from tiduc.tracing.survey import Read, Site, Survey, graph_in, settled, survey


@dataclass(frozen=True)
class OpError:
    """An op whose derivative disagrees with finite differences.

    `mode` is "fwd" if the op's tangents disagree, and "rev" if its cotangents disagree.
    """

    site: Site
    mode: str
    comparison: Comparison


@dataclass(frozen=True)
class _Alone:
    """A program that applies each op of another program to separate inputs, and the arguments for these inputs.

    `ops` has, for each op, its site, the positions of its inputs, and the positions of its outputs.
    """

    program: Program
    arguments: Sequence[Array]
    ops: Sequence[tuple[Site, range, range]]


def ops_at_fault(point: Point) -> list[OpError]:
    """Returns the ops of a point's program whose derivatives disagree with finite differences, the worst first."""
    t = traced(point.program, point.arguments, point.run)
    alone = _alone(t, _reached(t, point.positions))
    if alone is None:
        return []
    errors = [error for error in _errors(alone, point) if not error.comparison.agrees]
    return sorted(errors, key=lambda error: -error.comparison.excess)


def _errors(alone: _Alone, point: Point) -> Iterator[OpError]:
    program, given = alone.program, alone.arguments
    p = replace(point, program=program, arguments=given)
    value, count = p.run(program), len(program.outputs)
    y = value(*given)
    smooth = [program.inputs.index(port) for port in program.differentiated(None)]
    dx = {i: scaled(random_like(given[i], p.generator), given[i]) for i in smooth}
    known = derivatives(_line(value, given, dx), p.epsilon, 1e-3 * p.rtol)
    if "fwd" in p.modes:
        dy = p.run(program.jvp())(*given, *dx.values())[count:]
        for site, _, outputs in alone.ops:
            for j in outputs:
                yield OpError(site, "fwd", compare_elements(dy[j], known[j], y[j], p))
    if "rev" not in p.modes:
        return
    ct = [np.where(np.isfinite(wide(x)), random_like(x, p.generator), 0).astype(x.dtype) for x in y]
    cx = dict(zip(smooth, p.run(program.vjp())(*given, *ct)[count:], strict=True))
    for site, inputs, outputs in alone.ops:
        pulled = [_flat([of[i] for i in inputs if i in of]) for of in (cx, dx)]
        seeds, at = (_flat([of[j] for j in outputs]) for of in (ct, y))
        values, uncertain = zip(*((known[j].value, known[j].uncertainty) for j in outputs), strict=True)
        differences = DifferenceEstimate(_flat(values), _flat(uncertain))
        compared = compare_products((pulled[0], pulled[1]), seeds, differences, at, p.rtol, p)
        yield OpError(site, "rev", compared)


def _line(value: Call, at: Sequence[Array], dx: Mapping[int, Array]) -> Callable[[float], list[Array]]:
    """Returns a function that moves the inputs from `at` by a distance times `dx`, and returns the outputs."""

    def moved(distance: float) -> list[Array]:
        given = list(at)
        for i, d in dx.items():
            given[i] = (wide(at[i]) + distance * wide(d)).astype(d.dtype)
        return [wide(y) for y in value(*given)]

    return moved


def _flat(arrays: Sequence[Array]) -> Array:
    return np.concatenate([np.ravel(x) for x in arrays])


# ---- the program of all ops --------------------------------------------------------------------------------------


def _reached(t: Traced, positions: Sequence[int]) -> dict[int, tuple[int, ...]]:
    """Maps each site that a tangent reaches to the last iteration in which the site ran.

    Omits loops, branches and sites that did not run.
    """
    sites = [site for site in t.found.sites if not site.encloses]
    masks = ran(t, sorted({site.regions[-1] for site in sites if site.regions}))
    chosen = {}
    for n in active(t, [site.number for site in sites], list(positions)):
        regions = t.found.sites[n].regions
        iterations = np.argwhere(masks[regions[-1]]) if regions else np.zeros((1, 0), np.int64)
        if len(iterations):
            chosen[n] = tuple(map(int, iterations[-1]))
    return chosen


@stage
def _alone(t: Traced, chosen: Mapping[int, tuple[int, ...]]) -> _Alone | None:
    """Builds a program with a copy of each chosen op. Its arguments are the values that these ops read in the traced
    run.

    Returns None if no op can be copied.
    """
    program, module = t.program, clone(t.program.graphs)
    graph = graph_in(module, program.name)
    found = survey(graph)
    attributes = {"sym_name": graph.attributes["sym_name"]}
    ip = ir.InsertionPoint(graph)
    made = ir.Operation.create("tidu.graph", attributes=attributes, regions=1, loc=graph.location, ip=ip)
    block = made.regions[0].blocks.append()
    copier = _Copier(found, block)
    heads = set()  # the first results of the ops that were copied
    for n, iteration in sorted(chosen.items()):
        head = found.values[n].owner.operation.results[0]
        if head not in heads:
            heads.add(head)
            copier.copy(n, iteration)
    if not copier.ops:
        return None
    ir.Operation.create(TERMINATOR, operands=copier.results, ip=ir.InsertionPoint(block))
    keys = [ir.FlatSymbolRefAttr.get(f"v{i}") for i in range(len(copier.reads))]
    made.attributes["inputs"] = ir.ArrayAttr.get(keys)
    graph.erase()
    alone = from_module(module, program.name, program.opset)
    return _Alone(alone, _values(t, copier.reads), copier.ops)


_At = tuple[Read, tuple[int, ...]]
"""A site or an input, and the iteration in which it is read."""


class _Copier:
    """Copies ops to a block. Each operand becomes an argument of the block, except for constants, which are copied."""

    def __init__(self, found: Survey, block: ir.Block) -> None:
        self.found, self.block = found, block
        self.reads: list[_At] = []
        self.results: list[IrValue] = []
        self.ops: list[tuple[Site, range, range]] = []

    def copy(self, n: int, iteration: tuple[int, ...]) -> None:
        """Copies the op of site `n`.

        Does nothing if the op reads a value that the trace does not record, or if none of its operands can have a
        tangent.
        """
        op = self.found.values[n].owner.operation
        outer = captured(op)
        given = [x for x in dict.fromkeys([*op.operands, *outer]) if not _is_constant(x)]
        reads = [settled(self.found, self.found.reads.get(x), iteration) for x in given]
        if any(read is None for read, _ in reads) or not any(_is_smooth(x) for x in given):
            return
        before, ip = len(self.reads), ir.InsertionPoint(self.block)
        copies: dict[IrValue, IrValue] = {}
        for x, (read, at) in zip(given, reads, strict=True):
            assert read is not None
            self.reads.append((read, at))
            copies[x] = self.block.add_argument(x.type, op.location)
        for x in (*op.operands, *outer):
            if x not in copies:
                copies[x] = x.owner.operation.clone(ip).results[x.result_number]
        copy = op.clone(ip)
        for i, x in enumerate(op.operands):
            copy.operands[i] = copies[x]
        replace_captured(copy, [copies[x] for x in outer])
        smooth = [y for y in copy.results if _is_smooth(y)]
        outputs = range(len(self.results), len(self.results) + len(smooth))
        self.results += smooth
        self.ops.append((self.found.sites[n], range(before, len(self.reads)), outputs))


def _values(t: Traced, reads: Sequence[_At]) -> list[Array]:
    """Returns the arrays of these reads. A read is an input, or a site in an iteration."""
    needed: dict[int, set[tuple[int, ...]]] = {}
    for read, at in reads:
        if read.kind == "site":
            needed.setdefault(read.number, set()).add(at)
    arrays: dict[tuple[int, tuple[int, ...]], Array] = {}
    for piece in values(t, sorted(needed)):
        n = piece.site.number
        for at in needed[n]:
            if not at:
                arrays[n, at] = piece.array
            elif piece.at.start <= at[0] < piece.at.stop:
                arrays[n, at] = piece.array[(at[0] - piece.at.start, *at[1:])].copy()
    return [
        t.arguments[read.number] if read.kind == "input" else arrays[read.number, at] for read, at in reads
    ]


def _is_constant(x: IrValue) -> bool:
    return not isinstance(x.owner, ir.Block) and x.owner.operation.name == "stablehlo.constant"


def _is_smooth(x: IrValue) -> bool:
    return StablehloBuilder.tangent_type(x.type) is not None
