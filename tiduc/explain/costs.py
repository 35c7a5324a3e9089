"""costs: what a program computes and moves, from the types of its ops alone; docs/explain.md has the formulas.

FLOPs are additions, multiplications and other single operations on floats, and one for each value of a
transcendental function such as an exponential; these functions are also counted separately. Bytes are what
each op would read and write by itself: compilers that fuse ops move less. The body of a loop counts once per
iteration of the known trip count.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.dialect.context import stage
from tiduc.dialect.control import Branches, control, is_control
from tiduc.dialect.control_ops import call_target
from tiduc.dialect.dynamic.origins import DYNAMIC, sizes_in
from tiduc.dialect.errors import describe
from tiduc.dialect.graph import Definition, Graph, Value, operations
from tiduc.dialect.traits import traits_of
from tiduc.dialect.view import BINDING, View
from tiduc.ports import Function


@dataclass(frozen=True)
class OpCost:
    """One op that runs `times` times; flops, transcendentals and bytes are totals over all runs."""

    op: str
    type: str
    place: str
    flops: int
    transcendentals: int
    bytes: int
    times: int


@dataclass(frozen=True)
class Cost:
    """The cost of a program, and why it may be higher: unknown trip counts, dynamic shapes, ops without a formula."""

    ops: tuple[OpCost, ...]
    unknown_loops: tuple[str, ...] = ()
    open_sizes: bool = False
    uncounted: tuple[str, ...] = ()

    @property
    def flops(self) -> int:
        return sum(op.flops for op in self.ops)

    @property
    def transcendentals(self) -> int:
        return sum(op.transcendentals for op in self.ops)

    @property
    def bytes(self) -> int:
        return sum(op.bytes for op in self.ops)

    def most_expensive(self, count: int = 5) -> list[OpCost]:
        """The ops with the most FLOPs; among equals, with the most bytes."""
        return sorted(self.ops, key=lambda op: (op.flops, op.bytes), reverse=True)[:count]


@stage
def find_cost(program: Function) -> Cost:
    """The cost of a program and of everything that it calls."""
    walk = _Walk(program.view)
    ops = tuple(walk.graph(program.view.graph(program.name), 1))
    return Cost(
        ops, tuple(dict.fromkeys(walk.unknown_loops)), walk.open_sizes, tuple(dict.fromkeys(walk.uncounted))
    )


class _Walk:
    def __init__(self, view: View) -> None:
        self.view = view
        self.unknown_loops: list[str] = []
        self.uncounted: list[str] = []
        self.open_sizes = False

    def graph(self, graph: Graph, times: int) -> Iterator[OpCost]:
        """The costs of the ops of a graph that runs `times` times."""
        for op in graph.definitions:
            if is_control(op):
                yield from self.control(op, times)
            elif op.name not in FREE:
                yield self.op(op, times)

    def control(self, op: Definition, times: int) -> Iterator[OpCost]:
        """The costs of what a call runs, of the branch with most FLOPs, or of a loop's runs of body and condition."""
        structure = control(self.view, op)
        if isinstance(structure, Branches):
            branches = [list(self.graph(graph, times)) for graph in structure.graphs]
            yield from max(branches, key=lambda ops: sum(inner.flops for inner in ops))
            return
        count = structure.trip_count
        if count is None and structure.cond is None and structure.sequences:
            length = sizes_in(structure.sequences[0].type)[0]
            count = length if length != DYNAMIC else None
        if count is None:
            count = structure.bound or 1
            self.unknown_loops.append(describe(op.location) or op.name.removeprefix("stablehlo."))
        yield from self.graph(structure.body, times * count)
        if structure.cond is not None:
            yield from self.graph(structure.cond, times * (count + 1))

    def op(self, op: Definition, times: int) -> OpCost:
        self.open_sizes |= any(DYNAMIC in _sizes(x) for x in (*op.operands, *op.results))
        flops, transcendentals = self.computed(op)
        name = op.name.removeprefix("stablehlo.")
        if (target := call_target(op)) is not None:
            name = f"custom_call @{target}"
        type_ = ", ".join(str(y.type).removeprefix("tensor<").removesuffix(">") for y in op.results)
        cost = OpCost(
            name, type_, describe(op.location), flops + transcendentals, transcendentals, _moved(op), times
        )
        return replace(
            cost, flops=cost.flops * times, transcendentals=transcendentals * times, bytes=cost.bytes * times
        )

    def computed(self, op: Definition) -> tuple[int, int]:
        """The transcendentals, and the other FLOPs before them, of one run of an op."""
        name = op.name.partition(".")[2]
        flops = traits_of(op.name).flops
        if flops == "function":
            return 0, _real_size(op.result)
        if flops == "formula":
            return FORMULAS[name](op), 0
        if flops.isdigit():
            return _float_elements(op) * _complex(op.result, int(flops)), 0
        if flops == "?":
            self.uncounted.append(
                name if name != "custom_call" else f"@{op.attributes['call_target_name'].value}"
            )
        return 0, 0


# ---- sizes -------------------------------------------------------------------------------------------------------


def _sizes(x: Value) -> tuple[int, ...]:
    return sizes_in(x.type) if isinstance(x.type, ir.RankedTensorType) else ()


def size(x: Value) -> int:
    """The number of elements; a dynamic dimension counts as 1."""
    return math.prod(n if n != DYNAMIC else 1 for n in _sizes(x))


