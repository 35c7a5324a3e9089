"""Call sites of control-flow ops, of which several versions with more and more residual results may exist.

A linear graph that needs residuals of an op in another graph contains a copy of that op, with the residuals
as extra results. All copies share one call site: they have the same operands and the same base graph, and
lowering merges them into one op. When a view is linearized again, only the widest copy is linearized; its
tangents serve all copies.
"""

from collections.abc import Callable
from typing import Any

from tiduc.dialect.control import Branches, Loop, control, is_control
from tiduc.dialect.graph import Definition
from tiduc.passes.rules.registry import Tangents

Rule = Callable[[Any, Any, list[Any | None]], list[Any | None]]


def at_site(b: Any, op: Definition, dx: Tangents, rule: Rule) -> list[Any | None]:
    """The tangents of the results of a branch or a loop.

    They are computed once per call site, by `rule` on the widest scheduled op of the site.
    """
    if b.engine.sites is None:
        b.engine.sites = _widest(b)
    made = control(b.view, op)
    site = made.site
    found = b.engine.sites.get(site, made)
    if not isinstance(found, list):
        found = b.engine.sites[site] = rule(b, found, [dx[i] for i in made.arguments])
    return found  # type: ignore[no-any-return]


def _widest(b: Any) -> dict[Any, Branches | Loop | list[Any | None]]:
    found: dict[Any, Any] = {}
    for op in b.engine.scheduled:
        if is_control(op):
            made = control(b.view, op)
            if made.site not in found or found[made.site].width < made.width:
                found[made.site] = made
    return found
