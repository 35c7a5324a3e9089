"""The builder with which rules and passes emit StableHLO into graphs."""

from collections.abc import Iterable

from tiduc.dialect.emitters.masks import add_masked
from tiduc.dialect.emitters.stablehlo_ops import RecordEmitter
from tiduc.dialect.graph.graph import Value


class StablehloBuilder(RecordEmitter):
    """Emits StableHLO and CHLO ops into a graph. `sum` uses few selects for terms that are masked (see `masks.py`)."""

    def sum(self, terms: Iterable[Value]) -> Value:
        """The sum of values of one type. Terms whose masks have the same predicate are added, and then masked once."""
        terms = list(terms)
        return super().sum(add_masked(self, terms)) if len(terms) > 1 else terms[0]
