"""stacks_in_chunks: loops that write one row of a large stack in each iteration collect the rows in a chunk.

    while(%i, %s) { ... %t = dynamic_update_slice %s, %row, %i ... }
    ->  while(%i, %s) {
          %c = dynamic_slice %s, %i                                            rows i to i + C
          while(%j = 0, %i, %c) cond { j < C and as above } do { ... dynamic_update_slice %c, %row, %i - start ... }
          %t = dynamic_update_slice %s, %c, %start
        }

The host runs these loops, and IREE copies a carry (loop-carried value) before it updates the carry: n iterations copy
n rows each. With chunks of C = sqrt(n) rows, an iteration copies C rows, and each C-th iteration n more. Long stacks
have chunks of n^(2/3) rows, and chunks of these: an iteration copies 3 n^(1/3) rows in all.

The row's index must rise or fall by one per iteration. The first row of a chunk is a clamped start, as that of the
update is, so that rows out of range are written where the update writes them.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.emitter import Emitter, is_static, signless, within
from tiduc.backends.iree.fast.kernels import KERNEL
from tiduc.backends.iree.fast.loops_by_count import is_index, loop_counter, step_of_carry
from tiduc.backends.iree.fast.workgroups import DISPATCH
from tiduc.backends.iree.fault import slow
from tiduc.dialect.context import stage
from tiduc.dialect.dependences import defined_by
from tiduc.dialect.functions import replace
from tiduc.dialect.graph import operations
from tiduc.dialect.types import bits, shape

_LARGE = 2**18
"""The bytes of a loop's stacks for which their copies take about as long as the dispatches of an iteration."""

_ROWS = 16  # the fewest rows of a stack

_LONG = 128
"""The fewest rows of a stack for which chunks of chunks are faster."""


@dataclass(frozen=True)
class _Stack:
    """A carry of which each iteration updates one row: its index, the update, and the step of the row's index."""

    carry: int
    update: Any
    dimension: int
    step: int

    @property
    def rows(self) -> int:
        return int(shape(self.update.results[0])[self.dimension])

    @property
    def index(self) -> Any:
        """The index of the row, a value of the loop's body."""
        return self.update.operands[2 + self.dimension]


@slow("Copies a carry before each update of it: host loops update chunks of their stacks instead.")
@stage
def stacks_in_chunks(module: Any) -> int:
    """Splits the loops of a module that write large stacks, in place; gives the number of stacks."""
    loops = [op for op in within(module.operation) if op.name == "stablehlo.while"]
    return sum(map(_split, loops[::-1]))  # inner loops first


def _split(loop: Any) -> int:
    """Replaces a loop by a loop over chunks if its stacks are large; splits long chunks; gives the number of stacks."""
    stacks = _stacks(loop)
    most = max((stack.rows for stack in stacks), default=1)
    rows = math.ceil(most ** (2 / 3 if most >= _LONG else 1 / 2))
    stacks = [stack for stack in stacks if stack.rows > rows]
    if not stacks or sum(_bytes(stack.update.results[0]) for stack in stacks) < _LARGE:
        return 0
    b = Emitter(ir.InsertionPoint(loop), loop.location)
    counter, limit = loop_counter(loop)
    chunk = _Chunk(loop, {stack.carry: stack for stack in stacks}, rows, counter, limit)
    results = list(b.while_(loop.operands, chunk.begins, chunk.run))
    (*_, inner) = [
        op for op in operations(results[0].owner.regions[1].blocks[0]) if op.name == "stablehlo.while"
    ]
    if counter is not None:
        results[counter] = b.maximum(limit, b.constant(0, limit))
    replace(loop, results)
    _split(inner)
    return len(stacks)


