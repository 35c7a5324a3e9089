"""Rules of calls of functions with `tidu.root = @f`, whose results y solve the equation f(x..., y...) = 0.

    y = call @solve (x)         ->      J dy = -(df/dx) dx,   J = df/dy, both at (x, y)

This is the implicit function theorem. The derivative does not depend on how `@solve` finds y, and exists where J is
regular. The columns of J are the JVPs of f for all basis vectors. A complex number counts as two real ones, because f
need not be holomorphic. If `tidu.solver` names a Krylov method, only products J v are computed (`linear_solve.py`). All
ops that the rule emits have rules, so transposes and derivatives of higher order follow.

Source: Blondel et al., "Efficient and Modular Implicit Differentiation" (2022).
"""

from torch_mlir import ir

from tiduc.dialect.control.control import Branches, branches, emit_call
from tiduc.dialect.control.krylov import LU, solver_of
from tiduc.dialect.emitters.matrices import solve_by_lu
from tiduc.dialect.emitters.real_vectors import flattened, real_type, reals, unflattened
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.graph import Definition, Graph, Value
from tiduc.dialect.ops.control_ops import ROOT
from tiduc.dialect.shapes.types import element, is_empty, with_element
from tiduc.passes.rules.call import OWN, linearized_graphs, values_read
from tiduc.passes.rules.linear_solve import root_by_krylov
from tiduc.passes.rules.opset import unsupported
from tiduc.passes.rules.registry import Tangents


def by_root(b: StablehloBuilder, op: Definition, dx: Tangents, equation: Graph) -> list[Value | None]:
    """Returns the tangents of the results, which solve the linearized equation."""
    solver = solver_of(branches(b.view, op).graphs[0])
    if solver is not None and solver.method != LU:
        return root_by_krylov(b, op, dx, equation, solver)
    ys, operands = op.results, (*op.operands, *op.results)
    record = Branches(None, operands, tuple(range(len(operands))), (equation,), equation.name)
    # The equation is linearized in x and y together, so that a single call returns all residuals.
    linearized = linearized_graphs(b, record.graphs, [*dx, *ys])
    if any(not flag and not is_empty(y) for flag, y in zip(linearized.outputs, ys, strict=True)):
        raise unsupported("jvp", op, f"a residual of @{equation.name} does not depend on the results")
    (linear,), known = linearized.linear, values_read(b, record, linearized)
    of_x = [t for t in dx if t is not None]
    still = [b.zeros_like(x) for x, t in zip(op.operands, dx, strict=True) if t is not None]
    n = sum(map(reals, ys))
    square = real_type(ys, [n, n])
    numbers = with_element(square, ir.IntegerType.get_signless(32))
    basis = b.convert(b.compare(b.iota(0, numbers), b.iota(1, numbers), "EQ"), element(square))
    batched = [False] * len(of_x) + [True] * len(ys) + [False] * len(known)
    batch = b.engine.batch(b.view, linear, batched, n)
    columns = flattened(b, emit_call(b, batch, [*still, *unflattened(b, basis, ys), *known]), [n])
    right = flattened(b, emit_call(b, linear, [*of_x, *map(b.zeros_like, ys), *known]), [1])
    solution, _ = solve_by_lu(b, b.transpose(columns, [1, 0]), b.transpose(b.negate(right), [1, 0]))
    return [*unflattened(b, b.reshape(solution, [n]), ys)]


OWN[ROOT] = by_root
