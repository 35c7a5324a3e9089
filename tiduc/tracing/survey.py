"""survey: lists the results of the ops in a graph in program order, including ops in loops and branches.

A `Site` is one result of one op. Each loop body and each branch is a region, and the regions are numbered from 1.
`Site.regions` has the numbers of the regions around the op, the outermost first. `Site.loops` has the numbers of the
loop bodies among them. The survey does not enter regions of other ops, such as the reducer of a reduction.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from torch_mlir import ir

from tiduc.dialect.errors import RequestError, describe
from tiduc.dialect.graph.functions import symbol
from tiduc.dialect.graph.graph import captured, operations, terminator
from tiduc.dialect.ops.control_ops import CALL, GRAPH_CALLS, GRAPHS, call_target
from tiduc.dialect.ops.ir_types import AnyModule, IrOp, IrValue
from tiduc.runtime.signature import TensorType

WHILE = "stablehlo.while"
BODY = 1
"""The index of the body among the regions of a `stablehlo.while`. The other region is the condition."""
BRANCHES = frozenset({"stablehlo.case", "stablehlo.if"})


@dataclass(frozen=True)
class Read:
    """The source of an operand: a site, an input of the graph, or a value that a loop carries.

    `number` is the number of the site, or the position of the input or carried value.
    """

    kind: str  # "site", "input" or "carry"
    number: int
    region: int = 0  # for a carried value: the region number of the loop's body


@dataclass(frozen=True)
class Site:
    """One result of one op. `number` is its position among all sites. `reads` are the sources of the op's operands."""

    number: int
    name: str  # such as stablehlo.multiply
    result: int  # the position among the results of the op
    place: str  # file:line:column, or "" if the source location is unknown
    scope: str  # the op's MLIR location as text, which has names from frontends
    type: TensorType
    regions: tuple[int, ...]
    loops: tuple[int, ...]
    reads: tuple[Read, ...]
    encloses: bool = False  # whether the op is a loop or branch: an op in its regions computes the result

    @property
    def short(self) -> str:
        """The name of the op without the prefix `stablehlo.`."""
        return self.name.removeprefix("stablehlo.")


@dataclass(frozen=True)
class CarriedReads:
    """The sources of a value that a loop carries: its initial value, and the value that the body returns.

    A source is None if it is not a site, an input or a carried value.
    """

    init: Read | None
    returned: Read | None


@dataclass
class Survey:
    """The sites of one graph, and facts about its regions.

    The fields `values` (the `ir.Value` of each site), `controls`, `number` and `reads` refer to values of the module
    that was surveyed. The other fields are valid for clones of the module, too.
    """

    sites: list[Site] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)
    first: dict[int, int] = field(default_factory=dict)  # region -> the number of its first site
    carries: dict[int, tuple[CarriedReads, ...]] = field(
        default_factory=dict
    )  # region number of a loop's body -> the values that the loop carries
    path: dict[int, tuple[int, ...]] = field(
        default_factory=dict
    )  # region -> the regions around it, the outermost first, and the region itself
    loops: dict[int, tuple[int, ...]] = field(
        default_factory=dict
    )  # region -> the loop bodies among the regions in `path`
    controls: dict[Any, tuple[int, ...]] = field(
        default_factory=dict
    )  # first result of a loop or branch -> the numbers of its regions
    number: dict[Any, int] = field(default_factory=dict)  # value -> the number of its site
    reads: dict[Any, Read] = field(
        default_factory=dict
    )  # value -> the source of an operand that is this value
    untraced: set[str] = field(default_factory=set)  # source locations of results that cannot be recorded


def graph_in(module: AnyModule, name: str) -> Any:
    """Returns the `tidu.graph` with this name in a module."""
    return next(op for op in operations(module.body) if op.name == "tidu.graph" and symbol(op) == name)


def survey(graph: IrOp) -> Survey:
    """Surveys a graph. Raises `RequestError` if a loop or branch of it calls graphs instead of having regions."""
    walk = _Walk()
    block = graph.regions[0].blocks[0]
    for i, x in enumerate(block.arguments):
        walk.survey.reads[x] = Read("input", i)
    walk.block(block, (), ())
    return walk.survey


