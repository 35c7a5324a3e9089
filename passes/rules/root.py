"""Calls of functions whose results solve an equation, `tidu.root = @f`: f(x..., y...) = 0 defines y.

    y = call @solve (x)         ->      J dy = -(df/dx) dx,   J = df/dy, both at (x, y)

This is the implicit function theorem: the derivative does not depend on how `@solve` finds y, and holds where J is
regular. J is a matrix, the JVP of f for all basis vectors at once, which LU factorization solves. All of these ops have
rules, so that both modes and every order follow.

Source: Blondel et al., "Efficient and Modular Implicit Differentiation" (2022).
"""

from collections.abc import Sequence
from itertools import accumulate
from math import prod
from typing import Any

from torch_mlir import ir

from tiduc.dialect.control.control import Branches, emit_call
from tiduc.dialect.emitters.matrices import exchanged, rows_taken, solve
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.graph import Definition, Graph, Value
from tiduc.dialect.ops.control_ops import CUSTOM_CALL, ROOT, TARGET
from tiduc.dialect.shapes.types import element, shape, with_element, with_shape
from tiduc.passes.rules.call import OWN, linearized_graphs
from tiduc.passes.rules.registry import Tangents

_LETTERS = {"f32": "s", "f64": "d", "complex<f32>": "c", "complex<f64>": "z"}
"""LAPACK's letter of an element type."""


def by_root(b: StablehloBuilder, op: Definition, dx: Tangents, equation: Graph) -> list[Value | None]:
    """The tangents of the results, which solve the linearized equation."""
    ys, engine = op.results, b.engine
    count = sum(prod(shape(y)) for y in ys)
    operands = (*op.operands, *ys)
    record = Branches(None, operands, tuple(range(len(operands))), (equation,), equation.name)
    # A single call of the equation has the residuals of both derivatives.
    linearized = linearized_graphs(b, record.graphs, [*dx, *ys])
    if not any(linearized.outputs) or not count:
        return [None] * len(ys)
    (primal,), (linear,) = linearized.primal, linearized.linear
    results = emit_call(b, primal, operands, record.base) if linearized.residuals else ()
    known = [*(operands[i] for i in linearized.read), *(results[i] for i in linearized.residuals)]
    of_x = [t for t in dx if t is not None]
    right = emit_call(b, linear, [*of_x, *map(b.zeros_like, ys), *known])
    none = [b.zeros_like(x) for x, t in zip(op.operands, dx, strict=True) if t is not None]
    at = [False] * len(none) + [True] * len(ys) + [False] * len(known)
    many = engine.batch(b.view, linear, at, count)
    rows = emit_call(b, many, [*none, *_basis(b, ys, count), *known])
    outputs = linearized.outputs
    matrix = b.transpose(_stacked(b, rows, ys, outputs, [count], 1), [1, 0])
    solution = _solved(b, matrix, b.negate(_stacked(b, right, ys, outputs, [], 0)))
    ends = list(accumulate(prod(shape(y)) for y in ys))
    parts = [
        b.slice(solution, [end - prod(shape(y)), 0], [end, 1], [1, 1])
        for y, end in zip(ys, ends, strict=True)
    ]
    return [b.reshape(part, shape(y)) for part, y in zip(parts, ys, strict=True)]


OWN[ROOT] = by_root


def _stacked(
    b: StablehloBuilder,
    given: Sequence[Value],
    ys: Sequence[Value],
    active: Sequence[bool],
    before: list[int],
    dimension: int,
) -> Value:
    """The tangents of all residuals as one matrix, whose columns have no batch, or as rows, with a batch `before`.

    `given` are those of the active residuals; the others are zero.
    """
    values, parts = iter(given), []
    for y, is_active in zip(ys, active, strict=True):
        sizes = [*before, prod(shape(y))] if before else [prod(shape(y)), 1]
        parts.append(b.reshape(next(values), sizes) if is_active else b.zero(with_shape(y.type, sizes)))
    return parts[0] if len(parts) == 1 else b.concatenate(parts, dimension)


def _basis(b: StablehloBuilder, ys: Sequence[Value], count: int) -> list[Value]:
    """The basis vectors of the entries of all values together: the part of each value, stacked."""
    sizes = [prod(shape(y)) for y in ys]
    parts = []
    for y, own, first in zip(ys, sizes, accumulate(sizes, initial=0), strict=False):
        numbers = ir.RankedTensorType.get([count, own], ir.IntegerType.get_signless(32))
        column = b.add(b.iota(1, numbers), b.constant(first, numbers))
        unit = b.convert(b.compare(b.iota(0, numbers), column, "EQ"), element(y))
        parts.append(b.reshape(unit, [count, *shape(y)]))
    return parts


def _solved(b: StablehloBuilder, a: Value, y: Value) -> Value:
    """The solution x of a x = y, by LU factorization with pivots."""
    integer = ir.IntegerType.get_signless(32)
    n = shape(a)[0]
    pivot = with_element(with_shape(a.type, [n]), integer)
    status = with_element(with_shape(a.type, []), integer)
    lu, pivots, _ = b.emit_all(CUSTOM_CALL, (a,), (a.type, pivot, status), _factorization(a))
    permutation = exchanged(b, b.subtract(pivots, b.constant(1, pivots)), n)
    z = solve(b, lu, rows_taken(b, y, permutation), left=True, lower=True, adjoint=False, unit=True)
    return solve(b, lu, z, left=True, lower=False, adjoint=False)


def _factorization(a: Value) -> dict[str, Any]:
    """The attributes of the call of LAPACK's getrf, which reads and writes matrices column by column."""
    columns, vector, scalar = (_layout(order) for order in ([0, 1], [0], []))
    return {
        TARGET: ir.StringAttr.get(f"lapack_{_LETTERS[str(element(a))]}getrf_ffi"),
        "api_version": ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 4),
        "backend_config": ir.DictAttr.get({}),
        "operand_layouts": ir.ArrayAttr.get([columns]),
        "result_layouts": ir.ArrayAttr.get([columns, vector, scalar]),
    }


def _layout(order: Sequence[int]) -> ir.Attribute:
    return ir.Attribute.parse(f"dense<{list(order) or ''}> : tensor<{len(order)}xindex>")
