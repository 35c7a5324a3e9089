"""Call sites of control-flow ops, which may have several versions with more and more residual results.

A linear graph that needs residuals of an op in another graph contains a copy of that op, with the residuals
as extra results. All copies share one call site: they have the same operands and the same base graph, and
lowering merges them into one op. When a view is linearized once more, only the widest copy is linearized; its
tangents serve all copies.
"""

from collections.abc import Callable
from typing import Any

from tiduc.dialect.control.control import Branches, Loop, control, is_control
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.passes.rules.registry import Tangents

Rule = Callable[[Any, Any, list[Any | None]], list[Any | None]]


def at_site(b: StablehloBuilder, op: Definition, dx: Tangents, rule: Rule) -> list[Value | None]:
    """The tangents of the results of a branch or a loop.

    They are computed once per call site: `rule` is applied to the widest scheduled op of the call site.
    """
    if b.engine.sites is None:
        b.engine.sites = _widest(b)
    record = control(b.view, op)
    tangents = b.engine.sites.get(record.site, record)
    if not isinstance(tangents, list):
        tangents = rule(b, tangents, [dx[i] for i in record.arguments])
        b.engine.sites[record.site] = tangents
    return tangents  # type: ignore[no-any-return]


def _widest(b: StablehloBuilder) -> dict[Any, Branches | Loop | list[Any | None]]:
    """The record of the op with the most results, for each call site."""
    widest: dict[Any, Any] = {}
    for op in b.engine.scheduled:
        if is_control(op):
            record = control(b.view, op)
            if record.site not in widest or widest[record.site].width < record.width:
                widest[record.site] = record
    return widest
