"""Builds graphs that apply a linear map A, and graphs that solve A x = b by a Krylov method.

    apply   (x..., known...) -> A x          solve   (b..., known...) -> x, where A x = b

The values `known` determine A. Graphs are cached, so that each is built only once per view.
"""

from collections.abc import Sequence

from torch_mlir import ir

from tiduc.dialect.control.control import emit_call
from tiduc.dialect.control.krylov import Solver, inputs_of, private, solution
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.cache import Cache
from tiduc.dialect.graph.graph import Graph, Value
from tiduc.dialect.ops.control_ops import FUNCTION, SOLVE, SOLVER

_SOLVING = Cache[tuple[Graph, int, Solver], Graph]()
"""Caches the results of `solving_graph`. The key is the graph of A, the number of arrays in x, and the method."""

_WHOLE = Cache[tuple[Graph, tuple[bool, ...]], Graph]()
"""Caches the results of `whole`. The key is the graph `linear` and the flags `active`."""

_NARROWED = Cache[Graph, Graph]()
"""Caches the results of `narrowed`. The key is the graph of A."""


def solving_graph(b: StablehloBuilder, apply: Graph, count: int, solver: Solver) -> Graph:
    """Returns the graph (b..., known...) -> x... that solves A(x..., known...) = b by a Krylov method.

    `apply` is the graph of A. x consists of `count` arrays.
    """
    return _SOLVING.get(b.view, (apply, count, solver), lambda: _built(b, apply, count, solver))


def _built(b: StablehloBuilder, apply: Graph, count: int, solver: Solver) -> Graph:
    apply.attributes[FUNCTION] = ir.StringAttr.get("apply")
    g = private(b, "solve")
    inputs = inputs_of(g, list(apply.inputs.values()))
    graph = g.finish(solution(g, apply, inputs[:count], inputs[count:], solver))
    graph.attributes |= {
        FUNCTION: ir.StringAttr.get("solve"),
        SOLVE: ir.FlatSymbolRefAttr.get(apply.name),
        SOLVER: solver.attribute(),
    }
    return graph


def whole(b: StablehloBuilder, ys: Sequence[Value], linear: Graph, active: tuple[bool, ...]) -> Graph:
    """Returns a graph that calls `linear` and has one output for each value in `ys`. Additional outputs are zeros.

    `ys` are the values f(x) of a system of equations f(x) = 0, and `linear` is the linearization of f. `linear` has an
    output only for those values in `ys` whose flag in `active` is true.
    """
    return _WHOLE.get(b.view, (linear, active), lambda: _whole(b, ys, linear, active))


def _whole(b: StablehloBuilder, ys: Sequence[Value], linear: Graph, active: Sequence[bool]) -> Graph:
    g = private(b, "apply")
    values = iter(emit_call(g, linear, inputs_of(g, list(linear.inputs.values()))))
    return g.finish([next(values) if flag else g.zeros_like(y) for y, flag in zip(ys, active, strict=True)])


def inputs_read(b: StablehloBuilder, apply: Graph) -> list[bool]:
    """Returns, for each input of the graph `apply`, whether an output depends on this input."""
    inputs, outputs = list(apply.inputs.values()), [y for y in apply.outputs if y is not None]
    reads = {x for each in b.view.schedule(outputs, inputs) for x in each.reads} | set(outputs)
    return [x in reads for x in inputs]


def narrowed(b: StablehloBuilder, apply: Graph, count: int) -> Graph:
    """Returns a graph that applies the same linear map as `apply`, but has fewer inputs.

    The graph keeps the first `count` inputs, which are the arrays of x. It keeps another input only if an output
    depends on this input.
    """
    return _NARROWED.get(b.view, apply, lambda: _narrowed(b, apply, count))


def _narrowed(b: StablehloBuilder, apply: Graph, count: int) -> Graph:
    g, inputs = private(b, "apply"), list(apply.inputs.values())
    kept = [i < count or flag for i, flag in enumerate(inputs_read(b, apply))]
    given = iter(inputs_of(g, [x for x, flag in zip(inputs, kept, strict=True) if flag]))
    operands = [next(given) if flag else g.zeros_like(x) for x, flag in zip(inputs, kept, strict=True)]
    return g.finish(emit_call(g, apply, operands))
