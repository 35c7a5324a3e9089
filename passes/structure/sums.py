"""Moves sums of products out of loops: a product of stacks after the loop replaces a product and a sum per iteration.

    loop { c' = c + transpose (dot_general a_k, b_k) }   ->   c = c0 + transpose (dot_general as, bs)

`as` and `bs` hold the a_k and b_k of all iterations k. The new product also contracts the dimension of k. An example is
the cotangent of a weight that each iteration multiplies. Inside the loop, each iteration would read and write the whole
sum, and its product contracts few elements. The loop reads or writes most of these stacks anyway. New stacks are
written only if they take no more bytes than the sum.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.dialect.control.trip_count import integer
from tiduc.dialect.facts.costs import stored_bytes
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.graph.keys import KeyTable
from tiduc.dialect.ops.contractions import NUMBERS, Contraction
from tiduc.dialect.ops.control_ops import sequence_type
from tiduc.dialect.ops.traits import VIEWS
from tiduc.dialect.shapes.types import shape
from tiduc.passes.structure.clusters import Cluster, MemberResult
from tiduc.passes.structure.records import Records
from tiduc.passes.structure.scope import Scope
from tiduc.passes.structure.slots import affine
from tiduc.passes.structure.steps import ClusterIteration
from tiduc.passes.structure.while_loops import read_inputs

_PRODUCT = "stablehlo.dot_general"


@dataclass(frozen=True)
class Term:
    """A term of a sum: a product, and the unary ops that follow it."""

    product: Definition
    after: tuple[Definition, ...]


class MovedSums:
    """Moves sums of products out of a cluster's loop. The constructor changes the loop body.

    `rows` are the values of an iteration that the loop must stack in addition to those of `records`.
    """

    def __init__(
        self, scope: Scope, cluster: Cluster, step: ClusterIteration, records: Records, trip_count: int | None
    ) -> None:
        self._scope, self._step, self._count = scope, step, trip_count
        self._written = list(records.stacked)
        self._same = dict[Value, Value]()
        self._outer = {inner: x for x, inner in step.loop.outside.items()}
        self._filled = dict[Value, MemberResult]()
        self.rows: list[Value] = []
        self._terms: dict[MemberResult, list[Term]] = {}
        if trip_count is None or all(op.name != _PRODUCT for op in step.b.graph.definitions):
            return
        self._same = _representatives(scope, step)
        self._written = [self._same.get(x, x) for x in self._written]
        self._filled = {row: at for at in step.carries if (row := self._row_written(at)) is not None}
        self._varying = _varying(step)
        self._reads = Counter(x for op in step.b.graph.definitions for x in op.reads)
        self._reads.update([*step.nexts.values(), *records.values])
        for at in [at for at in step.carries if cluster.is_used(at) and not _is_tested(at)]:
            self._move(at)

    def _move(self, at: MemberResult) -> None:
        """Moves the product terms of a carry's sum out of the loop. Removes the carry if it has no other terms."""
        step, x = self._step, self._step.carries[at]
        leaves = list(self._leaves(step.nexts[at]))
        if leaves.count(x) != 1 or self._reads[x] != 1:
            return
        moved = {y: term for y in leaves if y is not x and (term := self._term(y)) is not None}
        rows = [self._same[row] for term in moved.values() for row in term.product.operands]
        new = list(dict.fromkeys([*self.rows, *(row for row in rows if not self._is_stacked(row))]))
        if not moved or self._bytes(new) > self._bytes(self.rows) + (stored_bytes(x.type) or 0):
            return
        self.rows, self._terms[at] = new, list(moved.values())
        rest = [y for y in leaves if y not in moved]
        if rest == [x]:
            del step.carries[at], step.nexts[at]
        else:
            step.nexts[at] = step.b.sum(rest)

    def _bytes(self, rows: Sequence[Value]) -> int:
        """The bytes of the stacks of some values."""
        return sum((stored_bytes(x.type) or 0) * (self._count or 0) for x in rows)

    def _leaves(self, y: Value) -> Iterator[Value]:
        """The terms of a sum. A partial sum with other readers counts as one term."""
        op = y.definition
        if op is None or op.name != "stablehlo.add" or self._reads[y] != 1:
            yield y
            return
        for x in op.operands:
            yield from self._leaves(x)

    def _term(self, y: Value) -> Term | None:
        """The product, and the ops after it, in a term of a sum. None unless both factors vary between iterations."""
        op, after = y.definition, list[Definition]()
        while op is not None and _is_linear(op) and self._reads[op.result] == 1:
            after.append(op)
            op = op.operands[0].definition
        if op is None or op.name != _PRODUCT or self._reads[op.result] != 1:
            return None
        static = all(stored_bytes(x.type) is not None for x in op.operands)
        return Term(op, tuple(after[::-1])) if static and self._varying.issuperset(op.operands) else None

    def _is_stacked(self, row: Value) -> bool:
        """Whether the loop reads or writes a stack of which `row` is the entry of this iteration."""
        return row in self._written or row in self._filled or self._stack_read(row) is not None

    def _stack_read(self, row: Value) -> Value | None:
        """The array outside the loop from which iteration k reads the value, as entry k. None for any other value."""
        entry = row.definition
        if entry is None or entry.name != "stablehlo.reshape":
            return None
        read = entry.operands[0].definition
        if read is None or read.name != "stablehlo.dynamic_slice":
            return None
        stack, *start = read.operands
        return self._outer.get(stack) if self._is_entry(stack, read.result, start) else None

    def _row_written(self, at: MemberResult) -> Value | None:
        """The value that iteration k writes to entry k of a carry; None if the carry is not a stack."""
        write = self._step.nexts[at].definition
        if write is None or write.name != "stablehlo.dynamic_update_slice":
            return None
        stack, entry, *start = write.operands
        row = entry.definition
        if stack is not self._step.carries[at] or row is None or row.name != "stablehlo.reshape":
            return None
        (x,) = row.operands
        return self._same[x] if self._is_entry(stack, entry, start) and shape(x) == shape(entry)[1:] else None

    def _is_entry(self, stack: Value, entry: Value, start: Sequence[Value]) -> bool:
        """Whether the slice at `start`, of the size of `entry`, is entry k of a stack with one entry per iteration."""
        sizes, (at, *others) = shape(stack), start
        if sizes[0] != self._count or shape(entry) != [1, *sizes[1:]] or affine(self._step, at) != (1, 0):
            return False
        return all(integer(self._outer.get(x, x)) == 0 for x in others)

    @property
    def read(self) -> set[MemberResult]:
        """The carries whose final values `results` needs although they are not used after the loop."""
        rows = (
            self._same[x] for terms in self._terms.values() for term in terms for x in term.product.operands
        )
        return {self._filled[x] for x in rows if x in self._filled}

    def types(self) -> list[ir.RankedTensorType]:
        """The types of the stacks of `rows`."""
        return [sequence_type(x.type, self._count) for x in self.rows]

    def results(self, written: Sequence[Value], last: dict[MemberResult, Value]) -> dict[MemberResult, Value]:
        """The final values of the sums. `written` are the loop's stacks of `records`, then of `rows`.

        `last` has the final values of the carries that stayed in the loop.
        """
        b, stacks = self._scope.b, {x: last[at] for x, at in self._filled.items() if at in last}
        stacks |= dict(zip([*self._written, *self.rows], written, strict=True))
        results = {}
        for at, terms in self._terms.items():
            sums = [last.get(at) or self._scope.init(at)]
            for term in terms:
                rows = [self._same[x] for x in term.product.operands]
                of_rows = [stacks.get(x) or self._stack_read(x) for x in rows]
                numbers = {NUMBERS: _with_iterations(term.product)}
                (y,) = b.reapply(term.product, dict(enumerate(of_rows)), numbers)
                for op in term.after:
                    (y,) = b.reapply(op, {0: y})
                sums.append(y)
            results[at] = b.sum(sums)
        return results


