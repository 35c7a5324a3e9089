"""Shape rules express the size of each dimension of a result in terms of the sizes that determine it.

If an op has no rule, the dynamic sizes of its results are new atoms, that is, sizes that the program reads from these
results (see `sizes.py`).

`size_of(x, d)` applies the rules repeatedly, until it has expressed the size of dimension d of x by atoms. It uses a
loop instead of recursion, so that graphs may be deep, and caches the sizes of each graph.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.dialect.graph.graph import Definition, Graph, Value
from tiduc.dialect.ops.contractions import Contraction
from tiduc.dialect.ops.control_ops import CUSTOM_CALL, call_target
from tiduc.dialect.ops.traits import TRAITS
from tiduc.dialect.shapes.sizes import Size, atom, positive

DIRECTION = "comparison_direction"
SHAPE_OPERANDS, DYNAMIC_TOP_K = "indices_of_shape_operands", "stablehlo.dynamic_top_k"

DYNAMIC: int = ir.ShapedType.get_dynamic_size()
"""The number that stands for a dynamic dimension in the shape of a type."""


@dataclass(frozen=True)
class Origin:
    """A size as a function of other sizes: `combine` of the sizes of the dimensions `places`.

    Each of `places` is a pair of a value and the index of one of its dimensions.
    """

    places: tuple[tuple[Value, int], ...]
    combine: Callable[..., Any]


Rule = Callable[[Definition, int, int], Origin | None]
"""Maps an op, the index of a result and the index of a dimension to the origin of the dimension; None if unknown."""


def size_of(x: Value, d: int) -> Any:
    """The size of dimension d of a value: an int, or a `Size` if the dimension is dynamic."""
    stack = [(x, d)]
    while stack:
        place = stack[-1]
        if _known(place) is None:
            origin = _origin(*place)
            missing = [p for p in origin.places if _known(p) is None]
            if missing:
                stack += missing
                continue
            sizes = place[0].graph.sizes
            sizes[place] = origin.combine(*map(_known, origin.places))
        stack.pop()
    return _known((x, d))


def _known(place: tuple[Value, int]) -> int | Size | None:
    n = sizes_in(place[0].type)[place[1]]
    return place[0].graph.sizes.get(place) if n == DYNAMIC else n


def set_sizes(x: Value, like: Value) -> None:
    """Records that x has the sizes of `like`, a value of the same rank, for an x whose op has no shape rule."""
    for d, n in enumerate(sizes_in(x.type)):
        if n == DYNAMIC:
            x.graph.sizes[x, d] = size_of(like, d)


@functools.cache
def sizes_in(type_: ir.RankedTensorType) -> tuple[int, ...]:
    """The sizes in a tensor type; `DYNAMIC` for dynamic dimensions."""
    return tuple(type_.shape)


def _origin(x: Value, d: int) -> Origin:
    """The origin of dimension d of x.

    An input of a linear graph has the sizes of its primal value. For other inputs, an assertion may state the origin
    (`_asserted`). The rule of an op gives the origins of the sizes of the op's results. A bound input counts as the
    result of an op `tidu.bind`. In any other case, the size is an atom.
    """
    primal = x.graph.primal_of(x)
    if primal is not None:
        return _at(primal, d)
    op = x.definition
    origin = None
    if op is None:
        origin = _asserted(x.graph).get((x, d))
    elif (rule := RULES.get(op.name)) is not None:
        origin = rule(op, op.results.index(x), d)
    elif op.name == CUSTOM_CALL:  # not in RULES, because it is unknown which sizes such calls require
        origin = _custom_call(op, op.results.index(x), d)
    return origin or _always(atom("dimension", x, d))


def _asserted(graph: Graph) -> dict[tuple[Value, int], Origin]:
    """Origins of input dimensions that follow from JAX's shape assertions, in terms of the sizes of earlier inputs."""
    if graph.asserted is None:
        graph.asserted = {}
        order = {x: i for i, x in enumerate(graph.inputs.values())}
        for op in graph.definitions:
            if call_target(op) == "shape_assertion":
                test = op.operands[0].definition
                if (
                    test is None
                    or test.name != "stablehlo.compare"
                    or "EQ" not in str(test.attributes[DIRECTION])
                ):
                    continue
                size, other = map(scalar, test.operands)
                before = [order.get(x, len(order)) for x, _ in other.places]
                if size.combine is _itself and max(before, default=-1) < order.get(size.places[0][0], -1):
                    graph.asserted.setdefault(size.places[0], other)
    return graph.asserted


def _itself(n: int | Size) -> int | Size:
    return n


def _at(x: Value, d: int) -> Origin:
    return Origin(((x, d),), _itself)


def _always(n: int | Size) -> Origin:
    return Origin((), lambda: n)


def _both(a: Origin, b: Origin, combine: Callable[[int | Size, int | Size], int | Size]) -> Origin:
    count = len(a.places)
    return Origin(a.places + b.places, lambda *n: combine(a.combine(*n[:count]), b.combine(*n[count:])))


# ---- sizes are read from operands --------------------------------------------------------------------------


