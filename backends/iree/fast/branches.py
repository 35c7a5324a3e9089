"""Conditionals in kernels: if they are cheap, all branches are computed, and a select chooses the results.

    %y = case(%i) { return %a }, { return %b }    ->    %y = select(%i == 0, %a, %b)

IREE's compiler fails on kernels with conditionals that give arrays. It is safe to compute all branches: their ops have
no side effects and no loops, and a NaN in another branch is not selected. An index out of range selects the last
branch.
"""

import math
from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.emitter import Emitter, is_static, within
from tiduc.backends.iree.fast.kernels import KERNEL
from tiduc.backends.iree.fast.work import contracted_size
from tiduc.dialect.functions import replace
from tiduc.dialect.types import shape

BRANCHES = ("stablehlo.case", "stablehlo.if")

_WORK = 2**14
"""The most elements and multiplications of all branches together: a few microseconds in a kernel."""


def is_cheap(op: Any) -> bool:
    """Whether all branches together compute little and have no loop."""
    inner = within(op)[1:]
    if any(x.name in ("stablehlo.while", KERNEL) for x in inner):
        return False
    types = [y.type for x in inner for y in x.results]
    return all(map(is_static, types)) and sum(map(count_of, inner)) <= _WORK


def count_of(op: Any) -> int:
    """The number of elements that an op computes, or of multiplications for a product."""
    count = sum(int(math.prod(shape(y))) for y in op.results)
    return count * contracted_size(op) if op.name == "stablehlo.dot_general" else count


def as_choice(op: Any) -> None:
    """Computes all branches before a conditional and replaces its results by selects."""
    b = Emitter(ir.InsertionPoint(op), op.location)
    (index,) = op.operands
    *others, results = (b.inlined(region, ()) for region in op.regions)
    for i, branch in reversed(list(enumerate(others))):
        chosen = index
        if op.name == "stablehlo.case":
            chosen = b.compare(index, b.constant(i, index.type), "EQ")
        results = [b.select(chosen, y, other) for y, other in zip(branch, results, strict=True)]
    replace(op, results)
