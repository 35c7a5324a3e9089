"""Proves that a maximum that softmax or logsumexp subtracts needs no tangent, because no output depends on it.

    m = reduce max x;  e = exp(x - m);  p = e / sum e          dp / dx is right with dm = 0

`cancels` proves this for the outputs of one run of the stage `linearize`. Call the result of the reduce m, and let an
output be y = Y(x, m), as if m were another input. The proof follows m through the ops that are linearized, and finds a
form for each value that depends on m. The form holds for each element:

    v + c m         such as x - m          sums and differences of such values; log(v exp(c m))
    v exp(c m)      such as exp(x - m)     products, quotients and sums along dimensions of such values
    v               such as e / sum e      where c is 0

Here c is an integer, and v does not depend on m. The result of any other elementwise op, such as `select(is_finite m,
m, 0)`, is treated as another such input m'. If each output has the form v, then Y(x, m) is independent of m for all m.
Therefore the partial derivatives of Y in m are 0, and dy = Y_x dx.

The proof is about these outputs alone. An intermediate value such as e depends on m. If e is an output, the proof
fails, and m gets a tangent. The result of the proof is not kept, so derivatives of higher order are right, too: the
linear graph computes Y_x dx with or without dm, and the next run of `linearize` makes its own proof.
"""

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tiduc.dialect.emitters.bodies import reducer
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.facts.matchers import splat
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.ops.traits import ELEMENTWISE
from tiduc.dialect.shapes.types import dimensions_in, is_dynamic, is_float, shape

_MOST = 64
"""The largest number of ops through which the proof follows m."""


@dataclass(frozen=True)
class _Form:
    """The form of a value: v exp(c m) if `exp` is set, else v + c m. m is `shift`.

    Dimension i of m is dimension `along[i]` of the value; `along[i]` is None for size 1. Other dimensions repeat m.
    """

    shift: Value
    along: tuple[int | None, ...]
    c: int = 1
    exp: bool = False

    def placed(self, dimensions: Sequence[int] | Mapping[int, int]) -> "_Form":
        """Returns the form of a value in which dimension d of this form's value is dimension `dimensions[d]`."""
        return replace(self, along=tuple([None if d is None else dimensions[d] for d in self.along]))


_Forms = Sequence[_Form | None]


def cancels(b: StablehloBuilder, m: Value) -> bool:
    """Whether the proof shows that no output being linearized depends on m, the result of one of the ops."""
    scheduled, readers = b.engine.scheduled, b.engine.readers
    forms: dict[Value, _Form] = {}
    waiting, seen = list[int](), set[int]()

    def follow(x: Value, form: _Form) -> bool:
        forms[x] = form
        for i in readers.get(x, ()):
            if i not in seen:
                seen.add(i)
                heapq.heappush(waiting, i)
        return x not in b.engine.outputs and len(seen) <= _MOST

    if m not in readers or is_dynamic(m.type) or not follow(m, _unshifted(m)):
        return False
    while waiting:
        op = scheduled[heapq.heappop(waiting)]  # each operand that depends on m already has a form
        form = _form(op, forms)
        if form is None or (form.c and not follow(op.result, form)):
            return False
    return True


def _unshifted(x: Value) -> _Form:
    """Returns the form of a value that the proof treats as the input m: 0 + 1 m, along all dimensions of the value."""
    return _Form(x, tuple([None if size == 1 else d for d, size in enumerate(shape(x))]))


def _form(op: Definition, forms: Mapping[Value, _Form]) -> _Form | None:
    """Returns the form of an op's only result, with c = 0 if the result does not depend on m. None if no form is known.

    Values of dynamic shape have no form, because their sizes may be 1.
    """
    if len(op.results) != 1 or is_dynamic(op.result.type) or any(x in forms for x in op.captures):
        return None
    form = None
    if op.name in _RULES and all(is_float(x) for x in op.operands if x in forms):
        form = _RULES[op.name](op, [forms.get(x) for x in op.operands])
    return _unshifted(op.result) if form is None and op.name in ELEMENTWISE else form


# ---- the form of an op's result, from the forms of its operands ---------------------------------------------


def _sum(forms: _Forms, sign: int) -> _Form | None:
    x, y = forms
    if x is not None and y is not None:
        if not _match(x, y) or (x.exp and x.c != y.c):
            return None
        return x if x.exp else replace(x, c=x.c + sign * y.c)
    one = x or y
    if one is None or one.exp:
        return None
    return one if x else replace(one, c=sign * one.c)


