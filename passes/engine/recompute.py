"""Rematerialization: which values are kept as residuals, and which are recomputed from them.

    y = tanh m; the transpose reads y and 1 - y y       keep y;  recompute 1 - y y

The values kept are those of fewest bytes from which cheap ops recompute the wanted values, given loop invariants:
a minimum cut between the values that cannot be recomputed (carries, matrix products, ...) and the wanted values. Among
several minimum cuts, it is the one nearest to the wanted values, which leaves least to recompute. Induction variables,
which change by a constant per iteration, follow from the iteration's number and are never kept.

Source: Ford, Fulkerson, "Maximal flow through a network" (1956): the cut is where no augmenting path continues.
"""

from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Any

from tiduc.dialect.costs import stored_bytes
from tiduc.dialect.graph import Value
from tiduc.dialect.traits import CHEAP
from tiduc.dialect.trip_count import increment
from tiduc.dialect.types import bits

_UNLIMITED = 2**62

Node = tuple[Value | None, bool]
"""One end of a value in the flow network: at the op that defines it (False), or at the ops that read it (True)."""

Network = dict[Node, dict[Node, int]]
"""By node, how much more can flow to it from each other node."""

_SOURCE: Node = (None, False)


def cheapest_residuals(wanted: Sequence[Value], free: Collection[Value]) -> list[Value]:
    """The values of fewest bytes from which, together with the free ones, cheap ops compute the wanted ones."""
    left = _network(wanted, set(free))
    unreachable: dict[Node, None] = {}  # searches from these nodes have failed: no later path crosses them
    for x in dict.fromkeys(wanted):
        while path := _augmenting_path(left, (x, True), unreachable):
            steps = list(pairwise(path))
            flow = min(left[after][before] for after, before in steps)
            for after, before in steps:
                left[after][before] -= flow
                left[before][after] = left[before].get(after, 0) + flow
    return [x for x, read in unreachable if x is not None and read and (x, False) not in unreachable]


def _network(wanted: Sequence[Value], free: set[Value]) -> Network:
    """The flow network from values that cannot be recomputed to wanted values; a value's capacity is its size in bytes.

    It leaves out values that cheap ops compute from free values alone.
    """
    is_free: dict[Value, bool] = dict.fromkeys(free, True)
    left: Network = {_SOURCE: {}}
    stack = list(wanted)
    while stack:
        x = stack[-1]
        op = x.definition
        is_source = op is None or op.name not in CHEAP or bool(op.captures)
        operands = () if is_source else op.operands  # type: ignore[union-attr]
        missing = [y for y in operands if y not in is_free]
        if x not in is_free and missing:
            stack += missing
            continue
        stack.pop()
        if x not in is_free:
            is_free[x] = not is_source and all(is_free[y] for y in operands)
            if not is_free[x]:
                before: list[Node] = [(y, True) for y in operands if not is_free[y]]
                left[x, False] = dict.fromkeys(before or [_SOURCE], _UNLIMITED)
                left[x, True] = {(x, False): _capacity(x)}
    return left


def _capacity(x: Value) -> int:
    """The bytes that storing a value takes; `_UNLIMITED` where its shape is dynamic, and at most that."""
    size = stored_bytes(x.type)
    return _UNLIMITED if size is None else min(size, _UNLIMITED)


def _augmenting_path(left: Network, wanted: Node, unreachable: dict[Node, None]) -> list[Node]:
    """A path from a wanted node back to the source, along which more can flow; empty if there is none."""
    after: dict[Node, Node | None] = {wanted: None} if wanted in left else {}
    stack = list(after)
    while stack:
        node = stack.pop()
        if node == _SOURCE:
            path: list[Node] = [node]
            while (following := after[path[-1]]) is not None:
                path.append(following)
            return path[::-1]
        for before, more in left[node].items():
            if more and before not in after and before not in unreachable:
                after[before] = node
                stack.append(before)
    unreachable.update(dict.fromkeys(after))
    return []


def induction_variables(step: Any) -> dict[Value, tuple[Any, int]]:
    """The induction variables of a step: carries of forward loops that grow by a constant integer.

    Each has the place of its carry, and its increment.
    """
    outer = {inner: x for x, inner in step.loop.outside.items()}
    variables = {}
    for at, x in step.carries.items():
        by = increment(x, step.nexts[at], lambda y: outer.get(y, y)) if not step.backwards[x] else None
        if by is not None and bits(x) >= 32:
            variables[x] = at, by
    return variables


def induction_value(b: Any, start: Value, by: int, number: Value) -> Value:
    """An induction variable's value in an iteration: start + by * number."""
    number = b.convert(number, start.type.element_type)
    steps = b.multiply(number, b.constant(abs(by), number))
    return b.add(start, steps) if by > 0 else b.subtract(start, steps)  # type: ignore[no-any-return]
