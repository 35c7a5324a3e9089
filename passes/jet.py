"""jet: computes the Taylor coefficients of values from those of inputs.

    F0: p2 = mul a, x               J0: x_1, x_2 = inputs              x(t) = x + x_1 t + x_2 t^2
        p3 = exp p2         ->          u_1 = mul @F0::@a, x_1;  u_2 = mul @F0::@a, x_2
                                        y_1 = mul @F0::@p3, u_1
                                        y_2 = (mul @F0::@p3, 2 u_2 + mul y_1, u_1) / 2

A derivative of order K costs about K^2 times the program, while K nested JVPs cost 3^K times the program.

Source: Griewank, Walther, "Evaluating Derivatives" (2008), chapter 13.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from torch_mlir import ir

from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.errors import RequestError, Unsupported
from tiduc.dialect.graph.graph import Graph, Value
from tiduc.dialect.graph.view import Reference, View
from tiduc.dialect.mlir.context import stage
from tiduc.passes.jets import control
from tiduc.passes.jets.series import Series
from tiduc.passes.linearize import check_distinct, check_free, tangent_type
from tiduc.passes.rules.registry import OpSet

JET_OF = "tidu.jet_of"
"""Attribute of a graph that computes Taylor coefficients of values: the names of the graphs of these values."""

MAX_ORDER = 100
"""The highest order of a jet. It bounds the recursion depth: a coefficient is computed by recursion on its order."""


@stage
def jet(
    view: View,
    outputs: Sequence[Value | Reference],
    given: Mapping[Value, Sequence[Value | None]],
    order: int,
    opset: OpSet,
    b: StablehloBuilder,
) -> list[list[Any | None]]:
    """Computes, for each output, a list of its Taylor coefficients of orders 0 to `order`.

    `given` maps each variable to its coefficients of orders 1 to `order`. A coefficient of None is zero. `b` builds the
    graph that computes the coefficients. An output's coefficient of order 0 is the output itself, or a value of that
    graph. Raises `RequestError` if the order is not from 1 to `MAX_ORDER`, and `Unsupported` if an op with a series has
    no linearize rule, or calls a function that has only a VJP.
    """
    _check_order(order)
    values = view.values(outputs)
    series = Series(view, opset, b, {x: [x, *c] for x, c in given.items()}, control.extend)
    try:
        series.extend(values, order)
    except Unsupported as error:
        raise error.at(b.location) from None
    return [[series.at(y, k) for k in range(order + 1)] for y in values]


@stage
def jet_graph(
    view: View,
    outputs: Sequence[Value | Reference],
    wrt: Sequence[str],
    order: int,
    opset: OpSet,
    name: str | None = None,
) -> Graph:
    """Builds a graph that computes Taylor coefficients of `outputs` from those of the inputs with the keys `wrt`.

    The graph has one input, with a fresh key, for each coefficient of order 1 to `order` of each entry of `wrt`. It has
    one output for each coefficient of order 0 to `order` of each entry of `outputs`, a value or a reference.
    An output whose type has no tangents has only its value. Raises `RequestError` if `outputs` or `wrt` names a value
    twice, or if `wrt` names an input that is bound or has no tangent. Other errors are those of `jet`.
    """
    _check_order(order)
    values = view.values(outputs)
    variables = [view.input(key) for key in wrt]
    check_distinct("wrt", [f"@{key}" for key in wrt], variables)
    check_distinct("output", [str(view.reference(y)) for y in values], values)
    check_free(wrt, variables)
    b: Any = opset.builder(view, name or view.fresh("J"))
    given = {
        x: [b.input(f"{b.graph.name}.{key}.{k}", tangent_type(b, x, f"@{key}")) for k in range(1, order + 1)]
        for key, x in zip(wrt, variables, strict=True)
    }
    wanted = []
    for y, found in zip(values, jet(view, values, given, order, opset, b), strict=True):
        last = order if b.tangent_type(y.type) is not None else 0
        wanted += [b.zeros_like(found[0]) if x is None else x for x in found[: last + 1]]
    sources = dict.fromkeys(y.graph.name for y in values)
    b.graph.attributes[JET_OF] = ir.ArrayAttr.get([ir.FlatSymbolRefAttr.get(source) for source in sources])
    graph: Graph = b.finish(wanted)
    return graph


def _check_order(order: int) -> None:
    if not 1 <= order <= MAX_ORDER:
        raise RequestError(f"order must be an integer from 1 to {MAX_ORDER}, not {order}")