def _product(forms: _Forms, sign: int) -> _Form | None:
    """The form of x y or, if the sign is -1, of x / y. None if no form is known."""
    x, y = forms
    one = x or y
    if one is None or not one.exp:
        return None
    if x is not None and y is not None:
        return replace(x, c=x.c + sign * y.c) if _match(x, y) else None
    return one if x else replace(one, c=sign * one.c)


def _match(x: _Form, y: _Form) -> bool:
    return x.shift is y.shift and x.along == y.along and x.exp == y.exp


def _total(op: Definition, forms: _Forms) -> _Form | None:
    """The form of a sum of values v exp(c m) along dimensions that repeat m."""
    x, dropped = forms[0], dimensions_in(op.attributes["dimensions"])
    if x is None or not x.exp or len(forms) != 2 or splat(op.operands[1]) != 0:
        return None
    if reducer(op) != "stablehlo.add" or not set(dropped).isdisjoint(x.along):
        return None
    return x.placed([d - sum(k < d for k in dropped) for d in range(len(shape(op.operands[0])))])


def _selected(op: Definition, forms: _Forms) -> _Form | None:
    """The common form of the two values of a select. Zeros have every form v exp(c m)."""
    condition, *values = forms
    known = [x for x in values if x is not None]
    zero = [i for i, x in enumerate(values) if x is None and splat(op.operands[1 + i]) == 0]
    if condition is not None or len(known) + len(zero) < 2 or (zero and not known[0].exp):
        return None
    return known[0] if known[0] == known[-1] else None


def _transposed(op: Definition, forms: _Forms) -> _Form | None:
    permutation = dimensions_in(op.attributes["permutation"])
    return forms[0] and forms[0].placed([permutation.index(d) for d in range(len(permutation))])


def _reshaped(op: Definition, forms: _Forms) -> _Form | None:
    """The form of a reshaped value. Returns None if the reshape changes a dimension whose size is not 1."""
    before, after = (
        [(d, size) for d, size in enumerate(shape(v)) if size != 1] for v in (op.operands[0], op.result)
    )
    if forms[0] is None or [size for _, size in before] != [size for _, size in after]:
        return None
    return forms[0].placed({d: e for (d, _), (e, _) in zip(before, after, strict=True)})


def _logarithm(op: Definition, forms: _Forms) -> _Form | None:
    x = forms[0]
    return replace(x, exp=False) if x is not None and x.exp else None


def _exponential(op: Definition, forms: _Forms) -> _Form | None:
    x = forms[0]
    return replace(x, exp=True) if x is not None and not x.exp else None


def _converted(op: Definition, forms: _Forms) -> _Form | None:
    return forms[0] if is_float(op.result) else None


def _compared(op: Definition, forms: _Forms) -> _Form | None:
    """The form of a comparison of v exp(c m) with 0, which does not depend on m. None for another comparison."""
    for x, other in (forms, forms[::-1]):
        if x is not None and x.exp and other is None and 0 in map(splat, op.operands):
            return replace(x, c=0)
    return None


def _absolute(op: Definition, forms: _Forms) -> _Form | None:
    return forms[0] if forms[0] is not None and forms[0].exp else None


def _sign(op: Definition, forms: _Forms) -> _Form | None:
    return replace(forms[0], c=0) if forms[0] is not None and forms[0].exp else None


def _negated(op: Definition, forms: _Forms) -> _Form | None:
    x = forms[0]
    return x if x is None or x.exp else replace(x, c=-x.c)


_RULES: dict[str, Callable[[Definition, _Forms], _Form | None]] = {
    "stablehlo.abs": _absolute,
    "stablehlo.add": lambda op, forms: _sum(forms, 1),
    "stablehlo.broadcast_in_dim": lambda op, forms: (
        forms[0] and forms[0].placed(dimensions_in(op.attributes["broadcast_dimensions"]))
    ),
    "stablehlo.compare": _compared,
    "stablehlo.convert": _converted,
    "stablehlo.divide": lambda op, forms: _product(forms, -1),
    "stablehlo.exponential": _exponential,
    "stablehlo.log": _logarithm,
    "stablehlo.multiply": lambda op, forms: _product(forms, 1),
    "stablehlo.negate": _negated,
    "stablehlo.reduce": _total,
    "stablehlo.reshape": _reshaped,
    "stablehlo.select": _selected,
    "stablehlo.sign": _sign,
    "stablehlo.subtract": lambda op, forms: _sum(forms, -1),
    "stablehlo.transpose": _transposed,
}
"""Maps ops to functions (op, forms of its operands) -> form of its result. A form is None for operands without m."""