def settled(
    found: Survey, read: Read | None, iteration: tuple[int, ...]
) -> tuple[Read | None, tuple[int, ...]]:
    """Returns the site or input whose value an op reads in an iteration, and the iteration that computed this value.

    In the first iteration of a loop, a carried value has its initial value. In later iterations, it has the value that
    the body returned in the previous iteration. Returns None instead of the site or input if it is unknown.
    """
    while read is not None and read.kind == "carry":
        depth, carry = len(found.loops[read.region]), found.carries[read.region][read.number]
        *around, last = iteration[:depth]
        iteration = (*around, last - 1) if last else tuple(around)
        read = carry.returned if last else carry.init
    if read is None or read.kind == "input":
        return read, ()
    return read, iteration[: len(found.sites[read.number].loops)]


def control(op: IrOp) -> Iterator[tuple[ir.Block, bool]]:
    """Yields the blocks of a loop or branch that the survey enters, and whether the block is the body of a loop."""
    if op.name == WHILE:
        yield op.regions[BODY].blocks[0], True
    elif op.name in BRANCHES:
        for region in op.regions:
            yield region.blocks[0], False


class _Walk:
    def __init__(self) -> None:
        self.survey = Survey()
        self.regions = 0

    def block(self, block: ir.Block, regions: tuple[int, ...], loops: tuple[int, ...]) -> None:
        for op in operations(block):
            if not len(op.results):  # such as the terminator
                continue
            if (target := call_target(op)) in GRAPH_CALLS and target != CALL:
                raise RequestError(f"{target} of graphs cannot be traced", op.location)
            numbers = [self.region(op, inner, is_loop, regions, loops) for inner, is_loop in control(op)]
            if numbers:
                self.survey.controls[op.results[0]] = tuple(numbers)
            known = self.survey.reads
            reads = [known[x] for x in (*op.operands, *captured(op)) if x in known]
            for i, y in enumerate(op.results):
                self.site(op, i, y, regions, loops, tuple(reads))

    def region(
        self, op: IrOp, block: ir.Block, is_loop: bool, regions: tuple[int, ...], loops: tuple[int, ...]
    ) -> int:
        """Visits the ops of a loop body or branch, and returns the number of this region."""
        self.regions += 1
        number, of = self.regions, self.survey
        of.first[number], of.path[number] = len(of.sites), (*regions, number)
        of.loops[number] = loops = (*loops, number) if is_loop else loops
        if is_loop:
            for j, x in enumerate(block.arguments):
                of.reads[x] = Read("carry", j, number)
        self.block(block, (*regions, number), loops)
        if is_loop:
            ends = terminator(block).operands
            pairs = zip(op.operands, ends, strict=True)
            of.carries[number] = tuple(CarriedReads(of.reads.get(x), of.reads.get(y)) for x, y in pairs)
        return number

    def site(
        self,
        op: IrOp,
        index: int,
        y: IrValue,
        regions: tuple[int, ...],
        loops: tuple[int, ...],
        reads: tuple[Read, ...],
    ) -> None:
        type_ = _recordable(y.type, bool(regions))
        if type_ is None:
            self.survey.untraced.add(describe(op.location))
            return
        number = len(self.survey.sites)
        encloses = op.name == WHILE or op.name in BRANCHES
        place, scope = describe(op.location), str(op.location)
        name = f"call @{op.attributes[GRAPHS][0].value}" if call_target(op) == CALL else op.name
        site = Site(number, name, index, place, scope, type_, regions, loops, reads, encloses)
        self.survey.sites.append(site)
        self.survey.values.append(y)
        self.survey.number[y] = number
        self.survey.reads[y] = Read("site", number)


def _recordable(type_: ir.Type, is_static: bool) -> TensorType | None:
    """Returns the type as a `TensorType`. Returns None if no NumPy array can have the type.

    Also returns None if `is_static` is set and a dimension is dynamic.
    """
    text = str(type_)
    if not text.startswith("tensor<"):
        return None
    try:
        found = TensorType.parse(text.removeprefix("tensor<").removesuffix(">").split(",")[0])
    except ValueError:
        return None
    return None if found.dtype is None or (is_static and None in found.shape) else found
