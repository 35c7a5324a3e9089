"""The builder with which rules and passes emit StableHLO into graphs."""

from collections.abc import Iterable

from tiduc.dialect.emitters.masks import add_masked
from tiduc.dialect.emitters.stablehlo_ops import RecordEmitter
from tiduc.dialect.graph.graph import Value


class StablehloBuilder(RecordEmitter):
    """Emits StableHLO and CHLO ops into a graph. `sum` adds masked terms before it masks them (`masks.py`)."""

    def sum(self, terms: Iterable[Value]) -> Value:
        """The sum of values of one type. Terms with the same mask predicate are added first, and then masked once."""
        terms = list(terms)
        return super().sum(add_masked(self, terms)) if len(terms) > 1 else terms[0]