def size_in_bytes(x: Value) -> int:
    """The bytes of a value; a boolean takes one."""
    if not isinstance(x.type, ir.RankedTensorType):
        return 0
    element, parts = x.type.element_type, 1
    if isinstance(element, ir.ComplexType):
        element, parts = element.element_type, 2
    width = getattr(element, "width", 8)
    return size(x) * parts * max(1, (width + 7) // 8)


def _is_float(x: Value) -> bool:
    element = getattr(x.type, "element_type", None)
    return isinstance(element, ir.FloatType | ir.ComplexType)


def _complex(x: Value, of_complex: int) -> int:
    """The number of real operations in one operation on an element: `of_complex` for complex elements, else 1."""
    return of_complex if isinstance(getattr(x.type, "element_type", None), ir.ComplexType) else 1


def _real_size(x: Value) -> int:
    return size(x) if _is_float(x) else 0


def _float_elements(op: Definition) -> int:
    """The number of elements of the result if the op computes with floats, else 0."""
    return size(op.results[0]) if op.operands and _is_float(op.operands[0]) else 0


def _moved(op: Definition) -> int:
    """The bytes that an op reads and writes; of an operand that is read or written in part, only that part."""
    moved, written = traits_of(op.name).bytes, sum(map(size_in_bytes, op.results))
    if moved == "none":
        return 0
    if moved == "part":
        return 2 * written + sum(map(size_in_bytes, op.operands[1:]))
    if op.name == "stablehlo.dynamic_update_slice":
        return 2 * size_in_bytes(op.operands[1])
    if op.name == "stablehlo.scatter":
        count = len(op.results)
        return size_in_bytes(op.operands[count]) + 3 * sum(map(size_in_bytes, op.operands[count + 1 :]))
    return written + sum(map(size_in_bytes, op.operands))


# ---- formulas ----------------------------------------------------------------------------------------------------

FREE = ("stablehlo.constant", "stablehlo.return", BINDING)
"""Ops without a cost."""


def _body(op: Definition) -> int:
    """The number of float operations in a region on scalars."""
    count = 0
    for region in op.regions:
        for block in region.blocks:
            for inner in operations(block):
                flops = traits_of(inner.name).flops
                if (flops == "function" or flops.isdigit()) and _is_float(inner.operands[0]):
                    count += _complex(inner.operands[0], int(flops) if flops.isdigit() else 1)
    return count


def _dot(summed: int, op: Definition) -> int:
    per_product = 8 if _complex(op.result, 2) == 2 else 2
    return per_product * size(op.result) * summed if _is_float(op.result) else 0


def _dot_general(op: Definition) -> int:
    numbers = hlo.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
    sizes = _sizes(op.operands[0])
    return _dot(math.prod(sizes[i] for i in numbers.lhs_contracting_dimensions if sizes[i] != DYNAMIC), op)


def _plain_dot(op: Definition) -> int:
    sizes = _sizes(op.operands[0])
    return _dot(sizes[-1] if sizes and sizes[-1] != DYNAMIC else 1, op)


def _convolution(op: Definition) -> int:
    numbers = hlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
    sizes = _sizes(op.operands[1])
    window = math.prod(sizes[i] for i in numbers.kernel_spatial_dimensions)
    return _dot(window * sizes[numbers.kernel_input_feature_dimension], op)


def _reduce(op: Definition) -> int:
    return max(0, size(op.operands[0]) - size(op.results[0])) * _body(op)


def _reduce_window(op: Definition) -> int:
    window = int(math.prod(op.attributes["window_dimensions"]))
    return size(op.results[0]) * max(0, window - 1) * _body(op)


def _select_and_scatter(op: Definition) -> int:
    window = math.prod(op.attributes["window_dimensions"]) if "window_dimensions" in op.attributes else 1
    return size(op.operands[1]) * max(1, window) * int(_is_float(op.operands[0]))


def _scatter(op: Definition) -> int:
    return size(op.operands[len(op.results) + 1]) * _body(op)


def _sort(op: Definition) -> int:
    sizes = _sizes(op.operands[0])
    n = sizes[op.attributes["dimension"].value] if sizes else 1
    return size(op.operands[0]) * max(1, math.ceil(math.log2(max(2, n)))) * _body(op)


def _fft(op: Definition) -> int:
    lengths = list(op.attributes["fft_length"])
    n = math.prod(lengths)
    real = "RFFT" in str(op.attributes["fft_type"])
    x = op.result if "IRFFT" in str(op.attributes["fft_type"]) else op.operands[0]
    transforms = size(x) // max(1, math.prod(_sizes(x)[-len(lengths) :]))
    return int(transforms * (2.5 if real else 5) * n * math.log2(max(2, n)))


def _cholesky(op: Definition) -> int:
    n = _sizes(op.result)[-1]
    return size(op.result) * n // 3 * (4 if _complex(op.result, 2) == 2 else 1)


def _triangular_solve(op: Definition) -> int:
    n = _sizes(op.operands[0])[-1]
    return size(op.result) * n * (4 if _complex(op.result, 2) == 2 else 1)


def _per_element(count: int) -> Callable[[Definition], int]:
    return lambda op: count * size(op.operands[0])


def _all_reduce(op: Definition) -> int:
    return sum(map(size, op.operands)) * _body(op)


FORMULAS: dict[str, Callable[[Definition], int]] = {
    "all_reduce": _all_reduce,
    "batch_norm_grad": _per_element(12),
    "batch_norm_inference": _per_element(4),
    "batch_norm_training": _per_element(8),
    "cholesky": _cholesky,
    "convolution": _convolution,
    "dot": _plain_dot,
    "dot_general": _dot_general,
    "fft": _fft,
    "map": lambda op: size(op.result) * _body(op),
    "reduce": _reduce,
    "reduce_scatter": _all_reduce,
    "reduce_window": _reduce_window,
    "scatter": _scatter,
    "select_and_scatter": _select_and_scatter,
    "sort": _sort,
    "triangular_solve": _triangular_solve,
}
"""FLOPs of one run of the ops that have a formula of their own."""
