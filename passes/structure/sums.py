"""Moves sums of products out of loops. One product after the loop replaces a product and an addition per iteration.

    loop { c' = c + transpose (dot_general a_k, b_k) }   ->   c = c0 + transpose (dot_general as, bs)

The arrays `as` and `bs` (stacks) hold the values a_k and b_k of all iterations k. The new product also contracts the
dimension of k. An example is the cotangent of a weight that each iteration multiplies by some array. Inside the loop,
each iteration would read and write the whole sum, and each product would contract few elements. Most loops read or
write these stacks anyway. Stacks are added for a sum only if they take no more bytes than the sum.
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
    """A term of a sum: the result of the `dot_general` op `product` after the unary ops `after`."""

    product: Definition
    after: tuple[Definition, ...]


class MovedSums:
    """Moves sums of products out of the loop of a cluster of fused loops. The constructor changes the loop body.

    `rows` lists the values of an iteration that the loop must collect in stacks, in addition to `records.stacked`.
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
        """Moves the product terms of the loop-carried sum `at` out of the loop. If the sum has no other terms, the loop
        no longer carries it.
        """
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
        """The number of bytes of the stacks that collect the values `rows`."""
        return sum((stored_bytes(x.type) or 0) * (self._count or 0) for x in rows)

    def _leaves(self, y: Value) -> Iterator[Value]:
        """Yields the terms of the sum `y`. A partial sum that is read more than once counts as one term."""
        op = y.definition
        if op is None or op.name != "stablehlo.add" or self._reads[y] != 1:
            yield y
            return
        for x in op.operands:
            yield from self._leaves(x)

    def _term(self, y: Value) -> Term | None:
        """Returns the product in the term `y` of a sum, with the unary ops that transform the product.

        Returns None if `y` has another form, if the product or a later op is read more than once, if the shape of a
        factor is dynamic, or if a factor does not vary between iterations.
        """
        op, after = y.definition, list[Definition]()
        while op is not None and _is_linear(op) and self._reads[op.result] == 1:
            after.append(op)
            op = op.operands[0].definition
        if op is None or op.name != _PRODUCT or self._reads[op.result] != 1:
            return None
        static = all(stored_bytes(x.type) is not None for x in op.operands)
        return Term(op, tuple(after[::-1])) if static and self._varying.issuperset(op.operands) else None

    def _is_stacked(self, row: Value) -> bool:
        """Whether the loop reads or writes a stack that holds the value of `row` in iteration k as entry k."""
        return row in self._written or row in self._filled or self._stack_read(row) is not None

    def _stack_read(self, row: Value) -> Value | None:
        """Returns the array outside the loop from which iteration k reads `row` as entry k, or None if there is no such
        array.
        """
        entry = row.definition
        if entry is None or entry.name != "stablehlo.reshape":
            return None
        read = entry.operands[0].definition
        if read is None or read.name != "stablehlo.dynamic_slice":
            return None
        stack, *start = read.operands
        return self._outer.get(stack) if self._is_entry(stack, read.result, start) else None

    def _row_written(self, at: MemberResult) -> Value | None:
        """Returns the value that iteration k writes to entry k of the carry `at`.

        Returns None if iteration k does not write entry k of the carry, or if the carry does not have one entry per
        iteration.
        """
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
        """Whether a slice of `stack` at the indices `start`, with the shape of `entry`, is entry k in iteration k.

        Also requires that `stack` has one entry per iteration.
        """
        sizes, (at, *others) = shape(stack), start
        if sizes[0] != self._count or shape(entry) != [1, *sizes[1:]] or affine(self._step, at) != (1, 0):
            return False
        return all(integer(self._outer.get(x, x)) == 0 for x in others)

    @property
    def read(self) -> set[MemberResult]:
        """The loop-carried stacks whose final values the method `results` reads."""
        rows = (
            self._same[x] for terms in self._terms.values() for term in terms for x in term.product.operands
        )
        return {self._filled[x] for x in rows if x in self._filled}

    def types(self) -> list[ir.RankedTensorType]:
        """The types of the stacks that collect `rows`."""
        return [sequence_type(x.type, self._count) for x in self.rows]

    def results(self, written: Sequence[Value], last: dict[MemberResult, Value]) -> dict[MemberResult, Value]:
        """Emits the products after the loop. Returns a map from each moved sum to its final value.

        `written` holds the stacks that the loop returns: the stacks of `records.stacked`, then the stacks of `rows`.
        `last` maps each carry that stayed in the loop to its final value.
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
    """Maps each value of an iteration to the first value of the iteration that is known to be equal."""
    table = KeyTable(scope.opset.stateful, scope.opset.commutative)
    same = {x: x for x in step.b.graph.inputs.values()}
    for op in step.b.graph.definitions:
        operands, captures = (tuple([same[x] for x in read]) for read in (op.operands, op.captures))
        same.update(zip(op.results, table.results(op, operands, captures), strict=True))
    return same


def _is_linear(op: Definition) -> bool:
    """Whether an op negates or rearranges the elements of its only operand.

    Such an op can be applied once to the sum of its operands instead of to each operand.
    """
    return len(op.operands) == 1 and (op.name == "stablehlo.negate" or op.name in VIEWS)


def _is_tested(at: MemberResult) -> bool:
    """Whether the loop condition reads the carry `at`."""
    member, i = at
    cond = member.record.cond
    return cond is not None and list(cond.inputs.values())[i] in read_inputs(cond)


def _varying(step: ClusterIteration) -> set[Value]:
    """The values of a loop body that may differ between iterations."""
    varying = {step.number, *step.carries.values()}
    for op in step.b.graph.definitions:
        if not varying.isdisjoint(op.reads):
            varying.update(op.results)
    return varying


def _with_iterations(product: Definition) -> hlo.DotDimensionNumbers:
    """Returns the dimension numbers of the product of two stacks.

    They are the dimension numbers of `product`, but they also contract the first dimensions of both stacks.
    """
    d = Contraction.of(product)
    batches, summed = ([[i + 1 for i in places] for places in pair] for pair in (d.batches, d.summed))
    return Contraction.new(batches, [[0, *places] for places in summed]).attribute
