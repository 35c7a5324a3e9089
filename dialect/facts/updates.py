"""updates: finds ops that can write into an array in place if no other op reads the array.

dynamic_update_slice x, u, i            can write into x
add x, (dynamic_update_slice 0, u, i)   can write into x, because lowering replaces both ops by one update
"""

from tiduc.dialect.facts.identities import is_zeros
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.ops.traits import UPDATES


def updated(op: Definition) -> Value | None:
    """Returns the array into which an op can write in place if no other op reads the array.

    Returns None for an op that cannot write in place.
    """
    if op.name in UPDATES:
        return op.operands[0]
    if op.name == "stablehlo.add":
        for x, y in (op.operands, op.operands[::-1]):
            if y.definition is not None and is_update_of_zeros(y.definition):
                return x
    return None


def is_update_of_zeros(op: Definition) -> bool:
    """Whether an op writes an update into an array of zeros. Such ops compute the cotangents of slices."""
    return op.name in UPDATES and is_zeros(op.operands[0])
