"""survey: lists the results of the ops in a graph, also in loops and branches, in program order.

A `Site` is one result of one op. Each body of a loop and each branch is a region with a number: `Site.regions` are the
numbers of the regions around the op, the outermost first, and `Site.loops` are those of bodies of loops. Regions of
reductions, and of other ops that are not control flow, are a part of their op.
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
"""The region of a loop that is its body; the other region is its condition."""
BRANCHES = frozenset({"stablehlo.case", "stablehlo.if"})


@dataclass(frozen=True)
class Read:
    """What an operand is: result of a site, input of the graph, or a carry of a loop's body; `number` says which."""

    kind: str  # "site", "input" or "carry"
    number: int
    region: int = 0  # for a carry: the body


@dataclass(frozen=True)
class Site:
    """One result of one op. `number` is its position among all sites; `reads` are the values that the op reads."""

    number: int
    name: str  # such as stablehlo.multiply
    result: int
    place: str  # file:line:column, or ""
    scope: str  # all of the location, for names of frontends
    type: TensorType
    regions: tuple[int, ...]
    loops: tuple[int, ...]
    reads: tuple[Read, ...]
    encloses: bool = False  # a loop or branch: its result is that of an op inside

    @property
    def short(self) -> str:
        """The op's name without StableHLO's prefix."""
        return self.name.removeprefix("stablehlo.")


@dataclass(frozen=True)
class CarriedReads:
    """A carried value of a loop: the value before the first iteration, and the one that the body returns."""

    init: Read | None
    returned: Read | None


@dataclass
class Survey:
    """The sites of one graph, and for each loop body its parents, its first site and its carries.

    `values` (the `ir.Value` of each site), `controls`, `number` and `reads` belong to the module that was surveyed. The
    other fields are equal for all clones of the module.
    """

    sites: list[Site] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)
    first: dict[int, int] = field(default_factory=dict)  # region -> the number of its first site
    carries: dict[int, tuple[CarriedReads, ...]] = field(
        default_factory=dict
    )  # body of a loop -> its carries
    path: dict[int, tuple[int, ...]] = field(
        default_factory=dict
    )  # region -> the regions around it, and itself
    loops: dict[int, tuple[int, ...]] = field(
        default_factory=dict
    )  # region -> those of its path that are bodies
    controls: dict[Any, tuple[int, ...]] = field(
        default_factory=dict
    )  # first result of a loop or branch -> regions
    number: dict[Any, int] = field(default_factory=dict)  # value -> the number of its site
    reads: dict[Any, Read] = field(
        default_factory=dict
    )  # value -> what an op that has it as an operand reads
    untraced: set[str] = field(default_factory=set)  # places of values whose type cannot be recorded


def graph_in(module: AnyModule, name: str) -> Any:
    """The `tidu.graph` of this name."""
    return next(op for op in operations(module.body) if op.name == "tidu.graph" and symbol(op) == name)


def survey(graph: IrOp) -> Survey:
    """The sites of a graph. Raises `RequestError` if the graph has loops or branches over graphs."""
    walk = _Walk()
    block = graph.regions[0].blocks[0]
    for i, x in enumerate(block.arguments):
        walk.survey.reads[x] = Read("input", i)
    walk.block(block, (), ())
    return walk.survey


def settled(
    found: Survey, read: Read | None, iteration: tuple[int, ...]
) -> tuple[Read | None, tuple[int, ...]]:
    """The site or input that a read stands for in an iteration, and the iteration of that site's value.

    A carry is the value that the body returned in the iteration before, or the initial value. None if it is unknown.
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
    """The blocks of a loop or branch whose ops are sites, and whether the block is the body of a loop."""
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
            if not len(op.results):  # a name, or the terminator
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
        """Visits the ops of a loop's body or of a branch, and returns its number."""
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
    """The type; None if arrays cannot have it, or if `is_static` is set and a size is dynamic."""
    text = str(type_)
    if not text.startswith("tensor<"):
        return None
    try:
        found = TensorType.parse(text.removeprefix("tensor<").removesuffix(">").split(",")[0])
    except ValueError:
        return None
    return None if found.dtype is None or (is_static and None in found.shape) else found
