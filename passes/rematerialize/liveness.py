"""liveness: predicts how many bytes are live at each op of a schedule, by a model of how compilers fuse ops.

    t: multiply (4 MiB)  u: reshape t  v: add u, w (4 MiB)        live at v: t, v, and the arguments

An op is denoted by a number, its place in the flat graph. All results of an op are one unit, which is live from the op
to its last reader. An op is *virtual* if its results take no memory, because compilers never write them. Virtual ops
are:

- ops that only rename or repeat elements, or give a contiguous part of an array;
- ops that are fused with all their readers (`fused_ops`);
- ops that reorder arrays for products alone: transposed matrices, and reversed convolution kernels;
- products whose only reader adds up their batches, or exchanges their rows and columns.

A reader of a virtual op reads the operands of the virtual op instead. Arguments and results of the graph are live
throughout, because compilers allocate results before the first op runs. If the graph is split into two execution
regions (`regions.py`), the results of the second region are allocated after the first. A dynamic dimension counts as 1.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.dialect.control.control import is_control
from tiduc.dialect.emitters.bodies import reducer
from tiduc.dialect.facts.costs import seconds, size_in_bytes
from tiduc.dialect.facts.identities import IDENTITIES
from tiduc.dialect.facts.matchers import compares_equal
from tiduc.dialect.facts.updates import is_update_of_zeros, updated
from tiduc.dialect.graph.graph import Definition, Graph, Value
from tiduc.dialect.ops.contractions import Contraction
from tiduc.dialect.ops.traits import ELEMENTWISE, traits_of
from tiduc.dialect.shapes.origins import sizes_in
from tiduc.passes.rematerialize.regions import Spans, best_end

_BROADCASTS = ("stablehlo.broadcast", "stablehlo.broadcast_in_dim")
_PRODUCT = "stablehlo.dot_general"
FUSED = ELEMENTWISE | {"stablehlo.pad"}
"""Ops that compilers fuse into an elementwise op that reads them. IREE turns sums of pads into concatenations."""
MOST_ROOTS = 8
"""The largest number of roots (`Liveness.roots`) of a virtual op. Longer chains of fused ops store some results."""


@dataclass(frozen=True)
class Liveness:
    """The sizes and dependences of the ops of a flat graph, by op number.

    - `size`: the bytes of the op's results; 0 for virtual ops.
    - `needs`: the ops whose results the op reads.
    - `reads`: the ops of nonzero size that must be live when the op runs; a virtual op has none.
    - `roots`: the ops whose results a virtual op stands for; any other op is its own root.
    - `kept`: maps each root of a graph result to the number of its bytes that the graph returns. The number may be less
    than `size`, because a loop may have results that the graph does not return.
    - `arguments`: the bytes of the graph's inputs.
    - `inside`: the bytes that are live in the regions of a control-flow op while it runs (`inside.py`).
    - `in_place`: the ops that write a result of the graph into the array of another op.
    - `may_split`: whether the graph may be split into two execution regions (`regions.py`).
    - `times`: a cache for `seconds`.
    """

    ops: Sequence[Definition]
    size: list[int]
    needs: list[tuple[int, ...]]
    reads: list[tuple[int, ...]]
    roots: list[tuple[int, ...]]
    kept: dict[int, int]
    arguments: int
    inside: Mapping[Definition, int] = field(default_factory=dict)
    in_place: frozenset[Definition] = frozenset()
    may_split: bool = False
    times: dict[Definition, float] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def throughout(self) -> int:
        """The bytes of arguments and results, which are live at every op."""
        return self.arguments + sum(self.kept.values())

    def seconds(self, op: Definition) -> float:
        """Returns the estimated time of an op. The time is computed once for all schedules of a graph."""
        if op not in self.times:
            self.times[op] = seconds(op)
        return self.times[op]

    @cached_property
    def compared(self) -> frozenset[int]:
        """The ops whose results are tested for equality.

        These ops are not recomputed, because recomputation may round differently.
        """
        tests = [i for i, op in enumerate(self.ops) if compares_equal(op)]
        return frozenset(k for i in tests for j in self.needs[i] for k in self.roots[j])

    @cached_property
    def taken(self) -> list[int]:
        """The bytes that each op allocates when it runs. Bytes that the graph returns are not counted."""
        taken = list(self.size)
        for i, count in self.kept.items():
            taken[i] = 0 if self.ops[i] in self.in_place else taken[i] - count
        return taken

    def live(self, order: Sequence[int]) -> NDArray[np.float64]:
        """Returns the live bytes at each place of a schedule, in nearly linear time in the operands of all ops."""
        spans, found = self._regions(order)
        return (spans.live() if found is None else spans.live_in_two(found[1])) + self.throughout

    def peak(self, order: Sequence[int]) -> int:
        """The most bytes that are live at once."""
        spans, found = self._regions(order)
        if found is not None:
            return self.arguments + int(found[0])
        return self.throughout + int(spans.live().max(initial=0))

    def region_end(self, order: Sequence[int]) -> int | None:
        """Returns the place in a schedule at which the first of two regions ends, or None if there is only one."""
        _, found = self._regions(order)
        return None if found is None else found[1]

    @cached_property
    def _reads_by_op(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """All pairs of an op and its reader, as an array of the ops and an array of their readers."""
        counts = [len(reads) for reads in self.reads]
        read = np.fromiter(chain.from_iterable(self.reads), np.int64, sum(counts))
        return read, np.repeat(np.arange(len(counts)), counts)

    @cached_property
    def _bytes_by_op(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """For each op, three sizes: results that the graph does not return, returned results, and values in regions."""
        results = np.zeros(len(self.ops))
        results[list(self.kept)] = list(self.kept.values())
        inside = [self.inside.get(op, 0) for op in self.ops] if self.inside else np.zeros(len(self.ops))
        return np.asarray(self.taken, np.float64), results, np.asarray(inside, np.float64)

    def _regions(self, order: Sequence[int]) -> tuple[Spans, tuple[float, int] | None]:
        """Returns the spans of a schedule, and the result of `best_end`, or None if the schedule stays one region."""
        ops = np.asarray(order, np.int64)
        place = np.empty(len(self.ops), np.int64)
        place[ops] = np.arange(len(ops))
        last, (read, reader) = place.copy(), self._reads_by_op
        np.maximum.at(last, read, place[reader])
        spans = Spans(last[ops], *(bytes_[ops] for bytes_ in self._bytes_by_op))
        return spans, best_end(spans, self._ends(place)) if self.may_split else None

    def _ends(self, place: NDArray[np.int64]) -> list[int]:
        """Returns the places after which a region may end; `place` maps each op to its place in the schedule.

        A region may end after an op that computes a result of the graph, except the last such op. It may not end
        between an array and an op that updates the array in place.
        """
        ends: list[int] = np.sort(place[list(self.kept)])[:-1].tolist()
        for i in (i for i in self.kept if self.ops[i] in self.in_place):
            array = max(self.reads[i], key=lambda j: self.kept.get(j, 0), default=i)
            ends = [end for end in ends if not place[array] <= end < place[i]]
        return ends


def liveness(graph: Graph) -> Liveness:
    """The sizes and dependences of the ops of a flat graph."""
    ops = graph.definitions
    number = {y: i for i, op in enumerate(ops) for y in op.results}
    needs = [tuple(dict.fromkeys(number[x] for x in op.reads if x in number)) for op in ops]
    outputs = [number[y] for y in graph.outputs if y is not None and y in number]
    readers: list[int] = [0] * len(ops)
    reader: list[Any] = [None] * len(ops)
    for i, before in enumerate(needs):
        for j in before:
            readers[j] += 1
            reader[j] = ops[i]
    for i in outputs:
        readers[i] += 2
    fused = fused_ops(ops, needs, outputs)
    results, in_loops = set(outputs), {j for i, op in enumerate(ops) if is_control(op) for j in needs[i]}
    written = _written_in_order(ops, number, results)
    merged = {i for i in range(len(ops)) if readers[i] == 1 and _is_one_product(ops[i], reader[i])}
    size = [0] * len(ops)
    reads: list[tuple[int, ...]] = []
    roots: list[tuple[int, ...]] = []
    for i, op in enumerate(ops):
        behind = tuple(dict.fromkeys(j for k in needs[i] for j in roots[k]))
        is_fused = fused[i] or (i not in written and readers[i] > 0)
        is_fused |= not merged.isdisjoint(needs[i])
        if len(behind) <= MOST_ROOTS and (is_fused or _is_renaming(op, i in results, i in in_loops)):
            reads.append(())
            roots.append(behind)
        else:
            size[i] = sum(map(size_in_bytes, (reader[i] if i in merged else op).results))
            reads.append(behind)
            roots.append((i,))
    kept = _kept(graph, size, roots, number)
    in_place = _in_place(ops, number, readers, needs, roots, size, kept)
    for i, array in in_place.items():
        kept[i], kept[array] = 0, size[array]
    arguments = sum(map(size_in_bytes, _inputs(graph)))
    return Liveness(
        ops, size, needs, reads, roots, kept, arguments, in_place=frozenset(ops[i] for i in in_place)
    )


def fused_ops(
    ops: Sequence[Definition], needs: Sequence[Iterable[int]], results: Collection[int]
) -> list[bool]:
    """Returns for each op whether compilers fuse it into the kernel that reads it.

    All readers must be elementwise ops of one kernel. If several ops of the kernel read the op's result, the op must be
    elementwise; with a single reader, it may be a pad or an update of zeros. `needs` lists for each op the earlier ops
    that it reads. The ops `results`, which compute the results of the graph, are never fused.
    """
    kernel = list(range(len(ops)))  # the last op of each op's kernel
    readers = [0] * len(ops)
    of_readers: list[int | None] = [None] * len(ops)  # None before a reader is seen, -1 for several kernels
    for i in results:
        of_readers[i] = -1
    for i in reversed(range(len(ops))):
        op, of = ops[i], of_readers[i]
        is_elementwise = op.name in ELEMENTWISE
        if of is not None and of >= 0:
            if is_elementwise or (readers[i] == 1 and (op.name in FUSED or is_update_of_zeros(op))):
                kernel[i] = of
        for j in needs[i]:
            readers[j] += 1
            before = of_readers[j]
            of_readers[j] = kernel[i] if is_elementwise and before in (None, kernel[i]) else -1
    return [kernel[i] != i for i in range(len(ops))]


def _kept(
    graph: Graph, size: Sequence[int], roots: Sequence[tuple[int, ...]], number: Mapping[Value, int]
) -> dict[int, int]:
    """Maps each root of the graph's results to the number of its bytes that the graph returns."""
    kept: dict[int, int] = {}
    for y in dict.fromkeys(y for y in graph.outputs if y is not None and y in number):
        behind = roots[number[y]]
        for j in behind:
            bytes_ = size_in_bytes(y) if len(behind) == 1 else size[j]
            kept[j] = min(size[j], kept.get(j, 0) + bytes_)
    return kept


