"""Sites: where one call, branch or loop stands several times, with more and more residuals among its results.

A linear graph needs residuals of an op that another graph owns, so it holds that op once more, with the residuals as
further results. All of them are at one site: they have the same operands and the same base, and lowering makes one op
of them. When a view is linearized again, only the widest is, and tells the tangents of all.
"""

from collections.abc import Callable
from typing import Any

from tiduc.dialect.control import Branches, Loop, control, is_control
from tiduc.dialect.graph import Definition
from tiduc.passes.rules.registry import Tangents

Rule = Callable[[Any, Any, list[Any | None]], list[Any | None]]


def at_site(b: Any, op: Definition, dx: Tangents, rule: Rule) -> list[Any | None]:
    """The tangents of what a branch or a loop gives, by a rule for the widest op of its site that is scheduled."""
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