def entries(x: Value) -> list[Any]:
    """The sizes in a shape vector, a vector whose entries are sizes of dimensions."""
    origins = [entry(x, i) for i in range(sizes_in(x.type)[0])]
    return [origin.combine(*(size_of(*place) for place in origin.places)) for origin in origins]


def entry(x: Value, i: int) -> Origin:
    """The origin of the size in entry i of a shape vector. Traces the entry through ops that compute the vector."""
    while (op := x.definition) is not None:
        if op.name in ("stablehlo.convert", "arith.index_cast"):
            x = op.operands[0]
        elif op.name == "stablehlo.concatenate":
            for part in op.operands:
                length = sizes_in(part.type)[0]
                if length == DYNAMIC or i < length:
                    break
                i -= length
            if length == DYNAMIC:
                break
            x = part
        elif op.name == "stablehlo.slice":
            i = op.attributes["start_indices"][0] + i * op.attributes["strides"][0]
            x = op.operands[0]
        elif op.name in ("stablehlo.reshape", "stablehlo.broadcast_in_dim") and not _rank(op.operands[0]):
            return scalar(op.operands[0])
        elif op.name == "stablehlo.reshape" and (constant := _constant(op.operands[0])) is not None:
            return _always(_number(constant, i))
        elif op.name == "shape.shape_of":
            return _at(op.operands[0], i)
        elif op.name == "tensor.from_elements":
            return scalar(op.operands[i])
        elif op.name == "stablehlo.constant":
            return _always(_number(op, i))
        else:
            break
    return _always(atom("entry", x, i))


def scalar(x: Value, depth: int = 8) -> Origin:
    """The origin of the size in an integer scalar: a constant, a dimension, or arithmetic on such sizes.

    Traces the scalar through at most `depth` nested arithmetic ops.
    """
    while depth and (op := x.definition) is not None:
        if op.name in ("stablehlo.convert", "arith.index_cast"):
            x = op.operands[0]
        elif op.name == "stablehlo.reshape" and sizes_in(op.operands[0].type) == (1,):
            return entry(op.operands[0], 0)
        elif op.name == "stablehlo.constant":
            return _always(_number(op, 0))
        elif op.name == "arith.constant":
            return _always(int(ir.IntegerAttr(op.attributes["value"]).value))
        elif op.name == "stablehlo.get_dimension_size":
            return _at(op.operands[0], int(op.attributes["dimension"].value))
        elif op.name == "tensor.dim":
            which = scalar(op.operands[1])
            return _at(op.operands[0], which.combine()) if not which.places else _always(atom("scalar", x))
        elif (combine := ARITHMETIC.get(op.name.partition(".")[2])) is not None:
            return _both(scalar(op.operands[0], depth - 1), scalar(op.operands[1], depth - 1), combine)
        else:
            break
    return _always(atom("scalar", x))


ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    **dict.fromkeys(("add", "addi"), lambda a, b: a + b),
    **dict.fromkeys(("multiply", "muli"), lambda a, b: a * b),
    **dict.fromkeys(("subtract", "subi"), lambda a, b: a - b),
}


def _constant(x: Value) -> Definition | None:
    op = x.definition
    return op if op is not None and op.name == "stablehlo.constant" else None


def _number(op: Definition, i: int) -> int:
    value = op.attributes["value"]
    if value.is_splat:
        return int(value.get_splat_value().value)
    try:
        return int(value[i])
    except TypeError:  # the bindings cannot read integers of 4 bits
        entries = str(value).partition("[")[2].partition("]")[0]
        return int(entries.split(",")[i])


def _rank(x: Value) -> int:
    return len(sizes_in(x.type)) if isinstance(x.type, ir.RankedTensorType) else 0


# ---- each of these functions is the rule of an op ----------------------------------------------------------


def _elementwise(op: Definition, result: int, d: int) -> Origin | None:
    """The origin is dimension d of an operand that has the rank of the result; None if there is no such operand.

    Prefers operands whose dimension d is dynamic and, among these, operands that are not tangents.
    """
    alike = [i for i, x in enumerate(op.operands) if _rank(x) == _rank(op.results[result])]
    if not alike:
        return None
    active = op.active or (False,) * len(op.operands)
    best = min(alike, key=lambda i: (sizes_in(op.operands[i].type)[d] != DYNAMIC, active[i]))
    return _at(op.operands[best], d)


def _as_operand(number: int | None) -> Rule:
    """Returns a rule: a result has the sizes of operand `number`. For None, result i has the sizes of operand i."""
    return lambda op, result, d: _at(op.operands[result if number is None else number], d)


def _reduce(op: Definition, result: int, d: int) -> Origin:
    dropped = list(op.attributes["dimensions"])
    return _at(op.operands[result], [i for i in range(_rank(op.operands[result])) if i not in dropped][d])


def _transpose(op: Definition, result: int, d: int) -> Origin:
    return _at(op.operands[0], op.attributes["permutation"][d])


def _concatenate(op: Definition, result: int, d: int) -> Origin:
    if d != op.attributes["dimension"].value:
        return _at(op.operands[0], d)
    return Origin(tuple((x, d) for x in op.operands), lambda *n: sum(n[1:], n[0]))