def _in_place(
    ops: Sequence[Definition],
    number: Mapping[Value, int],
    readers: Sequence[int],
    needs: Sequence[Sequence[int]],
    roots: Sequence[tuple[int, ...]],
    size: Sequence[int],
    kept: Mapping[int, int],
) -> dict[int, int]:
    """Maps each op that writes a result of the graph into an array to the op that computes the array.

    The array must have no other reader, and the size of the result.
    """
    found: dict[int, int] = {}
    for i in kept:
        array = updated(ops[i])
        x = None if array is None else number.get(array)
        while x is not None and readers[x] == 1 and roots[x] != (x,):
            x = needs[x][0] if len(needs[x]) == 1 else None
        if x is not None and readers[x] == 1 and x not in kept and size[x] == size[i] == kept[i]:
            found[i] = x
    return found


def _is_renaming(op: Definition, is_result: bool, is_read_in_loops: bool) -> bool:
    """Whether an op computes no new array, because it renames or repeats elements, or takes a contiguous part.

    Returns False if the graph returns repeated elements or the part, or if a loop reads the part, because compilers
    then write the result to memory. Constants and iotas count as repeated elements.
    """
    traits = traits_of(op.name)
    if op.name in _BROADCASTS or traits.kind == "source":
        return not is_result
    if _is_contiguous_part(op):
        return not is_result and not is_read_in_loops
    return traits.bytes == "none" or _is_identity(op)


