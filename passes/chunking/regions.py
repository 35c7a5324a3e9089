"""Finds regions: ops of one block that can run on chunks of one dimension, so that large arrays are never whole.

A region grows from a seed, a product whose result is much larger than its operands. Along the chosen dimension of this
result, it takes in ops that are parallel: element j of their results depends only on elements j of the operands that
have the dimension. Other operands are the same for all chunks.

    %s = dot_general %q, %k  : 4096x4096     the seed; along rows, it reads rows of %q, and all of %k
    %m = reduce max %s       : 4096          taken in, because it is between ops of the region
    %e = broadcast %m        : 4096x4096
    %d = subtract %s, %e     : 4096x4096     taken in, because it reads a large array
    %o = dot_general %d, %v  : 4096x64       taken in, because it sums over the other dimension of a large array
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from torch_mlir import ir

from tiduc.dialect.facts.costs import stored_bytes
from tiduc.dialect.graph.graph import captured, operations
from tiduc.dialect.mlir.constants import is_splat
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.ops.traits import CHEAP, ELEMENTWISE, PARALLEL
from tiduc.dialect.ops.verify import STOP_GRADIENT
from tiduc.passes.batching.alignment import aligned_dimensions

PRODUCT = "stablehlo.dot_general"
COMPOSITE = "stablehlo.composite"
IOTA, CONSTANT = "stablehlo.iota", "stablehlo.constant"
_MAPS = ELEMENTWISE | {"stablehlo.reshape", "stablehlo.transpose"}
"""Parallel ops whose operands, except scalars, all have the dimension. Other ops may read an operand whole."""

_RATIO = 4
"""The result of a seed has at least this many times the bytes of the operands. The last product has the reverse."""
_MOVED = 2**20
"""A cheap op moves into the region if only the region reads its result, and if this has at least as many bytes."""


class Order:
    """The ops of a block, and the position of each."""

    def __init__(self, block: ir.Block) -> None:
        self.block = block
        self.ops = list(operations(block))
        self.position = {op: i for i, op in enumerate(self.ops)}


@dataclass
class Region:
    """Ops that can run on chunks of one dimension.

    `of` maps each result of an op to its chunked dimension. `inputs` are the values from outside, each with the
    dimension along which the ops read chunks of it, or None if they read all of it for each chunk. A value may occur
    in both ways.
    """

    size: int
    ops: dict[IrOp, int] = field(default_factory=dict)
    of: dict[IrValue, int] = field(default_factory=dict)
    block: "Order" = field(repr=False, kw_only=True)

    def reads(self, op: IrOp) -> list[tuple[IrValue, int | None]]:
        """The operands of an op of the region, each with the dimension along which it is read in chunks."""
        dimensions = operand_dimensions(op, self.ops[op])
        assert dimensions is not None, "an op of a region is parallel"
        return list(zip(op.operands, dimensions, strict=True))

    def is_copied(self, op: IrOp) -> bool:
        """Whether an op reads no chunks, such as a constant. It may also stay outside of the loop."""
        return all(d is None for _, d in self.reads(op))

    @property
    def inputs(self) -> list[tuple[IrValue, int | None]]:
        read = dict.fromkeys(each for op in self.ordered for each in self.reads(op))
        return [(x, d) for x, d in read if x not in self.of]

    @property
    def outputs(self) -> list[IrValue]:
        """The results that ops outside of the region read."""
        computed = [y for op in self.ordered if not self.is_copied(op) for y in op.results]
        return [y for y in computed if any(u not in self.ops for u in _users(y))]

    @property
    def ordered(self) -> list[IrOp]:
        """The ops in the order of the block."""
        return sorted(self.ops, key=self.block.position.__getitem__)


def is_seed(op: IrOp, limit: int) -> bool:
    """Whether an op is a product whose result has at least `limit` bytes, and far more than the operands."""
    return op.name == PRODUCT and _bytes(op.results[0]) >= limit and _expands(op)


def region_of(block: Order, seed: IrOp, d: int, limit: int) -> Region | None:
    """Returns the region of a seed along dimension d of its result. Returns None if chunks save no memory.

    Arrays of at least `limit` bytes are large.
    """
    region = Region(seed.result.type.shape[d], block=block)
    growth = _Growth(region, limit)
    if not growth.add(seed, d) or not growth.run():
        return None
    return region if _saves_memory(region, limit) else None


def operand_dimensions(op: IrOp, e: int) -> list[int | None] | None:
    """For each operand, the dimension that is aligned with dimension e of the results, or None if it has none.

    Returns None if the op is not parallel along the dimension.
    """
    if op.name not in PARALLEL or (op.name == COMPOSITE and op.attributes["name"].value != STOP_GRADIENT):
        return None
    if op.name == CONSTANT and not is_splat(op.attributes["value"]):
        return None
    if any("sharding" in name for name in op.attributes) or captured(op):
        return None
    found: list[int | None] = []
    for i, x in enumerate(op.operands):
        aligned = {own: d for d, own in aligned_dimensions(op, i).items()}
        if e not in aligned and op.name in _MAPS and x.type.rank:
            return None
        found.append(aligned.get(e))
    return found


def _result_dimension(op: IrOp, x: IrValue, d: int) -> int | None:
    """The dimension of the op's results that is aligned with dimension d of all of its operands x; None if none is."""
    found = {aligned_dimensions(op, i).get(d) for i, y in enumerate(op.operands) if y == x}
    return found.pop() if len(found) == 1 else None


