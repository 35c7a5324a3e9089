"""Replaces sums of padded arrays by concatenations, on CPUs. If an array is sliced, its cotangent is such a sum.

    %0 = pad %a, 0, low = [0], high = [3]        ->    %2 = concatenate %a, %b
    %1 = pad %b, 0, low = [2], high = [0]
    %2 = add %0, %1

IREE would write each padded array to memory. The concatenation equals the sum, except for the signs of zeros.
"""

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import NamedTuple

from torch_mlir import ir

from tiduc.backends.iree.emit.emitter import ON_CPUS, Emitter, is_static, legalize
from tiduc.backends.iree.fault import slow
from tiduc.dialect.facts.identities import is_splat_of
from tiduc.dialect.graph.matching import defined_by
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.shapes.types import is_float, shape, with_shape

_ADD = "stablehlo.add"
_MOST = 256
"""The most terms of a sum that are examined."""


class _Part(NamedTuple):
    """A term of a sum: x padded with zeros along `dimension`. x is at the indices `start` to `end` - 1 of the term."""

    term: IrValue
    x: IrValue
    dimension: int
    start: int
    end: int


@legalize(_ADD, where=ON_CPUS)
@slow(
    "IREE writes each padded array of a sum to memory; tiduc emits one concatenation.",
    "flags.py: bundle",
)
def sum_of_padded(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Replaces the terms of a sum that are padded along one dimension, and do not overlap, by one concatenation.

    Returns None if there are fewer than two such terms, for integers and dynamic shapes, and if `_is_term(op)`.
    """
    if not is_static(op.result.type) or not is_float(op.result.type) or _is_term(op):
        return None
    terms = _terms(op)
    parts = [part for term in terms if (part := _part(term)) is not None]
    chosen = {part.term: part for part in _disjoint(parts)}
    if len(chosen) < 2:
        return None
    joined = _joined(b, sorted(chosen.values(), key=lambda part: part.start), op.result.type)
    return [reduce(b.add, [*(term for term in terms if term not in chosen), joined])]


def _is_term(op: IrOp) -> bool:
    """Whether the only reader of a sum is another addition, so that the pattern for that addition rewrites both."""
    uses = list(op.result.uses)
    return len(uses) == 1 and uses[0].owner.name == _ADD


def _terms(op: IrOp) -> list[IrValue]:
    """The terms of a nested sum, such as x, y and z for (x + y) + z, if no other op reads x + y."""
    terms: list[IrValue] = []
    stack = [op.result]
    while stack:
        x = stack.pop()
        own = defined_by(x, _ADD)
        if own is not None and (own == op or len(terms) + len(stack) < _MOST and _is_term(own)):
            stack += reversed(own.operands)
        else:
            terms.append(x)
    return terms


def _part(term: IrValue) -> _Part | None:
    """Returns a term as a `_Part`, or None unless it is padded with zeros along one dimension, and has one reader."""
    pad = defined_by(term, "stablehlo.pad")
    if pad is None or len(list(term.uses)) > 1:
        return None
    x, value = pad.operands
    if (zero := defined_by(value, "stablehlo.constant")) is None:
        return None
    low, high = (list(pad.attributes[f"edge_padding_{end}"]) for end in ("low", "high"))
    changed = [i for i, (before, after) in enumerate(zip(low, high, strict=True)) if before or after]
    if len(changed) != 1 or any(pad.attributes["interior_padding"]) or min(*low, *high) < 0:
        return None
    if not is_splat_of(zero.attributes["value"], value.type, 0):
        return None
    start = low[changed[0]]
    return _Part(term, x, changed[0], start, start + shape(x)[changed[0]])


def _disjoint(parts: Iterable[_Part]) -> list[_Part]:
    """The largest set of parts that are padded along one common dimension and do not overlap."""
    best: list[_Part] = []
    by_dimension: dict[int, list[_Part]] = {}
    for part in sorted(parts, key=lambda part: part.end):
        group = by_dimension.setdefault(part.dimension, [])
        if not group or part.start >= group[-1].end:
            group.append(part)
            best = max(best, group, key=len)
    return best


def _joined(b: Emitter, parts: Sequence[_Part], type_: ir.RankedTensorType) -> IrValue:
    """The concatenation of the parts in order, with zeros before, between and after them where parts do not adjoin."""
    dimension, sizes = parts[0].dimension, list(type_.shape)
    pieces, end = [], 0
    for start, x, after in [(p.start, p.x, p.end) for p in parts] + [(sizes[dimension], None, 0)]:
        if start > end:
            gap = [start - end if i == dimension else n for i, n in enumerate(sizes)]
            pieces.append(b.constant(0, with_shape(type_, gap)))
        pieces += [] if x is None else [x]
        end = after
    return b.concatenate(pieces, dimension)
