"""Value numbering across graphs: finds outputs of several graphs that are equal if the graphs' inputs are equal."""

from typing import Any

from tiduc.dialect.graph.graph import Definition, Graph, Value
from tiduc.dialect.graph.keys import KeyTable
from tiduc.dialect.graph.view import View


class ValueNumbers:
    """Maps each value of several graphs to its representative: the first value, in any graph, that equals it.

    Inputs at equal positions are assumed to be equal. Results of two stateful ops are equal only if `copied` is set,
    the ops are copies of one op, and their operands are equal.
    """

    def __init__(self, stateful: frozenset[str], commutative: frozenset[str], copied: bool) -> None:
        self._copied, self._stateful = copied, stateful
        self._table = KeyTable(stateful, commutative)
        self._copies: dict[Any, Definition] = {}
        self._outputs: dict[Graph, list[Value]] = {}

    def of(self, view: View, graph: Graph) -> list[Value]:
        """Returns the representative of each output of a graph, except of outputs that are None (inactive).

        Equal outputs have the same representative, even if they belong to different graphs.
        """
        if graph not in self._outputs:
            first = {x: self._table.input(str(i), x) for i, x in enumerate(graph.inputs.values())}
            outputs = [y for y in graph.outputs if y is not None]
            for op in view.schedule(outputs, graph.inputs.values()):
                operands, captures = (tuple([first[x] for x in read]) for read in (op.operands, op.captures))
                # Copies of one op share one dictionary of attributes.
                if self._copied and op.name in self._stateful:
                    results = self._copies.setdefault((op.name, id(op.given), operands), op).results
                else:
                    results = self._table.results(op, operands, captures)
                first.update(zip(op.results, results, strict=True))
            self._outputs[graph] = [first[y] for y in outputs]
        return self._outputs[graph]
