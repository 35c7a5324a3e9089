"""Tridiagonal solves by LAPACK and cuSPARSE calls. The diagonals dl, d, du have equal length; y is the right side.

Equation i is dl_i x_(i-1) + d_i x_i + du_i x_(i+1) = y_i. The first entry of dl and the last entry of du are not read.
"""

from collections.abc import Sequence

from tiduc.dialect.emitters.matrices import rows, shifted
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.facts.lapack import targets
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.ops.control_ops import CUSTOM_CALL
from tiduc.dialect.shapes.types import shape
from tiduc.passes.rules.custom_call import custom_call
from tiduc.passes.rules.elementwise import difference
from tiduc.passes.rules.opset import transpose, unsupported
from tiduc.passes.rules.potrf import succeeded
from tiduc.passes.rules.registry import Tangents

TARGETS = targets("gtsv", "gtsv2", "tridiagonal_solve_perturbed")
"""Targets of tridiagonal solves. LAPACK's calls return the solution after the diagonals, which they overwrote."""


@custom_call(*TARGETS)
def gtsv(b: StablehloBuilder, op: Definition, dx: Tangents) -> list[Value | None]:
    """Solves with the same diagonals. The right-hand side is dy minus the product of the diagonals' tangents with x."""
    *overwritten, x = op.results[:4]
    if 0 in shape(x):
        return [None] * len(op.results)
    reads = {y for d in op.graph.definitions for y in (*d.operands, *d.captures)}
    if not reads.union(op.graph.outputs).isdisjoint(overwritten):
        raise unsupported("jvp", op, "a result that holds its overwritten diagonals is used")
    if overwritten:
        x = succeeded(b, x, op.results[4])
    neighbours = (shifted(b, x, 1), x, shifted(b, x, -1))
    terms = [
        b.multiply(rows(b, tangent, x.type), near)
        for tangent, near in zip(dx[:3], neighbours, strict=True)
        if tangent is not None
    ]
    solved = b.reapply(op, {3: difference(b, dx[3], b.sum(terms) if terms else None)})
    return [solved[i] if y is op.results[len(overwritten)] else None for i, y in enumerate(op.results)]


def _gtsv_transpose(
    b: StablehloBuilder, op: Definition, ct: Tangents, active: Sequence[bool]
) -> list[Value | None]:
    """Solves with the adjoint matrix, whose outer diagonals are exchanged and shifted by one entry."""
    if any(active[:3]):
        raise unsupported("transpose", op, "a solution is not linear in its matrix")
    dl, d, du, _ = (b.conj(x) for x in op.operands)
    turned = {0: shifted(b, du, 1, -1), 1: d, 2: shifted(b, dl, -1, -1)}
    at = len(op.results[:4]) - 1
    return [None, None, None, b.reapply(op, {**turned, 3: ct[at]})[at]]


for target in TARGETS:
    transpose(f"{CUSTOM_CALL} @{target}")(_gtsv_transpose)
