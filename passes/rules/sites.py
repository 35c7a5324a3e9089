"""Call sites of control-flow ops. The copies of an op at one call site differ in the number of residuals that they
return.

A linear graph may need residuals of an op in another graph. It then contains a copy of that op with the residuals as
further results. All copies share one call site: their operands are equal, their graphs extend one base graph, and
lowering merges them into one op. When a view is linearized again, only the copy with the most results (the widest) is
linearized. Its tangents also serve each copy whose results are its first results. Copies from linear graphs with
respect to other inputs have other residuals, and are linearized separately.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tiduc.dialect.control.control import Branches, Loop, control, is_control
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.cache import Cache
from tiduc.dialect.graph.graph import Definition, Graph, Value
from tiduc.dialect.graph.value_numbers import ValueNumbers
from tiduc.dialect.ops.traits import COMMUTATIVE, STATEFUL
from tiduc.passes.rules.registry import Tangents

Rule = Callable[[Any, Any, list[Any | None]], list[Any | None]]

Sites = dict[Any, list["Copies"]]
"""Maps each call site to the copies at it."""

_VALUE_NUMBERS = Cache[None, ValueNumbers]()


@dataclass
class Copies:
    """Copies of one op that differ in their number of results, and the tangents of the copy with the most results."""

    widest: Branches | Loop
    tangents: list[Any | None] | None = None


def at_site(b: StablehloBuilder, op: Definition, dx: Tangents, rule: Rule) -> list[Value | None]:
    """Returns the tangents of the results of a branch or a loop.

    Applies `rule` only once to all copies of an op: to the scheduled copy with the most results (the widest).
    """
    if b.engine.sites is None:
        b.engine.sites = _sites(b)
    record = control(b.view, op)
    known = b.engine.sites.setdefault(record.site, [])
    copies = next((each for each in known if _begins(b, each.widest, record)), None)
    if copies is None:
        copies = Copies(record)
        known.append(copies)
    if copies.tangents is None:
        copies.tangents = rule(b, copies.widest, [dx[i] for i in record.arguments])
    return copies.tangents


def _sites(b: StablehloBuilder) -> Sites:
    """Groups the scheduled control-flow ops by call site, and the ops of a call site by whether they are copies."""
    sites: Sites = {}
    for op in b.engine.scheduled:
        if not is_control(op):
            continue
        record = control(b.view, op)
        known = sites.setdefault(record.site, [])
        for copies in known:
            wider, narrower = sorted((copies.widest, record), key=lambda each: -each.width)
            if _begins(b, wider, narrower):
                copies.widest = wider
                break
        else:
            known.append(Copies(record))
    return sites


def _begins(b: StablehloBuilder, wide: Branches | Loop, narrow: Branches | Loop) -> bool:
    """Whether the results of `narrow` are the first results of `wide`. Both ops must be at the same call site."""
    return wide.width >= narrow.width and all(
        _is_copy(b, graph, other) for graph, other in zip(_graphs(wide), _graphs(narrow), strict=True)
    )


def _graphs(record: Branches | Loop) -> tuple[Graph, ...]:
    if isinstance(record, Loop):
        return (record.body,) if record.cond is None else (record.body, record.cond)
    return record.graphs


def _is_copy(b: StablehloBuilder, wide: Graph, narrow: Graph) -> bool:
    """Whether the outputs of the graph `narrow` are the first outputs of the graph `wide`."""
    extended: Graph | None = wide
    while extended is not None and extended is not narrow:
        extended = extended.extends
    if extended is narrow:
        return True
    numbers = _VALUE_NUMBERS.get(b.view, None, lambda: ValueNumbers(STATEFUL, COMMUTATIVE, copied=True))
    of_wide, of_narrow = (numbers.of(b.view, graph) for graph in (wide, narrow))
    return of_wide[: len(of_narrow)] == of_narrow
