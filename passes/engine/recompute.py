"""What of an iteration is kept for the loop that runs backwards, and what it computes again.

    y = tanh m, of which the transpose reads 1 - y y, and y       keep y;  again: 1 - y y

Kept is the set of fewest bytes from which cheap ops make what is wanted, given what no iteration changes: a minimum
cut between what cannot be computed again (carries, products of matrices, ...) and what is wanted. Of several such
sets it is the one that leaves least to compute. Counters, whose step is a constant, follow from the number of the
iteration and are never kept.

Source: Ford, Fulkerson, "Maximal flow through a network" (1956): the cut is where no further path leads.
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
"""Arithmetic of each element and data movement: nothing that sums, gathers, or holds other ops.

Exponentials and the like are not among them: a loop of tanh took a fifth longer when it computed these again.
"""

_UNLIMITED = 2**62

Node = tuple[Value, bool]
"""Where a value leaves what makes it (False), and where it reaches what reads it (True)."""


def size(x: Value) -> int:
    """How many bytes a value takes; more than any where its sizes are open."""
    if is_open(x.type):
        return _UNLIMITED
    return int(prod(x.type.shape)) * max(bits(x), 8) // 8


def kept(wanted: Sequence[Value], free: Collection[Value]) -> list[Value]:
    """The values of fewest bytes from which, and from free ones, cheap ops make the wanted ones."""
    network = _Network(free)
    for x in dict.fromkeys(wanted):
        while network.augment(x):
            pass
    return [x for x, read in network.dead if read and (x, False) not in network.dead]


class _Network:
    """Flow from what cannot be computed again to what is wanted, through each value as much as it has bytes.

    Paths are looked for from the wanted end. What a search that failed has passed, no later path can pass.
    """

    def __init__(self, free: Collection[Value]) -> None:
        self.dead: dict[Node, None] = {}
        self._free = set(free)
        self._known: dict[Value, bool] = dict.fromkeys(free, True)
        self._through: dict[Value, int] = {}
        self._along: dict[Value, dict[Value, int]] = {}  # from a value, to those made of it

    def augment(self, wanted: Value) -> bool:
        """Finds one more path to a wanted value."""
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
        """From where more can flow to a node."""
        x, read = node
        if read:
            found = [(y, False) for y, flow in self._along.get(x, {}).items() if flow]
            return [*found, (x, False)] if self._left(x) else found
        found = [(x, True)] if self._through.get(x) else []
        assert x.definition is not None
        return [*found, *((y, True) for y in x.definition.operands if not self._is_free(y))]

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
        """How much can flow on: without limit to what is made of a value, and back as much as came."""
        if x is y:
            return self._through[x]
        return _UNLIMITED if read else self._along[y][x]

    def _is_source(self, x: Value) -> bool:
        made = x.definition
        return made is None or made.name not in _CHEAP or bool(made.captures)

    def _is_free(self, x: Value) -> bool:
        """Cheap ops make it of free values alone."""
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


def counters(made: Any) -> dict[Value, tuple[Any, int]]:
    """The carries of a step that grow by the same integer each time, forwards: where they start, and by how much."""
    found = {}
    outer = {inner: x for x, inner in made.outside.items()}
    for at, x in made.carries.items():
        after = made.nexts[at].definition if not made.backwards[x] else None
        if after is None or after.name not in ("stablehlo.add", "stablehlo.subtract") or x.type.rank:
            continue
        y, step = after.operands
        if step is x and after.name == "stablehlo.add":
            y, step = step, y
        by = integer(outer.get(step, step))
        if y is x and by is not None and bits(x) >= 32:
            found[x] = at, by if after.name == "stablehlo.add" else -by
    return found


def counter(b: Any, start: Value, by: int, number: Value) -> Value:
    """A counter's value in an iteration: start + by number."""
    number = b.convert(number, start.type.element_type)
    steps = b.multiply(number, b.constant(abs(by), number))
    return b.add(start, steps) if by > 0 else b.subtract(start, steps)  # type: ignore[no-any-return]
