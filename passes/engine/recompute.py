"""Rematerialization: which values are kept as residuals, and which are recomputed from them.

    y = tanh m; the transpose reads y and 1 - y y       keep y;  recompute 1 - y y

The values kept are those of fewest bytes from which cheap ops recompute the wanted values, given loop invariants:
a minimum cut between the values that cannot be recomputed (carries, matrix products, ...) and the wanted values. Among
several minimum cuts, it is the one nearest to the wanted values, which leaves least to recompute. Induction variables,
which change by a constant per iteration, follow from the iteration's number and are never kept.

Source: Ford, Fulkerson, "Maximal flow through a network" (1956): the cut is where no augmenting path continues.
"""

from collections.abc import Collection, Sequence
from math import prod
from typing import Any

from tiduc.dialect.graph import Value
from tiduc.dialect.trip_count import integer
from tiduc.dialect.types import bits, is_open

_CHEAP = frozenset(
    f"stablehlo.{name}"
    for name in (
        "abs add and bitcast_convert broadcast_in_dim ceil clamp compare complex concatenate constant convert divide "
        "dynamic_slice floor imag iota is_finite maximum minimum multiply negate not or pad real remainder reshape "
        "reverse select sign slice sqrt subtract transpose xor"
    ).split()
)
"""Ops that are cheap to recompute: elementwise arithmetic and data movement; no sums, gathers, or ops with regions.

Exponentials and the like are not among them: a loop of tanh took a fifth longer when it recomputed them.
"""

_UNLIMITED = 2**62

Node = tuple[Value, bool]
"""One end of a value in the flow network: at the op that defines it (False), or at the ops that read it (True)."""


def size(x: Value) -> int:
    """The bytes that a value takes; practically infinite where its shape is dynamic."""
    if is_open(x.type):
        return _UNLIMITED
    return int(prod(x.type.shape)) * max(bits(x), 8) // 8


def cheapest_residuals(wanted: Sequence[Value], free: Collection[Value]) -> list[Value]:
    """The values of fewest bytes from which, together with the free ones, cheap ops compute the wanted ones."""
    network = _Network(free)
    for x in dict.fromkeys(wanted):
        while network.augment(x):
            pass
    return [x for x, read in network.dead if read and (x, False) not in network.dead]


class _Network:
    """A flow network from values that cannot be recomputed to wanted values; a value's capacity is its size in bytes.

    Searches start at the wanted end. `dead` are the nodes that failed searches visited: no later path crosses them.
    """

    def __init__(self, free: Collection[Value]) -> None:
        self.dead: dict[Node, None] = {}
        self._free = set(free)
        self._known: dict[Value, bool] = dict.fromkeys(free, True)
        self._through: dict[Value, int] = {}
        # the flow from a value to the values computed from it
        self._along: dict[Value, dict[Value, int]] = {}

    def augment(self, wanted: Value) -> bool:
        """Finds one more augmenting path to a wanted value, and adds its flow; False where there is none."""
        if self._is_free(wanted):
            return False
        came: dict[Node, Node | None] = {(wanted, True): None}
        stack: list[Node] = [(wanted, True)]
        while stack:
            node = stack.pop()
            if not node[1] and self._is_source(node[0]):
                self._push(node, came)
                return True
            for before in self._before(node):
                if before not in came and before not in self.dead:
                    came[before] = node
                    stack.append(before)
        self.dead.update(dict.fromkeys(came))
        return False

    def _before(self, node: Node) -> list[Node]:
        """The nodes from which more can flow to this one."""
        x, read = node
        if read:
            before = [(y, False) for y, flow in self._along.get(x, {}).items() if flow]
            return [*before, (x, False)] if self._left(x) else before
        before = [(x, True)] if self._through.get(x) else []
        assert x.definition is not None
        return [*before, *((y, True) for y in x.definition.operands if not self._is_free(y))]

    def _left(self, x: Value) -> int:
        return size(x) - self._through.get(x, 0)

    def _push(self, start: Node, came: dict[Node, Node | None]) -> None:
        path = [start]
        while (after := came[path[-1]]) is not None:
            path.append(after)
        steps = list(zip(path, path[1:], strict=False))
        flow = min(
            self._left(x) if x is y and not read else self._canceled(x, y, read)
            for (x, read), (y, _) in steps
        )
        for (x, read), (y, _) in steps:
            if x is y:
                self._through[x] = self._through.get(x, 0) + (flow if not read else -flow)
            elif read:
                self._along.setdefault(x, {}).setdefault(y, 0)
                self._along[x][y] += flow
            else:
                self._along[y][x] -= flow

    def _canceled(self, x: Value, y: Value, read: bool) -> int:
        """How much more can flow from x to y: any amount to an op's result, or as much as came, backwards."""
        if x is y:
            return self._through[x]
        return _UNLIMITED if read else self._along[y][x]

    def _is_source(self, x: Value) -> bool:
        op = x.definition
        return op is None or op.name not in _CHEAP or bool(op.captures)

    def _is_free(self, x: Value) -> bool:
        """Whether cheap ops compute a value from free values alone."""
        stack = [x]
        while stack:
            y = stack[-1]
            if y in self._known:
                stack.pop()
            elif self._is_source(y):
                self._known[stack.pop()] = False
            else:
                operands = y.definition.operands  # type: ignore[union-attr]
                missing = [z for z in operands if z not in self._known]
                if missing:
                    stack += missing
                else:
                    self._known[stack.pop()] = all(self._known[z] for z in operands)
        return self._known[x]


def induction_variables(step: Any) -> dict[Value, tuple[Any, int]]:
    """The induction variables of a step: carries of forward loops that grow by a constant integer.

    Each has the place of its carry, and its increment.
    """
    variables = {}
    outer = {inner: x for x, inner in step.outside.items()}
    for at, x in step.carries.items():
        after = step.nexts[at].definition if not step.backwards[x] else None
        if after is None or after.name not in ("stablehlo.add", "stablehlo.subtract") or x.type.rank:
            continue
        y, increment = after.operands
        if step is x and after.name == "stablehlo.add":
            y, increment = increment, y
        by = integer(outer.get(increment, increment))
        if y is x and by is not None and bits(x) >= 32:
            variables[x] = at, by if after.name == "stablehlo.add" else -by
    return variables


def induction_value(b: Any, start: Value, by: int, number: Value) -> Value:
    """An induction variable's value in an iteration: start + by * number."""
    number = b.convert(number, start.type.element_type)
    steps = b.multiply(number, b.constant(abs(by), number))
    return b.add(start, steps) if by > 0 else b.subtract(start, steps)  # type: ignore[no-any-return]
