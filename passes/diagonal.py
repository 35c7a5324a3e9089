"""diagonal: batches a linear graph over the basis vectors along one dimension, without explicit zeros where possible.

    losses y (64), one per sample; seeds: the 64 basis vectors of y, as one vector of ones

    cy = ones (64)                  element i belongs to seed i
    cz = multiply y', cy            rows of cz belong to the seeds: still one array
    cW = dot x^T, cz                sums over the rows: here a product with a batch dimension, one result per seed

A dimension of a value may be aligned with the dimension of the seeds (`passes/batching/alignment.py`). The batched
value then has one nonzero slice per seed, and the unbatched value holds exactly these slices, so the unbatched value is
enough. If an op sums over the aligned dimension, the terms of the sum are the results for the seeds, so the pass emits
the op without that sum. For any other op, the pass expands the value to an array with explicit zeros and batches the op
(`passes/batch.py`).
"""

from collections.abc import Sequence
from typing import Any

from torch_mlir import ir

from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.facts.costs import seconds
from tiduc.dialect.graph.graph import Definition, Graph, Value
from tiduc.dialect.graph.view import View
from tiduc.dialect.mlir.context import stage
from tiduc.dialect.ops.attributes import present
from tiduc.dialect.ops.contractions import Contraction
from tiduc.dialect.ops.control_ops import sequence_type as stacked
from tiduc.dialect.shapes.types import rank, shape, with_element
from tiduc.passes.batch import Request, batch_op
from tiduc.passes.batching import BATCHING
from tiduc.passes.batching.alignment import aligned_dimensions
from tiduc.passes.rules.registry import OpSet


@stage
def batch_diagonal(
    view: View, outputs: Sequence[Value], key: str, dimension: int, opset: OpSet
) -> tuple[Graph, list[Value]]:
    """Computes the outputs of a linear graph for each seed along a dimension of the input `key`.

    The caller binds the input to the sum of the seeds. Returns the graph of the new ops, and the batched outputs. Index
    i of an output's first dimension is for seed i. Raises `Unsupported` if an op cannot be batched.
    """
    x = view.input(key)
    b: Any = opset.builder(view, view.fresh("B"))
    request = Request(view, shape(x)[dimension], opset, BATCHING)
    b.engine = request.engine()
    values: dict[Value, Value] = {}
    aligned = {x: dimension}

    def expand(v: Value) -> None:
        if v in aligned and v not in values:
            values[v] = _expanded(b, v, aligned[v])

    for op in view.schedule(outputs):
        if values.keys().isdisjoint(op.reads) and aligned.keys().isdisjoint(op.reads):
            continue
        at = _aligned(op, aligned) if values.keys().isdisjoint(op.reads) else None
        if at is not None:
            aligned.update(dict.fromkeys(op.results, at))
            continue
        b.location = op.location
        summed = _sum_along_diagonal(b, op, aligned) if values.keys().isdisjoint(op.reads) else None
        if summed is not None:
            values[op.result] = summed
            continue
        for v in op.reads:
            expand(v)
        batch_op(request, b, op, values, {})
    for y in outputs:
        expand(y)
    results = [values[y] for y in outputs]
    return b.finish(results), results


def aligned_share(view: View, outputs: Sequence[Value], x: Value, dimension: int) -> float:
    """The estimated fraction of the time that is spent in ops that run once for all seeds along `dimension`."""
    aligned, total, shared, reached = {x: dimension}, 0.0, 0.0, {x}
    for op in view.schedule(outputs):
        if reached.isdisjoint(op.reads):
            continue
        reached.update(op.results)
        total += seconds(op)
        at = _aligned(op, aligned) if reached.isdisjoint(v for v in op.reads if v not in aligned) else None
        if at is not None:
            aligned.update(dict.fromkeys(op.results, at))
        if at is not None or _summed_dimension(op, aligned) is not None:
            shared += seconds(op)
    return shared / total if total else 0.0


def _aligned(op: Definition, aligned: dict[Value, int]) -> int | None:
    """The dimension of an op's results whose index i belongs to seed i; None if there is no such dimension."""
    if not aligned.keys().isdisjoint(op.captures):
        return None
    found = {aligned_dimensions(op, i).get(aligned[v]) for i, v in enumerate(op.operands) if v in aligned}
    return found.pop() if len(found) == 1 else None


def _expanded(b: StablehloBuilder, x: Value, dimension: int) -> Value:
    """The batched form of an aligned value: slice i of x for seed i, and zeros elsewhere."""
    type_ = stacked(x.type, shape(x)[dimension])
    numbers = with_element(type_, ir.IntegerType.get_signless(32))
    spread = b.broadcast_in_dim(x, range(1, rank(x) + 1), type_)
    same = b.compare(b.iota(0, numbers), b.iota(1 + dimension, numbers), "EQ")
    return b.select(same, spread, b.constant(0, type_))


# ---- a sum over the aligned dimension is not emitted: its terms are the results ----------------------------


def _summed_dimension(op: Definition, aligned: dict[Value, int]) -> int | None:
    """The aligned dimension over which a linear op sums.

    None if there is none, if the op reads several aligned values, or if it has several results.
    """
    dependent = [i for i, v in enumerate(op.operands) if v in aligned]
    if len(dependent) != 1 or not aligned.keys().isdisjoint(op.captures) or len(op.results) != 1:
        return None
    (i,) = dependent
    d = aligned[op.operands[i]]
    rule = _SUMMED.get(op.name)
    return d if rule is not None and d in rule(op, i) else None


def _of_reduce(op: Definition, i: int) -> list[int]:
    return list(op.attributes["dimensions"]) if i == 0 else []


def _of_product(op: Definition, i: int) -> list[int]:
    return list(Contraction.of(op).summed[i])


_SUMMED = {"stablehlo.dot_general": _of_product, "stablehlo.reduce": _of_reduce}
"""Maps the name of an op that sums to a function: (op, index of an operand) -> the operand's summed dimensions."""


def _sum_along_diagonal(b: StablehloBuilder, op: Definition, aligned: dict[Value, int]) -> Any | None:
    """The batched result of an op that sums over the aligned dimension of one operand; None for any other op."""
    d = _summed_dimension(op, aligned)
    if d is None:
        return None
    side = next(i for i, v in enumerate(op.operands) if v in aligned)
    x = op.operands[side]
    if op.name == "stablehlo.reduce":
        over = [e for e in op.attributes["dimensions"] if e != d]
        y = b.reduce_sum(x, over)
        front = d - sum(e < d for e in over)
        return b.transpose(y, [front, *(e for e in range(rank(y)) if e != front)])
    of = Contraction.of(op)
    batching, contracting = ([list(own) for own in pair] for pair in (of.batches, of.summed))
    k = contracting[side].index(d)
    for both, summed in zip(batching, contracting, strict=True):
        both.insert(0, summed.pop(k))
    given = present(op.attributes, "precision_config", "algorithm")
    x, y = op.operands
    return b.dot_general(x, y, batching, contracting, given)
