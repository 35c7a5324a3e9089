"""Rules of batch_norm_training, batch_norm_inference and batch_norm_grad, from their StableHLO specification.

One dimension of x holds the features; scale, offset, mean and variance have one entry per feature.
"""

from typing import Never

from torch_mlir import ir

from tiduc.dialect.emitters.protocol import V
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.emitters.stablehlo_ops import StablehloOps
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.ops.ir_types import AnyOp
from tiduc.dialect.shapes.sizes import Size, product
from tiduc.dialect.shapes.types import element, is_empty, rank, shape
from tiduc.passes.rules.elementwise import times
from tiduc.passes.rules.expansion import expanded
from tiduc.passes.rules.opset import linearize
from tiduc.passes.rules.registry import Tangents


@linearize("stablehlo.batch_norm_training")
def batch_norm_training(b: StablehloBuilder, op: Definition, dx: Tangents) -> list[Value | None]:
    """Uses dmean = sum dx / n and dvariance = 2 sum (x - mean) dx / n, where each feature has n elements."""
    x, scale, offset = op.operands
    _, mean, variance = op.results
    if is_empty(x):
        return [None, None, None]
    dmean = dvariance = None
    if dx[0] is not None:
        centered = b.subtract(x, _spread(b, op, mean))
        dmean = _shared(b, op, 1, _total(b, op, dx[0]))
        dvariance = _shared(b, op, 2, _total(b, op, b.multiply(centered, dx[0])))
    operands, tangents = [x, scale, offset, mean, variance], [*dx, dmean, dvariance]
    return [*expanded(b, operands, tangents, lambda *v: _inference(b, op, *v)), dmean, dvariance]


@linearize("stablehlo.batch_norm_inference")
def batch_norm_inference(b: StablehloBuilder, op: Definition, dx: Tangents) -> list[Value | None]:
    return expanded(b, op.operands, dx, lambda *v: _inference(b, op, *v))


@linearize("stablehlo.batch_norm_grad")
def batch_norm_grad(b: StablehloBuilder, op: Definition, dx: Tangents) -> list[Value | None]:
    if is_empty(op.operands[0]):
        return [None, None, None]
    return expanded(b, op.operands, dx, lambda *v: gradient(b, op, *v))


def _inference(
    b: StablehloBuilder, op: Definition, x: Value, scale: Value, offset: Value, mean: Value, variance: Value
) -> list[Value]:
    """scale (x - mean) / sqrt(variance + epsilon) + offset."""
    factor = b.divide(scale, _deviation(b, op, variance))
    centered = b.subtract(x, _spread(b, op, mean))
    return [b.add(b.multiply(_spread(b, op, factor), centered), _spread(b, op, offset))]


def gradient(
    b: StablehloOps[V, Never], op: AnyOp, x: V, scale: V, mean: V, variance: V, ct: V
) -> tuple[V, V, V]:
    """The gradients toward x, scale and offset, for the cotangent ct.

    They are scale / deviation (ct - (sum ct + u sum (u ct)) / n), sum (u ct), sum ct, for u = (x - mean) / deviation.
    """
    deviation = _deviation(b, op, variance)
    u = b.divide(b.subtract(x, _spread(b, op, mean)), _spread(b, op, deviation))
    to_scale, to_offset = _total(b, op, b.multiply(u, ct)), _total(b, op, ct)
    common = b.add(_spread(b, op, to_offset), b.multiply(u, _spread(b, op, to_scale)))
    rest = b.subtract(ct, _shared(b, op, 1, common))
    return b.multiply(_spread(b, op, b.divide(scale, deviation)), rest), to_scale, to_offset


def _deviation(b: StablehloOps[V, Never], op: AnyOp, variance: V) -> V:
    epsilon = ir.FloatAttr(op.attributes["epsilon"]).value
    return b.sqrt(b.add(variance, b.constant(epsilon, variance)))


def _spread(b: StablehloOps[V, Never], op: AnyOp, v: V) -> V:
    """Broadcasts a vector with one entry per feature to the shape of x."""
    return b.broadcast_in_dim(v, [_feature(op)], op.operands[0])


def _total(b: StablehloOps[V, Never], op: AnyOp, v: V) -> V:
    """The sum over all elements of each feature."""
    return b.reduce_sum(v, [i for i in range(rank(v)) if i != _feature(op)])


def _shared(b: StablehloOps[V, Never], op: AnyOp, number: int, v: V) -> V:
    """number * v / n, where each feature has n elements."""
    count = product([n for i, n in enumerate(shape(op.operands[0])) if i != _feature(op)])
    if isinstance(count, Size):
        n = b.convert(b.size(count), element(v))
        return b.divide(times(b, number, v), b.broadcast_in_dim(n, [], v))
    return times(b, number / max(count, 1), v)


def _feature(op: AnyOp) -> int:
    return int(ir.IntegerAttr(op.attributes["feature_index"]).value)
