"""residuals: the primal values that the reverse reads, and that must be kept until it does.

In the flat VJP, what the primal outputs need runs forward; the rest runs once the cotangents are there. A residual is
a value that the first part makes and the second reads. What only constants make is not kept, but made again; and of a
value that is broadcast, transposed or reshaped, the one before that is kept. What a reverse loop stores while it runs,
such as checkpoints, is not among them.
"""

from dataclasses import dataclass

from tiduc.dialect.errors import describe
from tiduc.dialect.graph import Definition, Graph, Value
from tiduc.explain.costs import size_in_bytes
from tiduc.passes.materialize_merge import live
from tiduc.view.label import type_name

LAYOUT = frozenset(f"stablehlo.{name}" for name in ("broadcast_in_dim", "reshape", "transpose"))


@dataclass(frozen=True)
class Residual:
    """A value that is kept: an argument, which is there anyway, or the result of an op at a place."""

    name: str
    type: str
    bytes: int
    place: str
    is_argument: bool
    readers: int


def find_residuals(vjp: Graph, primal_outputs: int) -> list[Residual]:
    """The residuals of a flat VJP that was lowered, whose first outputs are the primal ones; the largest first."""
    primal = [y for y in vjp.outputs[:primal_outputs] if y is not None]
    forward = live(vjp.definitions, primal)
    made = {y for op in forward for y in op.results}
    given = _read(forward).intersection(vjp.inputs.values())
    constant = _constants(vjp.definitions)
    kept: dict[Value, int] = {}
    for op in vjp.definitions:
        if op.results and op.results[0] in made:
            continue
        for x in dict.fromkeys((*op.operands, *op.captures)):
            if (x in made or x in given) and x not in constant:
                source = _source(x)
                kept[source] = kept.get(source, 0) + 1
    found = [_described(x, readers) for x, readers in kept.items()]
    return sorted(found, key=lambda residual: (residual.is_argument, -residual.bytes))


def _constants(definitions: list[Definition]) -> set[Value]:
    """What only constants make."""
    found: set[Value] = set()
    for op in definitions:
        if op.name != "tidu.bind" and not op.captures and found.issuperset(op.operands):
            found.update(op.results)
    return found


def _source(x: Value) -> Value:
    """The value of which one is a broadcast, a transpose or a reshape."""
    while x.definition is not None and x.definition.name in LAYOUT:
        x = x.definition.operands[0]
    return x


def _read(ops: list[Definition]) -> set[Value]:
    return {x for op in ops for x in (*op.operands, *op.captures)}


def _described(x: Value, readers: int) -> Residual:
    op = x.definition
    if op is None:
        return Residual(str(x.key), type_name(x.type), size_in_bytes(x), "", True, readers)
    name = op.name.removeprefix("stablehlo.").removeprefix("tidu.")
    if len(op.results) > 1:
        name += f" #{op.results.index(x)}"
    return Residual(name, type_name(x.type), size_in_bytes(x), describe(op.location), False, readers)
