"""costs: estimates the bytes, floating-point operations and time of an op from the types of its operands and results.

The table in ops/traits.py selects the formula for each op; docs/explain.md lists the formulas. An addition, a
multiplication or another single operation on floats is one FLOP. An evaluation of a transcendental function, such as an
exponential, is one FLOP, too, and these evaluations are also counted separately. The bytes are those that an op reads
and writes if it is not fused; compilers that fuse ops move fewer bytes.
"""

import functools
import math
from collections.abc import Callable

from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.dialect.facts.rates import rates
from tiduc.dialect.graph.graph import Definition, Value, operations
from tiduc.dialect.mlir.resources import element_bytes
from tiduc.dialect.ops.contractions import Contraction
from tiduc.dialect.ops.ir_types import Typed
from tiduc.dialect.ops.traits import traits_of
from tiduc.dialect.shapes.origins import DYNAMIC, sizes_in


def seconds(op: Definition) -> float:
    """The estimated time of one run of an op: the maximum of the times for its memory traffic and its arithmetic.

    The regions of control-flow ops are not included.
    """
    (transcendentals, flops), rate = computed(op) or (0, 0), rates()
    return max(moved(op) / rate.bytes, flops / rate.flops + transcendentals / rate.functions)


def computed(op: Definition) -> tuple[int, int] | None:
    """Counts the transcendental evaluations, and the other FLOPs, in one run of an op. None if they are unknown."""
    flops = traits_of(op.name).flops
    if flops == "function":
        return _real_size(op.result), 0
    if flops == "formula":
        return 0, FORMULAS[op.name.partition(".")[2]](op)
    if flops.isdigit():
        return 0, _float_elements(op) * _complex(op.result, int(flops))
    return None if flops == "?" else (0, 0)


# ---- a dynamic dimension counts as one element -------------------------------------------------------------------


def _sizes(x: Value) -> tuple[int, ...]:
    """The sizes of a tensor, with 1 for each dynamic dimension. () for other values."""
    return tuple([n if n != DYNAMIC else 1 for n in _known_sizes(x)])


def _known_sizes(x: Value) -> tuple[int, ...]:
    return sizes_in(x.type) if isinstance(x.type, ir.RankedTensorType) else ()


def is_open(x: Value) -> bool:
    """Whether a value has a dynamic dimension."""
    return DYNAMIC in _known_sizes(x)


def size(x: Value) -> int:
    """The number of elements of a tensor; a dynamic dimension counts as 1."""
    return math.prod(_sizes(x))


def size_in_bytes(x: Typed) -> int:
    """The bytes of a tensor, where a dynamic dimension counts as 1. 0 if the value is not a ranked tensor."""
    return _static_bytes(x.type)


@functools.cache
def _static_bytes(type_: ir.Type) -> int:
    bytes_ = element_bytes(type_)
    return bytes_ * math.prod(n for n in sizes_in(type_) if n != DYNAMIC) if bytes_ else 0


@functools.cache
def stored_bytes(type_: ir.RankedTensorType) -> int | None:
    """The bytes of a tensor of this type. None if the shape is dynamic."""
    if not type_.has_static_shape:
        return None
    return math.prod(sizes_in(type_)) * element_bytes(type_)


def _is_float(x: Value) -> bool:
    element = getattr(x.type, "element_type", None)
    return isinstance(element, ir.FloatType | ir.ComplexType)


def _complex(x: Value, of_complex: int) -> int:
    """The number of real operations that an operation on one element of x takes: `of_complex` for complex x, else 1."""
    return of_complex if isinstance(getattr(x.type, "element_type", None), ir.ComplexType) else 1


def _real_size(x: Value) -> int:
    return size(x) if _is_float(x) else 0


def _float_elements(op: Definition) -> int:
    """The number of elements of the result if the op computes with floats, else 0."""
    return size(op.results[0]) if op.operands and _is_float(op.operands[0]) else 0


def moved(op: Definition) -> int:
    """The bytes that an op reads and writes. If an operand is read or written in part, only this part counts."""
    how, written = traits_of(op.name).bytes, sum(map(size_in_bytes, op.results))
    if how == "none":
        return 0
    if how == "part":
        return 2 * written + sum(map(size_in_bytes, op.operands[1:]))
    if op.name == "stablehlo.dynamic_update_slice":
        return 2 * size_in_bytes(op.operands[1])
    if op.name == "stablehlo.scatter":
        count = len(op.results)
        return size_in_bytes(op.operands[count]) + 3 * sum(map(size_in_bytes, op.operands[count + 1 :]))
    return written + sum(map(size_in_bytes, op.operands))


# ---- these functions count the FLOPs of ops ----------------------------------------------------------------------


def _body(op: Definition) -> int:
    """The number of float operations in an op's regions, which compute with scalars."""
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
    sizes = _sizes(op.operands[0])
    return _dot(math.prod(sizes[d] for d in Contraction.of(op).summed[0]), op)


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
    "dot": _dot_general,
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
"""Maps the name of an op, without its dialect, to the formula for the FLOPs of one run of the op."""
