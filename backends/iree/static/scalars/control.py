"""Unrolls loops with known trip counts, and computes all branches of a conditional.

%y = "stablehlo.if"(%flag)      select(flag, y of the first branch, y of the second branch)
"""

from collections.abc import Sequence

import numpy as np

from tiduc.backends.iree.static.scalars.arrays import Evaluation, ScalarArray, kind_of
from tiduc.backends.iree.static.scalars.numbers import TooLarge
from tiduc.dialect.ops.ir_types import IrOp


def while_(e: Evaluation, op: IrOp, xs: Sequence[ScalarArray]) -> list[ScalarArray]:
    condition, body = (region.blocks[0] for region in op.regions)
    carried = list(xs)
    while True:
        e.spend(1)
        ((number,),) = (flag.ids.ravel().tolist() for flag in e.block(condition, carried))
        value = e.numbers.value(number)
        if value is None:
            raise TooLarge("a loop whose trip count depends on data")
        if not value:
            return carried
        carried = e.block(body, carried)


def if_(e: Evaluation, op: IrOp, xs: Sequence[ScalarArray]) -> list[ScalarArray]:
    (flag,) = (x.ids for x in xs)
    return _branches(e, op, [int(flag.item())])


def case(e: Evaluation, op: IrOp, xs: Sequence[ScalarArray]) -> list[ScalarArray]:
    (index,) = (x.ids.item() for x in xs)
    return _branches(e, op, [e.equals(int(index), i) for i in range(len(op.regions) - 1)])


def _branches(e: Evaluation, op: IrOp, flags: Sequence[int]) -> list[ScalarArray]:
    """The results of the branch of the first flag that is true, or of the last branch if no flag is true."""
    for flag, region in zip(flags, op.regions, strict=False):
        value = e.numbers.value(flag)
        if value:
            return e.block(region.blocks[0], [])
        if value is None:
            break
    left = [
        (flag, region)
        for flag, region in zip(flags, op.regions, strict=False)
        if e.numbers.value(flag) is None
    ]
    found = e.block(op.regions[len(op.regions) - 1].blocks[0], [])
    for flag, region in reversed(left):
        others = e.block(region.blocks[0], [])
        found = [
            _chosen(e, kind_of(y), flag, x, z) for y, x, z in zip(op.results, others, found, strict=True)
        ]
    return found


def _chosen(e: Evaluation, kind: str, flag: int, x: ScalarArray, y: ScalarArray) -> ScalarArray:
    ids, lane = e.aligned([x, y], [1, 1])
    return ScalarArray(e.mapped("select", kind, np.array(flag), *ids), lane, x.tangent or y.tangent)