def _representatives(scope: Scope, step: ClusterIteration) -> dict[Value, Value]:
    """Maps each value of a step to the first equal value of the step."""
    table = KeyTable(scope.opset.stateful, scope.opset.commutative)
    same = {x: x for x in step.b.graph.inputs.values()}
    for op in step.b.graph.definitions:
        operands, captures = (tuple([same[x] for x in read]) for read in (op.operands, op.captures))
        same.update(zip(op.results, table.results(op, operands, captures), strict=True))
    return same


def _is_linear(op: Definition) -> bool:
    """Whether an op negates or moves the elements of its only operand. It may then be applied to the sum instead."""
    return len(op.operands) == 1 and (op.name == "stablehlo.negate" or op.name in VIEWS)


def _is_tested(at: MemberResult) -> bool:
    """Whether the condition of a carry's loop reads the carry."""
    member, i = at
    cond = member.record.cond
    return cond is not None and list(cond.inputs.values())[i] in read_inputs(cond)


def _varying(step: ClusterIteration) -> set[Value]:
    """The values of a step that may change from iteration to iteration."""
    varying = {step.number, *step.carries.values()}
    for op in step.b.graph.definitions:
        if not varying.isdisjoint(op.reads):
            varying.update(op.results)
    return varying


def _with_iterations(product: Definition) -> hlo.DotDimensionNumbers:
    """The dimension numbers of a product that multiplies stacks: it also contracts the first dimension of both."""
    d = Contraction.of(product)
    batches, summed = ([[i + 1 for i in places] for places in pair] for pair in (d.batches, d.summed))
    return Contraction.new(batches, [[0, *places] for places in summed]).attribute