def _dot_general(op: Definition, result: int, d: int) -> Origin:
    (x, y), of = op.operands, Contraction.of(op)
    places = [(x, i) for i in (*of.batches[0], *of.kept(0, _rank(x)))]
    return _at(*[*places, *((y, i) for i in of.kept(1, _rank(y)))][d])


def _gather(op: Definition, result: int, d: int) -> Origin | None:
    numbers = hlo.GatherDimensionNumbers(op.attributes["dimension_numbers"])
    indices, offset = op.operands[1], list(numbers.offset_dims)
    if d not in offset:
        batch = [i for i in range(_rank(indices)) if i != numbers.index_vector_dim]
        return _at(indices, batch[d - sum(i < d for i in offset)])
    gone = [*numbers.collapsed_slice_dims, *numbers.operand_batching_dims]
    kept = [i for i in range(_rank(op.operands[0])) if i not in gone]
    return entry(op.operands[2], kept[offset.index(d)]) if len(op.operands) == 3 else None


def _pad(op: Definition, result: int, d: int) -> Origin:
    names = "edge_padding_low", "edge_padding_high", "interior_padding"
    low, high, interior = (op.attributes[name][d] for name in names)
    return Origin(((op.operands[0], d),), lambda n: n + low + high + positive(n - 1) * interior)


def _dynamic_pad(op: Definition, result: int, d: int) -> Origin:
    low, high, interior = (entry(x, d) for x in op.operands[2:])
    between = _both(_at(op.operands[0], d), interior, lambda n, i: n + positive(n - 1) * i)
    return _both(between, _both(low, high, lambda a, b: a + b), lambda a, b: a + b)


def _real_dynamic_slice(op: Definition, result: int, d: int) -> Origin:
    start, limit, strides = (entry(x, d) for x in op.operands[1:])
    return _both(_both(start, limit, lambda a, b: a - b), strides, lambda a, b: -(a // b))


def _reduce_window(op: Definition, result: int, d: int) -> Origin | None:
    names = "window_dimensions", "window_strides"
    plain = all(op.attributes[name][d] == 1 for name in names if name in op.attributes)
    if "padding" in op.attributes:
        plain = plain and not np.array(op.attributes["padding"]).reshape(-1, 2)[d].any()
    dilated = "base_dilations" in op.attributes and op.attributes["base_dilations"][d] != 1
    return _at(op.operands[result], d) if plain and not dilated else None


def _convolution(op: Definition, result: int, d: int) -> Origin | None:
    n = hlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
    if d == n.output_feature_dimension:
        return _at(op.operands[1], n.kernel_output_feature_dimension)
    if d != n.output_batch_dimension:
        return None
    groups = int(op.attributes["batch_group_count"].value)
    return Origin(((op.operands[0], n.input_batch_dimension),), lambda n: n // groups)


def _set_dimension_size(op: Definition, result: int, d: int) -> Origin:
    changed = d == op.attributes["dimension"].value
    return scalar(op.operands[1]) if changed else _at(op.operands[0], d)


def _custom_call(op: Definition, result: int, d: int) -> Origin | None:
    """The origin of a dimension of a custom call's result; None if it is unknown.

    In programs of JAX, an attribute states which operand contains the shape of a result. For `stablehlo.dynamic_top_k`,
    the last size is the operand k, and the other sizes are those of the first operand.
    """
    if SHAPE_OPERANDS in op.attributes:
        return entry(op.operands[list(op.attributes[SHAPE_OPERANDS])[result]], d)
    if call_target(op) != DYNAMIC_TOP_K:
        return None
    return scalar(op.operands[1]) if d == _rank(op.operands[0]) - 1 else _at(op.operands[0], d)


_SIZES: dict[str, Rule] = {
    "alike": _elementwise,
    "each": _as_operand(None),
    "0": _as_operand(0),
    "1": _as_operand(1),
    "vector": lambda op, result, d: entry(op.operands[TRAITS[op.name].sizes_in[0]], d),
}
"""Maps an entry of the column `sizes` in the table of traits to the shape rule that it stands for."""

RULES: dict[str, Rule] = {
    **{name: _SIZES[row.sizes] for name, row in TRAITS.items() if row.sizes in _SIZES},
    "stablehlo.concatenate": _concatenate,
    "stablehlo.convolution": _convolution,
    "stablehlo.dot": _dot_general,
    "stablehlo.dot_general": _dot_general,
    "stablehlo.dynamic_gather": _gather,
    "stablehlo.dynamic_pad": _dynamic_pad,
    "stablehlo.gather": _gather,
    "stablehlo.pad": _pad,
    "stablehlo.real_dynamic_slice": _real_dynamic_slice,
    "stablehlo.reduce": _reduce,
    "stablehlo.reduce_window": _reduce_window,
    "stablehlo.set_dimension_size": _set_dimension_size,
    "stablehlo.transpose": _transpose,
    "tidu.bind": _as_operand(0),
}
"""Maps op names to shape rules.

If an op has no rule, as is the case for loops and most custom calls, the dynamic sizes of its results are atoms.
"""
