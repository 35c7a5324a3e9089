"""Removes carries, and sums of cotangents, of which each iteration of a backward loop uses only its own slot (slice).

Consider ys = dynamic_update_slice(ys, y, i) for i = 0, 1, ... The transposed iteration reads slot i of the cotangent of
ys, and sets it to zero, because the update overwrote the slot. If no two iterations use the same slot, no iteration
reads these zeros, so the cotangent is a loop invariant. Likewise, if iteration i reads slot i of xs, the cotangent of
xs needs no sum: each slot is written once.
"""

from collections.abc import Sequence

from tiduc.dialect.control.trip_count import integer
from tiduc.dialect.facts.identities import is_zeros
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.shapes.types import shape
from tiduc.passes.structure.clusters import Cluster, MemberResult
from tiduc.passes.structure.scope import Scope
from tiduc.passes.structure.steps import ClusterIteration

Affine = tuple[int, int]
"""The coefficients (a, c) of an integer a k + c in iteration k."""


def simplify_slots(scope: Scope, cluster: Cluster, step: ClusterIteration, trip_count: int) -> None:
    """Makes loop-carried arrays loop invariants if iterations read disjoint slices and nothing reads the final value.

    Replaces additions to loop-carried arrays of zeros by writes if iterations add to disjoint slices.
    """
    readers: dict[Value, list[Definition]] = {x: [] for x in step.carries.values()}
    for op in step.b.graph.definitions:
        for x in dict.fromkeys(op.reads):
            if x in readers:
                readers[x].append(op)
    for at in list(step.carries):
        outside = scope.init(at)
        if not cluster.is_used(at) and outside not in step.loop.outside:
            if _is_read_once_per_slot(step, at, readers[step.carries[at]], trip_count):
                step.loop.outside[outside] = step.carries.pop(at)
                del step.nexts[at]
                continue
        if is_zeros(outside) and len(readers[step.carries[at]]) == 1:
            _replace_sum(step, at, trip_count)


def _is_read_once_per_slot(
    step: ClusterIteration, at: MemberResult, readers: Sequence[Definition], trip_count: int
) -> bool:
    """Whether each iteration only reads its own slice of a loop-carried array and sets that slice to zero."""
    x, last = step.carries[at], step.nexts[at].definition
    if last is None or last.name != "stablehlo.dynamic_update_slice" or last.operands[0] is not x:
        return False
    update, start = last.operands[1], last.operands[2:]
    if not is_zeros(update):
        return False
    for op in readers:
        same = op.operands[1:] == start and list(op.result.type.shape) == shape(update)
        if op is not last and not (op.name == "stablehlo.dynamic_slice" and same):
            return False
    return _updates_are_disjoint(step, last, trip_count)


def _replace_sum(step: ClusterIteration, at: MemberResult, trip_count: int) -> None:
    """Replaces an addition to a slice of a loop-carried array by a write, if iterations add to disjoint slices."""
    x, last = step.carries[at], step.nexts[at].definition
    if last is None or last.name != "stablehlo.add" or x not in last.operands:
        return
    term = last.operands[1 - last.operands.index(x)].definition
    if term is not None and term.name == "stablehlo.dynamic_update_slice" and is_zeros(term.operands[0]):
        if _updates_are_disjoint(step, term, trip_count):
            step.nexts[at] = step.b.dynamic_update_slice(x, term.operands[1], term.operands[2:])
            step.backwards[step.nexts[at]] = step.backwards[x]


def _updates_are_disjoint(step: ClusterIteration, update: Definition, trip_count: int) -> bool:
    """Whether the slices that the iterations update are known to be disjoint."""
    x, u, *start = update.operands
    sizes = zip(start, shape(u), shape(x), strict=True)
    return any(_are_disjoint(affine(step, i), size, n, trip_count) for i, size, n in sizes)


def _are_disjoint(start: Affine | None, size: int, n: int, trip_count: int) -> bool:
    """Whether the index ranges [start, start + size) of all iterations are disjoint and within [0, n)."""
    if start is None:
        return False
    by, first = start
    last = first + by * (trip_count - 1)
    return abs(by) >= size and min(first, last) >= 0 and max(first, last) + size <= n


def affine(step: ClusterIteration, x: Value) -> Affine | None:
    """The integer x of a loop body as an affine function of the iteration number. None if it is not known to be one."""
    outer = {inner: y for y, inner in step.loop.outside.items()}

    def of(x: Value, depth: int = 8) -> Affine | None:
        known = integer(outer.get(x, x))
        if x is step.number or known is not None:
            return (1, 0) if known is None else (0, known)
        op = x.definition
        if op is None or not depth:
            return None
        if op.name == "stablehlo.convert":
            return of(op.operands[0], depth - 1)
        if op.name not in ("stablehlo.add", "stablehlo.subtract", "stablehlo.multiply"):
            return None
        left, right = (of(y, depth - 1) for y in op.operands)
        if left is None or right is None:
            return None
        (a, c), (b, d) = left, right
        if op.name == "stablehlo.multiply":
            return (a * d + b * c, c * d) if not (a and b) else None
        sign = 1 if op.name == "stablehlo.add" else -1
        return a + sign * b, c + sign * d

    return of(x)
