"""linearize: builds the linear graph that maps tangents of inputs to tangents of outputs.

    F0: p2 = mul a, x               L0: dx = input                    (tangent of @F0::@x)
        p3 = exp p2         ->          t1 = mul @F0::@a, dx          {active = [0, 1]}
                                        t2 = mul @F0::@p3, t1         {active = [0, 1]}

The stage visits the ops on which the outputs depend, in order, and applies the rule of each op that a tangent reaches.
A linear graph refers to primal values in other graphs, instead of copying them. It can therefore be linearized again,
to any order, without a merge of the graphs. A symbolic zero is None, and no ops are emitted for it.

Source: Radul, Paszke, Frostig, Johnson, Maclaurin, "You Only Linearize Once" (2022).
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from torch_mlir import ir

from tiduc.dialect.emitters.builder import Builder
from tiduc.dialect.errors import RequestError, UnknownSize, Unsupported
from tiduc.dialect.graph.graph import Graph, Value
from tiduc.dialect.graph.view import BINDING, Reference, View
from tiduc.dialect.mlir.context import stage
from tiduc.passes.batch import batch_closed
from tiduc.passes.engine.close import inline
from tiduc.passes.engine.split import split
from tiduc.passes.rules.lent import Linearizing
from tiduc.passes.rules.registry import OpSet


@stage
def linearize(
    view: View,
    outputs: Sequence[Value | Reference],
    wrt: Sequence[str],
    opset: OpSet,
    name: str | None = None,
) -> Graph:
    """Builds the linear graph that computes tangents of `outputs` from tangents of the inputs with the keys `wrt`.

    The graph has one input per entry of `wrt`, under a fresh key. It has one output per entry of `outputs`, a value or
    a reference `@graph::@name`; the output is None if that value is inactive. Raises `RequestError` if `outputs` or
    `wrt` names a value twice or a value without a tangent, or if `wrt` names a bound input. Raises `ResolveError` if a
    name is unknown, and `Unsupported` if an active op has no rule.
    """
    outputs = view.values(outputs)
    primals = [view.input(key) for key in wrt]
    name = name or view.fresh("L")
    b: Any = opset.builder(view, name)
    b.engine = Linearizing(
        partial(split, b, opset, linearize),
        partial(batch_closed, opset=opset),
        partial(inline, b),
        opset.linearize_rule,
    )
    b.graph.input_of = tuple(primals)
    check_distinct("wrt", [f"@{key}" for key in wrt], primals)
    check_distinct("output", [str(view.reference(x)) for x in outputs], outputs)
    check_free(wrt, primals)
    tangents = {
        x: b.input(f"{name}.{key}", tangent_type(b, x, f"@{key}"), linear=True)
        for key, x in zip(wrt, primals, strict=True)
    }
    for x in outputs:
        tangent_type(b, x, str(view.reference(x)))
    try:
        _linearize_ops(b, view, outputs, tangents, opset)
    except Unsupported as error:
        raise error.at(b.location) from None
    b.graph.tangent_of = tangents
    graph: Graph = b.finish_linear([tangents.get(x) for x in outputs], primals, outputs)
    return graph


def _linearize_ops(
    b: Builder, view: View, outputs: Sequence[Value], tangents: dict[Value, Value | None], opset: OpSet
) -> None:
    """Extends `tangents` from the inputs to all values that depend on them."""
    tangent = b.engine.tangent = tangents.get
    b.engine.scheduled, b.engine.outputs = view.schedule(outputs), set(outputs)
    for op in b.engine.scheduled:
        dx = list(map(tangent, op.operands))
        if op.captures:
            dx += map(tangent, op.captures)
        if any(dx):
            if op.name == BINDING:  # the tangent of a bound input is that of its value
                tangents[op.result] = dx[0]
                continue
            rule = opset.linearize_rule(op)
            if rule is None:
                continue
            if op.captures and op.name not in opset.capturing:
                if any(dx[len(op.operands) :]):
                    raise opset.unsupported("jvp", op, "its region reads an active value from outside")
                del dx[len(op.operands) :]
            b.location = op.location
            try:
                dy_of = rule(b, op, dx)
            except UnknownSize as error:
                raise opset.unsupported("jvp", op, error.message) from None
            for y, dy in zip(op.results, dy_of, strict=True):
                if dy is not None:
                    terms = b.notes.terms.get(y, ())
                    tangents[y] = b.sum([dy, *terms]) if terms else dy


def tangent_type(b: Builder, x: Value, description: str) -> ir.Type:
    """The type of a value's tangent. Raises `RequestError`, with `description`, if the value has no tangent."""
    type_ = b.tangent_type(x.type)
    if type_ is None:
        raise RequestError(f"{description} has no tangent: its type is {x.type}")
    return type_


def check_free(wrt: Sequence[str], primals: Sequence[Value]) -> None:
    """Raises `RequestError` if an input to differentiate in is bound."""
    for key, x in zip(wrt, primals, strict=True):
        if x.definition is not None:
            raise RequestError(f"wrt @{key} is bound to another value")


def check_distinct(role: str, names: Sequence[str], values: Sequence[Value]) -> None:
    """Raises `RequestError`, with one of the names, if a value is listed twice."""
    seen = set()
    for name, value in zip(names, values, strict=True):
        if value in seen:
            raise RequestError(f"{role} {name} is given twice")
        seen.add(value)
