"""origins: computes a key for each value, called its origin. IREE merges only values of equal origins.

    %y = maximum %x, %x             the origin of %x
    %z = pad %x, %0, low = [0]      the origin of %x
    %c = add %1, %2                 the origin of constants, if %1 and %2 are constants

IREE merges equal ops, folds constants, and may fold an op to its only nonconstant operand, as the `pad` above. An op
with one nonconstant operand therefore has the origin of this operand, unless the op certainly computes other numbers,
as products and kernels do. An op that certainly does, or whose operands have several origins, has a new origin, which
equal ops share. The hidden number of each mark (`emit/marks.py`) has an origin of its own.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence

import numpy as np

from tiduc.backends.iree.emit.emitter import NUMBERS
from tiduc.backends.iree.emit.known import known_number
from tiduc.backends.iree.emit.workgroups import DISPATCH
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.ops.traits import ELEMENTWISE, NEUTRAL, PRODUCTS, traits_of

CONSTANT = "constant"
"""The first entry of a constant's origin; the second entry is the value of the constant.

The result of an op on constants also has an origin of constants, because IREE folds the op. This origin has no second
entry, because the value is not computed here.
"""

Origin = tuple[Hashable, ...]
"""A key of a value. IREE may merge values whose types and origins are equal."""


def origins(arguments: Iterable[IrValue], ops: Iterable[IrOp]) -> dict[IrValue, Origin]:
    """Computes the origins of a block's arguments and of the results of its ops, which are given in order."""
    found: dict[IrValue, Origin] = {x: ("argument", i) for i, x in enumerate(arguments)}
    numbers: dict[Hashable, int] = {}
    for op in ops:
        if op.name in ("stablehlo.constant", "arith.constant"):
            found[op.results[0]] = CONSTANT, op.attributes["value"]
            continue
        if NUMBERS in op.attributes:
            found.update({y: ("hidden", n) for n, y in enumerate(op.results)})
            continue
        given = [found[x] for x in op.operands]
        behind = list(dict.fromkeys(each for each in given if each[0] != CONSTANT))
        constants = [x for x, each in zip(op.operands, given, strict=True) if each[0] == CONSTANT]
        known = [known_number(x) for x in constants] if op.name in ELEMENTWISE else []
        for n, y in enumerate(op.results):
            if not behind:
                found[y] = (CONSTANT,)
            elif len(behind) == 1 and not _computes(op, known):
                (found[y],) = behind
            else:
                attributes = [(name, op.attributes[name]) for name in op.attributes]
                key = op.name, n, *attributes, *known, frozenset(behind)
                found[y] = "op", numbers.setdefault(key, len(numbers))
    return found


def may_be_equal(values: Sequence[IrValue], of: Mapping[IrValue, Origin]) -> bool:
    """Whether IREE may find two of these values to be equal, judged by their types and origins."""
    found = [(x.type, of[x]) for x in values]
    constants = [type_ for type_, origin in found if origin[0] == CONSTANT]
    computed = {type_ for type_, origin in found if origin == (CONSTANT,)}
    return len(set(found)) < len(found) or any(constants.count(type_) > 1 for type_ in computed)


def _computes(op: IrOp, known: Sequence[np.generic | None]) -> bool:
    """Whether an op certainly computes other numbers than those of its operands.

    `known` has the numbers that fill the constant operands, with None for those that are unknown.
    """
    if op.name in PRODUCTS | {DISPATCH}:
        return True
    if op.name not in ELEMENTWISE or traits_of(op.name).flops == ".":
        return False
    neutral = NEUTRAL.get(op.name, 1)
    return len(known) == len(op.operands) - 1 and all(x is not None and x != neutral for x in known)