def _is_identity(op: Definition) -> bool:
    """Whether `lower` replaces the op by its operand. Examples are an addition of zeros, and a pad of width zero."""
    if op.name == "stablehlo.pad":
        paddings = ("edge_padding_low", "edge_padding_high", "interior_padding")
        return not any(any(op.attributes[name]) for name in paddings)
    rule = IDENTITIES.get(op.name)
    return rule is not None and isinstance(rule(op, op.operands), Value)


def _written_in_order(
    ops: Sequence[Definition], number: Mapping[Value, int], results: Collection[int]
) -> set[int]:
    """Returns the ops whose results must be stored with their elements in order.

    The graph returns these results, or an op reads them that cannot read the operand in another order (`_reorders`).
    """
    of_others = {number[x] for op in ops if op.name != _PRODUCT for x in op.reads if x in number}
    written = set(results)
    for i, op in enumerate(ops):
        # A product that reads only a broadcast matrix can read the matrix itself for each batch.
        is_of_products = op.name in _BROADCASTS and i not in of_others and i not in results
        for x in op.reads:
            j = number.get(x)
            if j is not None and not (
                _reorders(ops[j], op, x) or (is_of_products and _is_transposed(ops[j]))
            ):
                written.add(j)
    return written


def _reorders(op: Definition, reader: Definition, y: Value) -> bool:
    """Whether `op`, with the result y, transposes a matrix for a product, or reverses the kernel of a convolution.

    Compilers remove such an op, and let its reader read the op's operand in another order.
    """
    if reader.name == _PRODUCT:
        return _is_transposed(op)
    if op.name != "stablehlo.reverse" or reader.name != "stablehlo.convolution" or y == reader.operands[0]:
        return False
    numbers = hlo.ConvDimensionNumbers(reader.attributes["dimension_numbers"])
    return set(op.attributes["dimensions"]) <= set(numbers.kernel_spatial_dimensions)


