"""Marks the extrema that softmax and logsumexp subtract, since no result depends on them; part of import.

    m = reduce max x            m = reduce max x {tidu.shift = true}
    e = exp(x - m)        ->    e = exp(x - m)
    p = e / sum e               p = e / sum e

Such a shift m only avoids overflow, so its tangent may be zero: without the mark, a derivative compares x with m, and
adds terms that cancel. An extremum is marked if all values that depend on it are, element by element,

    v + c m        such as x - m         and add, subtract, negate of those; log(v exp(c m))
    v exp(c m)     such as exp(x - m)    and multiply, divide, sums of those
    v              such as e / sum e     where c is 0

with a whole number c and values v that do not depend on m, and the function returns only values of the last form. A
function of m alone, such as `select (is_finite m), m, 0`, is a shift, too.
"""

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch_mlir import ir

from tiduc.dialect.bodies import reducer
from tiduc.dialect.graph import operations
from tiduc.passes.importing.relus import splat
from tiduc.passes.rules.reduce import SHIFT
from tiduc.passes.rules.selection import EXTREMA

_MOST = 64
"""The number of ops up to which a shift is followed."""


@dataclass(frozen=True)
class _Form:
    """The form of a value: v + c m, or v exp(c m) if `exp`, where m is `shift`.

    Dimension i of m is dimension `along[i]` of the value, or None if its size is 1. Other dimensions repeat m.
    """

    shift: Any
    along: tuple[int | None, ...]
    c: int = 1
    exp: bool = False

    def placed(self, along: Sequence[int | None]) -> "_Form":
        return replace(self, along=tuple(along))


def mark_shifts(reductions: Iterable[Any]) -> None:
    """Marks the reductions whose results are shifts, and removes the mark from all others."""
    places: dict[Any, dict[Any, int]] = {}  # by block, as its parent: the place of each op
    for op in reductions:
        if op.parent.name == "tidu.graph":
            continue  # other graphs may refer to its values
        if SHIFT in op.attributes:
            del op.attributes[SHIFT]
        if len(op.results) == 1 and reducer(op) in EXTREMA:
            if op.parent not in places:
                places[op.parent] = {each: i for i, each in enumerate(operations(op.operation.block))}
            if _Following(places[op.parent]).cancels(op.results[0]):
                op.attributes[SHIFT] = ir.BoolAttr.get(
                    True
                )  # a portable artifact cannot hold a unit attribute


class _Following:
    """Follows a shift through the ops of a block, in their order."""

    def __init__(self, place: dict[Any, int]) -> None:
        self.place = place
        self.forms: dict[Any, _Form] = {}
        self.pure: set[Any] = set()  # functions of the shift alone
        self.queue: list[tuple[int, Any]] = []
        self.queued: set[Any] = set()

    def cancels(self, shift: Any) -> bool:
        """Whether all values that depend on a shift cancel it."""
        if not self._follow(shift, _as_shift(shift), True):
            return False
        while self.queue:
            _, op = heapq.heappop(self.queue)
            if not self._visit(op):
                return False
        return True

    def _follow(self, x: Any, form: _Form, is_pure: bool) -> bool:
        """Records the form of a value, and queues its readers; False if one of them is in another block."""
        self.forms[x] = form
        if is_pure:
            self.pure.add(x)
        for use in x.uses:
            op = use.owner.operation
            if op not in self.place:
                return False
            if op not in self.queued:
                self.queued.add(op)
                heapq.heappush(self.queue, (self.place[op], op))
        return len(self.queued) <= _MOST and bool(x.type.has_static_shape)

    def _visit(self, op: Any) -> bool:
        """Follows the result of an op; False if it has none of the forms."""
        if len(op.results) != 1:
            return False
        form = _form_of(op, [self.forms.get(x) for x in op.operands])
        is_pure = all(x in self.pure or splat(x) is not None for x in op.operands)
        if form is None and not is_pure:
            return False
        result = op.results[0]
        form = form or _as_shift(result)
        return not form.c or self._follow(result, form, is_pure)


def _as_shift(x: Any) -> _Form:
    return _Form(x, tuple([d if size != 1 else None for d, size in enumerate(x.type.shape)]))


def _form_of(op: Any, forms: Sequence[_Form | None]) -> _Form | None:
    """The form of an op's result, where c is 0 if it does not depend on the shift; None for any other dependence."""
    x, y = forms[0], forms[1] if len(forms) > 1 else None
    match op.name.removeprefix("stablehlo."):
        case "add":
            return _sum(x, y, 1)
        case "subtract":
            return _sum(x, y, -1)
        case "multiply":
            return _product(x, y, 1)
        case "divide":
            return _product(x, y, -1)
        case "negate":
            return x if x is None or x.exp else replace(x, c=-x.c)
        case "abs":
            return x if x and x.exp else None
        case "sign":
            return replace(x, c=0) if x and x.exp else None
        case "exponential":
            return replace(x, exp=True) if x and not x.exp else None
        case "log":
            return replace(x, exp=False) if x and x.exp else None
        case "convert":
            return x if isinstance(op.results[0].type.element_type, ir.FloatType) else None
        case "reduce":
            return _total(op, x) if y is None else None
        case _:
            return _moved(op, x) if x else None


def _sum(x: _Form | None, y: _Form | None, sign: int) -> _Form | None:
    if x is not None and y is not None:
        if not _match(x, y) or (x.exp and x.c != y.c):
            return None
        return x if x.exp else replace(x, c=x.c + sign * y.c)
    one = x or y
    if one is None or one.exp:
        return None
    return one if x else replace(one, c=sign * one.c)


def _product(x: _Form | None, y: _Form | None, sign: int) -> _Form | None:
    """The form of x y, or of x / y if the sign is -1."""
    one = x or y
    if one is None or not one.exp:
        return None
    if x is not None and y is not None:
        return replace(x, c=x.c + sign * y.c) if _match(x, y) else None
    return one if x else replace(one, c=sign * one.c)


def _match(x: _Form, y: _Form) -> bool:
    return x.shift == y.shift and x.along == y.along and x.exp == y.exp


def _total(op: Any, x: _Form | None) -> _Form | None:
    """The form of a sum of values v exp(c m) along dimensions that repeat m, from 0."""
    dropped = list(op.attributes["dimensions"])
    if x is None or not x.exp or reducer(op) != "stablehlo.add" or len(op.operands) != 2:
        return None
    if splat(op.operands[1]) != 0 or not set(dropped).isdisjoint(x.along):
        return None
    return x.placed([None if d is None else d - sum(k < d for k in dropped) for d in x.along])


def _moved(op: Any, x: _Form) -> _Form | None:
    """The form of a result that has the elements of a value at other places; None for other ops."""
    match op.name:
        case "stablehlo.broadcast_in_dim":
            places = list(op.attributes["broadcast_dimensions"])
        case "stablehlo.transpose":
            permutation = list(op.attributes["permutation"])
            places = [permutation.index(d) for d in range(len(permutation))]
        case "stablehlo.reshape":
            before, after = (
                [(d, size) for d, size in enumerate(v.type.shape) if size != 1]
                for v in (op.operands[0], op.results[0])
            )
            if [size for _, size in before] != [size for _, size in after]:
                return None
            renamed = {d: e for (d, _), (e, _) in zip(before, after, strict=True)}
            return x.placed([None if d is None else renamed[d] for d in x.along])
        case _:
            return None
    return x.placed([None if d is None else places[d] for d in x.along])
