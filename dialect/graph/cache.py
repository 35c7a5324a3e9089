"""Caches with typed keys and results, for results that are computed from the graphs of a view.

    SQUARED = Cache[Graph, Squared]()
    squared = SQUARED.get(view, graph, lambda: compute(view, graph))      computed once per view and graph

Each kind of result has one `Cache`, declared next to the function that computes the results. The view stores the
results, so they live as long as the view's graphs.
"""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from tiduc.dialect.graph.view import View

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Cache(Generic[K, V]):
    """A cache of results of type V, with keys of type K. The view stores the results."""

    def get(self, view: View, key: K, compute: Callable[[], V]) -> V:
        """Returns the view's result for a key. If there is none yet, calls `compute` and stores what it returns."""
        results: dict[K, V] = self.of(view)
        if key not in results:
            results[key] = compute()
        return results[key]

    def of(self, view: View) -> dict[K, V]:
        """The dictionary of the results that a view stores for this cache."""
        return view.caches.setdefault(self, {})