def _bytes(x: Any) -> int:
    return int(math.prod(shape(x))) * max(bits(x) // 8, 1)


# ---- choosing stacks --------------------------------------------------------------------------------------------


def _stacks(loop: Any) -> list[_Stack]:
    """The carries of a loop that are stacks."""
    if any(op.name in (KERNEL, DISPATCH) for op in within(loop)):
        return []
    return [stack for i in range(len(loop.operands)) if (stack := _stack(loop, i)) is not None]


def _stack(loop: Any, i: int) -> _Stack | None:
    """Carry i as a stack: of static shape, read only by the update of a row, which only the end of the body reads."""
    body = loop.regions[1].blocks[0]
    carry, new = body.arguments[i], list(operations(body))[-1].operands[i]
    update = defined_by(new, "stablehlo.dynamic_update_slice")
    if update is None or update.operands[0] != carry or update.operation.block != body:
        return None
    alone = all(len(list(x.uses)) == 1 for x in (carry, new)) and not list(
        loop.regions[0].blocks[0].arguments[i].uses
    )
    if not alone or not is_static(new.type):
        return None
    pairs = list(zip(shape(new), shape(update.operands[1]), strict=True))
    partial_ = [d for d, (size, part) in enumerate(pairs) if part != size]
    if len(partial_) != 1 or pairs[partial_[0]][1] != 1 or pairs[partial_[0]][0] < _ROWS:
        return None
    step = _step(update.operands[2 + partial_[0]], loop)
    return _Stack(i, update, partial_[0], step) if step in (1, -1) else None


def _step(x: Any, loop: Any, depth: int = 8) -> int | None:
    """The constant that is added to an index of a loop's body in each iteration; None if unknown."""
    body = loop.regions[1].blocks[0]
    if not is_index(x.type) or not depth:
        return None
    if isinstance(x.owner, ir.Block):
        return step_of_carry(loop, x.arg_number) if x.owner == body else 0
    op = x.owner.operation
    if op.block != body or op.name == "stablehlo.constant":
        return 0
    if op.name == "stablehlo.convert":
        return _step(op.operands[0], loop, depth - 1)
    if op.name not in ("stablehlo.add", "stablehlo.subtract"):
        return None
    first, second = (_step(y, loop, depth - 1) for y in op.operands)
    if first is None or second is None:
        return None
    return first - second if op.name == "stablehlo.subtract" else first + second


# ---- rewriting --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Chunk:
    """The body of the outer loop: at most `rows` iterations of `loop`, whose stacks, by index of carry, become chunks.

    If the loop counts its iterations, `counter` is the index of that carry, and `limit` the trip count: the host counts
    the iterations of both loops. If not, `counter` is None, and the inner loop also checks the condition of `loop`.
    """

    loop: Any
    stacks: Mapping[int, _Stack]
    rows: int
    counter: int | None
    limit: Any

    def begins(self, b: Emitter, *carries: Any) -> Any:
        """Whether another iteration follows: the condition of `loop` for these carries."""
        return b.inlined(self.loop.regions[0], carries)[0]

    def run(self, b: Emitter, *carries: Any) -> list[Any]:
        """The carries after the iterations of a chunk."""
        starts = {i: self._start(b, stack, carries) for i, stack in self.stacks.items()}
        initial = list(carries)
        for i, stack in self.stacks.items():
            sizes = list(shape(carries[i]))
            sizes[stack.dimension] = self.rows
            initial[i] = b.dynamic_slice(carries[i], _at(b, stack, starts[i]), sizes)
        kind = ir.RankedTensorType.get([], signless(32))
        end = b.constant(self.rows, kind)
        if self.counter is not None:
            end = b.minimum(end, b.subtract(self.limit, carries[self.counter]))

        def condition(b: Emitter, j: Any, *xs: Any) -> Any:
            inside = b.compare(j, end, "LT")
            return inside if self.counter is not None else b.and_(inside, self.begins(b, *xs))

        def body(b: Emitter, j: Any, *xs: Any) -> Sequence[Any]:
            now = None if self.counter is None else b.add(carries[self.counter], j)
            results = self._iteration(b, starts, self._with_counter(xs, now))
            return [b.add(j, b.constant(1, kind)), *self._without_counter(results)]

        of_chunk = b.while_([b.constant(0, kind), *self._without_counter(initial)], condition, body)[1:]
        after = None if self.counter is None else b.add(carries[self.counter], b.constant(self.rows, kind))
        results = self._with_counter(of_chunk, after)
        for i, stack in self.stacks.items():
            results[i] = b.dynamic_update_slice(carries[i], results[i], _at(b, stack, starts[i]))
        return results

    def _without_counter(self, xs: Sequence[Any]) -> list[Any]:
        """The carries of the loop without its counter: those of the inner loop."""
        return [x for i, x in enumerate(xs) if i != self.counter]

    def _with_counter(self, xs: Sequence[Any], t: Any) -> list[Any]:
        """The carries of the inner loop with the counter t: those of the loop."""
        return list(xs) if self.counter is None else [*xs[: self.counter], t, *xs[self.counter :]]

    def _start(self, b: Emitter, stack: _Stack, carries: Sequence[Any]) -> Any:
        """The first row of a chunk: the row of its first iteration, or of its last one if the row's index decreases."""
        block = self.loop.regions[1].blocks[0]
        index = _computed(b, stack.index, block, dict(zip(block.arguments, carries, strict=True)))
        zero = b.constant(0, index)
        if stack.step < 0:
            index = b.clamp(zero, index, b.constant(stack.rows - 1, index))
            index = b.subtract(index, b.constant(self.rows - 1, index))
        return b.clamp(zero, index, b.constant(stack.rows - self.rows, index))

    def _iteration(self, b: Emitter, starts: Mapping[int, Any], xs: Sequence[Any]) -> list[Any]:
        """The carries after one iteration, which updates chunks; their first rows are `starts`."""
        block = self.loop.regions[1].blocks[0]
        updates = {stack.update.operation: i for i, stack in self.stacks.items()}
        values = dict(zip(block.arguments, xs, strict=True))
        *ops, end = operations(block)
        for op in ops:
            if op not in updates:
                b.copied(op, values)
                continue
            i = updates[op]
            index, row = (values.get(x, x) for x in (self.stacks[i].index, op.operands[1]))
            place = _at(b, self.stacks[i], b.subtract(index, starts[i]))
            values[op.results[0]] = b.dynamic_update_slice(xs[i], row, place)
        return [values.get(x, x) for x in end.operands]


def _computed(b: Emitter, x: Any, body: Any, values: dict[Any, Any]) -> Any:
    """The value x of a loop's body for given carries; copies the ops that compute it."""
    if x in values:
        return values[x]
    if isinstance(x.owner, ir.Block) or x.owner.operation.block != body:
        return x
    op = x.owner.operation
    for y in op.operands:
        values[y] = _computed(b, y, body, values)
    b.copied(op, values)
    return values[x]


def _at(b: Emitter, stack: _Stack, row: Any) -> list[Any]:
    """The start indices of a slice that begins at a row of a stack."""
    starts = [b.constant(0, row)] * len(shape(stack.update.results[0]))
    starts[stack.dimension] = row
    return starts
