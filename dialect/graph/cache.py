"""Typed caches of results that are computed from the graphs of a view.

    SQUARED = Cache[Graph, Squared]()
    squared = SQUARED.get(view, graph, lambda: compute(view, graph))      computed once per view and graph

Each kind of result has one `Cache`, declared next to the function that computes the results. The results themselves are
in the view, so they live as long as its graphs.
"""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from tiduc.dialect.graph.view import View

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Cache(Generic[K, V]):
    """A cache of results of type V, with keys of type K. The view stores the results."""

    def get(self, view: View, key: K, compute: Callable[[], V]) -> V:
        """The result for a key. Calls `compute` if the view has no result for the key yet."""
        results: dict[K, V] = self.of(view)
        if key not in results:
            results[key] = compute()
        return results[key]

    def of(self, view: View) -> dict[K, V]:
        """All results in a view, by key."""
        return view.caches.setdefault(self, {})