class _Growth:
    """Adds ops to a region, until no op outside of the region has to be added."""

    def __init__(self, region: Region, limit: int) -> None:
        self.region, self.limit = region, limit
        self._waiting: deque[IrOp] = deque()

    def add(self, op: IrOp, e: int) -> bool:
        """Adds an op that is chunked along dimension e of its results. Returns False if it cannot be added."""
        region = self.region
        if op in region.ops:
            return region.ops[op] == e
        dimensions = operand_dimensions(op, e)
        if dimensions is None or any(y.type.shape[e] != region.size for y in op.results):
            return False
        if not all(x.type.has_static_shape for x in (*op.operands, *op.results)):
            return False
        if any(x in region.of and region.of[x] != d for x, d in zip(op.operands, dimensions, strict=True)):
            return False
        readers = {u for y in op.results for u in _users(y) if u in region.ops}
        if any(x in list(op.results) and d != e for u in readers for x, d in region.reads(u)):
            return False
        region.ops[op] = e
        region.of.update(dict.fromkeys(op.results, e))
        self._waiting.append(op)
        return True

    def run(self) -> bool:
        """Grows the region. Returns False if an op between ops of the region cannot be added."""
        while True:
            while self._waiting:
                op = self._waiting.popleft()
                self._add_operands(op)
                if not self.region.is_copied(op):
                    self._add_readers(op)
            between = self._between()
            if not between:
                return True
            if not all(self._add_between(op) for op in between):
                return False

    def _add_operands(self, op: IrOp) -> None:
        for x, d in self.region.reads(op):
            owner = self._owner(x)
            if owner is None or d is None or owner in self.region.ops:
                continue
            is_large = _bytes(x) >= self.limit and (owner.name != PRODUCT or _expands(owner))
            is_moved = owner.name in CHEAP and _bytes(x) >= _MOVED and self._is_read_only_here(owner)
            if is_large or is_moved or owner.name == CONSTANT:
                self.add(owner, d)

    def _add_readers(self, op: IrOp) -> None:
        for y in op.results:
            for user in _users(y):
                d = self._reader_dimension(user, y)
                if d is None or user in self.region.ops:
                    continue
                is_large = any(_bytes(z) >= self.limit for z in (y, *user.results))
                if is_large and (user.name != PRODUCT or _bytes(user.result) * _RATIO <= _bytes(y)):
                    self.add(user, d)

    def _between(self) -> list[IrOp]:
        """The ops outside of the region that read values of the region, and compute values that the region reads."""
        ops = self.region.ops
        after = dependents(self.region)
        needed: set[IrOp] = set()
        for op in reversed(after):
            if any(u in needed or u in ops for y in op.results for u in _users(y)):
                needed.add(op)
        return [op for op in after if op in needed]

    def _add_between(self, op: IrOp) -> bool:
        of = self.region.of
        x = next((x for x in op.operands if x in of), None)
        d = self._reader_dimension(op, x) if x is not None else None
        return d is not None and self.add(op, d)

    def _reader_dimension(self, op: IrOp, x: IrValue) -> int | None:
        if op not in self.region.block.position or op.name not in PARALLEL:
            return None
        return _result_dimension(op, x, self.region.of[x])

    def _owner(self, x: IrValue) -> IrOp | None:
        """The op of the block that computes x. None for an argument, or a value from outside of the block."""
        owner = x.owner
        if isinstance(owner, ir.Block):
            return None
        op: IrOp = owner.operation
        return op if op in self.region.block.position else None

    def _is_read_only_here(self, op: IrOp) -> bool:
        return all(user in self.region.ops for y in op.results for user in _users(y))


def _saves_memory(region: Region, limit: int) -> bool:
    """Whether the results of costly ops in a region have twice the bytes of the chunked inputs and outputs.

    Other large arrays need no memory, because compilers fuse the ops that compute them with their readers.
    """
    costly = [y for op in region.ops if op.name not in CHEAP for y in op.results if _bytes(y) >= limit]
    read = [x for x, d in region.inputs if d is not None]
    return 2 * _sum(read + region.outputs) <= _sum(costly)


def dependents(region: Region) -> list[IrOp]:
    """The ops before the last op of a region that depend on the region and are outside of it, in order."""
    order = [op for op in region.ordered if not region.is_copied(op)]
    reached, found = {y for op in order for y in op.results}, list[IrOp]()
    position = region.block.position
    for op in region.block.ops[position[order[0]] : position[order[-1]]]:
        if op not in region.ops and not reached.isdisjoint((*op.operands, *captured(op))):
            found.append(op)
            reached.update(op.results)
    return found


def shared_bytes(region: Region) -> int:
    """The bytes of the float inputs that all chunks read whole. Loops add the derivatives toward them."""
    floats = [x for x, d in region.inputs if d is None and isinstance(x.type.element_type, ir.FloatType)]
    return _sum(floats)


def _expands(op: IrOp) -> bool:
    return _bytes(op.result) >= _RATIO * _sum(op.operands)


def _sum(values: Sequence[IrValue]) -> int:
    return sum(map(_bytes, values))


def result_bytes(op: IrOp) -> int:
    """The bytes of the result of an op."""
    return _bytes(op.result)


def _bytes(x: IrValue) -> int:
    """The bytes of an array of static shape; 0 for other values."""
    return (stored_bytes(x.type) or 0) if isinstance(x.type, ir.RankedTensorType) else 0


def _users(y: IrValue) -> list[IrOp]:
    """The ops that read a value. An op nested in a region of another op counts as itself."""
    return [use.owner.operation for use in y.uses]