def _is_transposed(op: Definition) -> bool:
    return op.name == "stablehlo.transpose" and len(sizes_in(op.result.type)) == 2


def _is_one_product(op: Definition, reader: Definition) -> bool:
    """Whether compilers compute a product and its reader as one product.

    The reader must add up batches of the product, or exchange its rows and columns.
    """
    if op.name != _PRODUCT:
        return False
    batches = len(Contraction.of(op).batches[0])
    if reader.name == "stablehlo.transpose":
        rank = len(sizes_in(op.result.type))
        return rank == batches + 2 and list(reader.attributes["permutation"]) == [
            *range(batches),
            rank - 1,
            batches,
        ]
    if reader.name != "stablehlo.reduce" or len(reader.operands) != 2 or reducer(reader) != "stablehlo.add":
        return False
    return all(d < batches for d in reader.attributes["dimensions"])


def _is_contiguous_part(op: Definition) -> bool:
    """Whether an op is a slice that is contiguous in memory.

    Such a slice takes all elements along each dimension after the first dimension in which its size is not 1.
    """
    if op.name != "stablehlo.slice":
        return False
    sizes, of = sizes_in(op.result.type), sizes_in(op.operands[0].type)
    first = next((d for d, n in enumerate(sizes) if n != 1), 0)
    return set(op.attributes["strides"]) <= {1} and sizes[first + 1 :] == of[first + 1 :]


def _inputs(graph: Graph) -> list[Value]:
    return list(graph.inputs.values())
