"""Minimum cuts: finds the cheapest set of values from which given wanted values can be computed.

    x (1000 bytes) -> h (8 bytes) -> y (1000 bytes)        the minimum cut between the source x and the wanted y is {h}

Source: Ford, Fulkerson, "Maximal flow through a network" (1956). When no augmenting path is left, the values where the
search for a path stops are the minimum cut.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise

from tiduc.dialect.graph.graph import Value

UNLIMITED = 2**62
"""The capacity of a value that must not be in the cut."""

Node = tuple[Value | None, bool]
"""A node of the flow network. Each value has two nodes: (value, False), its definition, and (value, True), its uses."""

Network = dict[Node, dict[Node, int]]
"""The residual network: `network[a][b]` is the amount that can still flow from node b to node a."""

_SOURCE: Node = (None, False)


def minimum_cut(
    before: Mapping[Value, Sequence[Value]],
    capacity: Callable[[Value], int],
    wanted: Iterable[Value],
    price: Callable[[Value], int] | None = None,
) -> list[Value]:
    """Returns the minimum cut: the values of least total capacity that separate the wanted values from the sources.

    `before` maps each value to the values from which it is computed, and a source to an empty list. Ignores wanted
    values that are not in `before`. If there are several minimum cuts, returns the one nearest to the wanted values.
    With `price`, minimizes the sum of the capacities of the cut and the prices of the values between the cut and the
    wanted values, because these values must be recomputed.
    """
    left = _network(before, capacity)
    for x in before if price is not None else ():
        if before[x] and price is not None and (more := price(x)):
            left[x, False][_SOURCE] = more
    unreachable: dict[Node, None] = {}  # searches have shown that no augmenting path has these nodes
    for x in dict.fromkeys(wanted):
        while path := _augmenting_path(left, (x, True), unreachable):
            steps = list(pairwise(path))
            flow = min(left[after][node] for node, after in steps)
            for node, after in steps:
                left[after][node] -= flow
                left[node][after] = left[node].get(after, 0) + flow
    return [x for x, read in unreachable if x is not None and read and (x, False) not in unreachable]


def _network(before: Mapping[Value, Sequence[Value]], capacity: Callable[[Value], int]) -> Network:
    left: Network = {_SOURCE: {}}
    for x, sources in before.items():
        nodes: list[Node] = [(y, True) for y in sources]
        left[x, False] = dict.fromkeys(nodes or [_SOURCE], UNLIMITED)
        left[x, True] = {(x, False): capacity(x)}
    return left


def _augmenting_path(left: Network, wanted: Node, unreachable: dict[Node, None]) -> list[Node]:
    """Returns a path with spare capacity from the source to a wanted node.

    If there is none, returns [] and adds the nodes that the search has visited to `unreachable`.
    """
    after: dict[Node, Node | None] = {wanted: None} if wanted in left else {}
    stack = list(after)
    while stack:
        node = stack.pop()
        if node == _SOURCE:
            path: list[Node] = [node]
            while (following := after[path[-1]]) is not None:
                path.append(following)
            return path
        for before, more in left[node].items():
            if more and before not in after and before not in unreachable:
                after[before] = node
                stack.append(before)
    unreachable.update(dict.fromkeys(after))
    return []
