"""Rules of collectives, by which the processes of one program exchange values.

Each process has its own x, tangent and cotangent. All processes together compute one function of all their inputs. The
inner product of a transpose therefore sums over processes: sum_p <ct_p, dy_p> = sum_p <cx_p, dx_p>. The emitted ops
have the groups, channel and device ids of the op. They may share its channel, because it only says how to read groups.

Source: the StableHLO specification, "Distribution".
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch_mlir import ir

from tiduc.dialect.emitters.bodies import reducer
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.emitters.stablehlo_ops import combiner
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.mlir.constants import dense
from tiduc.dialect.ops.attributes import present
from tiduc.dialect.shapes.types import element, i64, is_empty, shape, with_shape
from tiduc.passes.rules.expansion import expanded, of_present
from tiduc.passes.rules.opset import linearize, transpose, unsupported
from tiduc.passes.rules.registry import Tangents
from tiduc.passes.rules.selection import EXTREMA, even_share

ADD = "stablehlo.add"
BODIES = "its body must be one of add, maximum, minimum, multiply"


@linearize("stablehlo.all_reduce")
def all_reduce(b: StablehloBuilder, op: Definition, dx: Tangents) -> Sequence[Value | None]:
    """For a sum, sums the tangents. For an extremum, averages those of all ties. For a product, gathers all factors."""
    name = reducer(op)
    if name == ADD:
        return sums(b, op, dx, op.results)
    if name in EXTREMA:
        of = zip(dx, op.operands, op.results, strict=True)
        return [None if d is None else _extremum(b, op, d, x, y, partial(_sum, b, op)) for d, x, y in of]
    if name == "stablehlo.multiply":
        return [None if d is None else _product(b, op, i, d) for i, d in enumerate(dx)]
    raise unsupported("jvp", op, BODIES)


def _extremum(
    b: StablehloBuilder, op: Definition, dx: Value, x: Value, y: Value, add: Callable[[Value], Value]
) -> Value:
    """dy = (sum of dx where x = y) / (number of ties), over the group. `add` sums over the group."""
    ties = b.compare(x, b.convert(y, element(x)), "EQ")
    number = add(b.convert(ties, ir.IntegerType.get_signless(32)))
    picked = add(b.select(ties, dx, b.zeros_like(x)))
    return b.convert(b.multiply(even_share(b, number, x), picked), element(op.results[0]))


def _sum(b: StablehloBuilder, op: Definition, x: Value) -> Value:
    (total,) = sums(b, op, [x], [x])
    assert isinstance(total, Value)
    return total


def _product(b: StablehloBuilder, op: Definition, i: int, dx: Value) -> Value | None:
    """The tangent of a product over the group. Gathers the factors along a new dimension, and multiplies along it."""
    groups = numbers(op, "replica_groups")
    if groups.size == 0 or groups.min() < 0:
        raise unsupported("jvp", op, "a product needs replica_groups of equal size")

    def build(x: Value) -> list[Value]:
        x = b.convert(x, element(op.results[i]))
        part = b.reshape(x, [1, *shape(x)])
        factors = gathered(b, op, part, i64(0), [groups.shape[1], *shape(x)])
        return [b.reduce(factors, b.constant(1, with_shape(x.type, [])), [0], "stablehlo.multiply")]

    return expanded(b, [op.operands[i]], [dx], build)[0]


@transpose("stablehlo.all_reduce")
def all_reduce_transpose(
    b: StablehloBuilder, op: Definition, ct: Tangents, active: Sequence[bool]
) -> Sequence[Value]:
    """The sum of the cotangents over the group. Only sums occur, because linearize emits no other all_reduce."""
    if reducer(op) != ADD:
        raise unsupported("transpose", op, "its body must be a sum")
    return _of_operands(b, op, sums(b, op, ct, op.results))


@linearize("stablehlo.reduce_scatter")
def reduce_scatter(b: StablehloBuilder, op: Definition, dx: Tangents) -> Sequence[Value]:
    """Like `all_reduce`, but each process gets one part. For an extremum, gathers all parts to compare them with x."""
    name, d = reducer(op), op.attributes["scatter_dimension"]
    if name == ADD:
        return [scattered(b, op, dx[0], d, op.result.type)]
    if name not in EXTREMA:
        raise unsupported("jvp", op, "its body must be one of add, maximum, minimum")

    def add(x: Value) -> Value:
        return scattered(b, op, x, d, with_shape(x.type, shape(op.result)))

    (x,) = op.operands
    return [_extremum(b, op, dx[0], x, gathered(b, op, op.result, d, shape(x)), add)]


@transpose("stablehlo.reduce_scatter")
def reduce_scatter_transpose(
    b: StablehloBuilder, op: Definition, ct: Tangents, active: Sequence[bool]
) -> Sequence[Value]:
    """Gathers the parts of the cotangent of a sum."""
    if reducer(op) != ADD:
        raise unsupported("transpose", op, "its body must be a sum")
    whole = gathered(b, op, ct[0], op.attributes["scatter_dimension"], shape(op.operands[0]))
    return _of_operands(b, op, [whole])


@linearize("stablehlo.all_gather")
@linearize("stablehlo.all_to_all")
@linearize("stablehlo.collective_broadcast")
@linearize("stablehlo.collective_permute")
@linearize("stablehlo.cross-replica-sum")
def moved(b: StablehloBuilder, op: Definition, dx: Tangents) -> Sequence[Value | None]:
    """Applies the op to the tangents that are not None, because it only moves or adds values."""
    return of_present(b, op.name, dx, op.results, op.attributes)


@transpose("stablehlo.all_gather")
def all_gather(b: StablehloBuilder, op: Definition, ct: Tangents, active: Sequence[bool]) -> Sequence[Any]:
    """Sums the cotangents of all processes of a group. Each process gets the part of the sum for its own operand."""
    d = op.attributes["all_gather_dim"]
    return [
        None if c is None or is_empty(x) else scattered(b, op, c, d, x.type)
        for c, x in zip(ct, op.operands, strict=True)
    ]


@transpose("stablehlo.all_to_all")
def all_to_all(b: StablehloBuilder, op: Definition, ct: Tangents, active: Sequence[bool]) -> Sequence[Any]:
    """Exchanges the parts of the cotangent in reverse, by an op whose split and concat dimensions are swapped."""
    names = "split_dimension", "concat_dimension"
    swapped = dict(zip(names, [op.attributes[name] for name in reversed(names)], strict=True))
    attributes = {**among(op), "split_count": op.attributes["split_count"], **swapped}
    return of_present(b, op.name, ct, op.operands, attributes)


@transpose("stablehlo.collective_permute")
def collective_permute(
    b: StablehloBuilder, op: Definition, ct: Tangents, active: Sequence[bool]
) -> Sequence[Value]:
    """Sends cotangents from targets to sources. A process that is not a source gets zeros."""
    pairs = [(target, source) for source, target in numbers(op, "source_target_pairs").tolist()]
    return [permuted(b, op, ct[0], pairs)]


@transpose("stablehlo.collective_broadcast")
def collective_broadcast(
    b: StablehloBuilder, op: Definition, ct: Tangents, active: Sequence[bool]
) -> Sequence[Value]:
    """Sums the cotangents of a group by a binary tree. Its first process, the source, gets the sum, others get zero."""
    groups = numbers(op, "replica_groups")
    if not groups.size:
        raise unsupported("transpose", op, "its replica_groups are not listed")
    count, total, step = groups.shape[1], ct[0], 1
    while step < count:
        pairs = [(g[i + step], g[i]) for g in groups for i in range(0, count - step, 2 * step)]
        total = b.add(total, permuted(b, op, total, pairs))
        step *= 2
    return [permuted(b, op, total, [(g[0], g[0]) for g in groups])]


@transpose("stablehlo.cross-replica-sum")
def cross_replica_sum(
    b: StablehloBuilder, op: Definition, ct: Tangents, active: Sequence[bool]
) -> Sequence[Any]:
    """The sum over the group."""
    return moved(b, op, ct)


# ---- emitting collectives with the groups of an op ---------------------------------------------------------------


def sums(b: StablehloBuilder, op: Definition, values: Tangents, like: Sequence[Value]) -> list[Any]:
    """Sums each value that is not None over the groups of `op`. The results have the types of `like`."""
    body = combiner(ADD, element(like[0]))
    return of_present(b, "stablehlo.all_reduce", values, like, among(op), body)


def gathered(
    b: StablehloBuilder, op: Definition, x: Value, dimension: ir.IntegerAttr, sizes: Sequence[int]
) -> Value:
    """Concatenates the arrays x of all processes in a group along a dimension. The groups are those of `op`."""
    attributes = {**among(op), "all_gather_dim": dimension}
    return b.emit("stablehlo.all_gather", (x,), with_shape(x.type, sizes), attributes)


def scattered(
    b: StablehloBuilder, op: Definition, x: Value, dimension: ir.IntegerAttr, type_: ir.Type
) -> Value:
    """The sum over the groups of `op`. Each process gets its part of the sum along a dimension."""
    attributes = {**among(op), "scatter_dimension": dimension}
    body = combiner(ADD, element(type_))
    return b.emit_all("stablehlo.reduce_scatter", [x], [type_], attributes, [body])[0]


def permuted(b: StablehloBuilder, op: Definition, x: Value, pairs: Sequence[tuple[int, int]]) -> Value:
    """Sends x along pairs of a source and a target process. Processes that are not targets receive zeros."""
    type_ = ir.RankedTensorType.get([len(pairs), 2], ir.IntegerType.get_signless(64))
    attributes = {**among(op, "channel_handle"), "source_target_pairs": dense(np.array(pairs), type_)}
    return b.emit("stablehlo.collective_permute", (x,), x.type, attributes)


def among(op: Definition, *names: str) -> dict[str, ir.Attribute]:
    """Returns the attributes that say which processes communicate: those in `names`, or by default all of them."""
    names = names or ("replica_groups", "channel_handle", "use_global_device_ids")
    return present(op.attributes, *names)


def numbers(op: Definition, name: str) -> NDArray[np.int64]:
    """Returns an attribute that lists processes as a NumPy array. Raises `Unsupported` for another attribute."""
    value = op.attributes[name]
    if not isinstance(value, ir.DenseIntElementsAttr):
        raise unsupported("jvp", op, f"its {name} are not listed")
    return np.array(list(value), np.int64).reshape(ir.ShapedType(value.type).shape)


def _of_operands(b: StablehloBuilder, op: Definition, ct: Tangents) -> list[Any]:
    """The cotangents, converted to the element types of the operands."""
    return [None if c is None else b.convert(c, element(x)) for c, x in zip(ct, op.operands, strict=True)]
