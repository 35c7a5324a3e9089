"""Deprecated ops, linearized as the ops that replaced them."""

from collections.abc import Sequence

from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.ops.attributes import present
from tiduc.dialect.shapes.types import element, rank, shape
from tiduc.passes.rules.expansion import expanded
from tiduc.passes.rules.opset import linear, linearize, unsupported
from tiduc.passes.rules.registry import Tangents


@linear("stablehlo.broadcast", [0])
def broadcast(b: StablehloBuilder, op: Definition, ct: Value) -> list[Value]:
    """Sums the cotangent over the new dimensions, which come first."""
    return [b.reduce_sum(ct, range(rank(ct) - rank(op.operands[0])))]


@linearize("stablehlo.einsum")
@linearize("stablehlo.unary_einsum")
def einsum(b: StablehloBuilder, op: Definition, dx: Tangents) -> list[Value | None]:
    """Linearizes an einsum as sums over labels that only one operand has, then a `dot_general`, then a transpose."""
    config = ir.StringAttr(op.attributes["einsum_config"]).value.replace(" ", "")
    sources, arrow, target = config.partition("->")
    labels = sources.split(",")
    if not _is_plain(op, labels, target) or not arrow:
        raise unsupported("jvp", op, f'"{config}" is not a plain sum of products')
    if 0 in (*shape(op.result), *(n for x in op.operands for n in shape(x))):
        return [None]
    return expanded(b, op.operands, dx, lambda *operands: [_contracted(b, op, operands, labels, target)])


def _is_plain(op: Definition, labels: Sequence[str], target: str) -> bool:
    """Whether an einsum has one element type, no label twice in a term or new in the result, and consistent sizes."""
    tensors, names = (*op.operands, op.result), (*labels, target)
    if [len(of) for of in names] != [rank(x) for x in tensors] or any(len(set(of)) < len(of) for of in names):
        return False
    if len({element(x) for x in tensors}) > 1:
        return False
    sizes = {pair for x, of in zip(tensors, names, strict=True) for pair in zip(of, shape(x), strict=True)}
    return len(sizes) == len({c for c, _ in sizes}) and set(target) <= set("".join(labels))


def _contracted(
    b: StablehloBuilder, op: Definition, operands: Sequence[Value], labels: Sequence[str], target: str
) -> Value:
    summed = []
    for i, x in enumerate(operands):
        elsewhere = "".join([target, *labels[:i], *labels[i + 1 :]])
        dropped = [d for d, c in enumerate(labels[i]) if c not in elsewhere]
        summed.append((b.reduce_sum(x, dropped), [c for c in labels[i] if c in elsewhere]))
    y, names = summed[0]
    if len(summed) == 2:
        shared = [c for c in names if c in summed[1][1]]
        batch = [c for c in shared if c in target]
        along, over = (
            [[of.index(c) for c in some] for _, of in summed]
            for some in (batch, [c for c in shared if c not in batch])
        )
        kept = [c for _, of in summed for c in of if c not in shared]
        precision = present(op.attributes, "precision_config")
        y, names = b.dot_general(y, summed[1][0], along, over, precision), [*batch, *kept]
    return b.transpose(y, [names.index(c) for c in target])


@linearize("stablehlo.torch_index_select")
def torch_index_select(b: StablehloBuilder, op: Definition, dx: Tangents) -> list[Value | None]:
    """Gathers from the tangent at indices into the dimension `dim`. The first `batch_dims` dimensions are batches."""
    x, index = op.operands
    dim, batch = (ir.IntegerAttr(op.attributes[name]).value for name in ("dim", "batch_dims"))
    if not 0 <= batch <= dim < rank(x):
        raise unsupported("jvp", op, "its dim and batch_dims must satisfy 0 <= batch_dims <= dim < rank")
    after = dim + rank(index) - batch
    offsets = [*range(batch, dim), *range(after, rank(op.result))]
    shared = list(range(batch))
    numbers = hlo.GatherDimensionNumbers.get(offsets, [dim], shared, shared, [dim], rank(index))
    sizes = [1 if d in [*shared, dim] else n for d, n in enumerate(shape(x))]
    return [b.gather(dx[0], index, numbers, sizes, op.result.type)]
