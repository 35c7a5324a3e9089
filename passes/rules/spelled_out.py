"""Functions that programs spell out in ops which overflow, or have a kink, where the function is smooth.

    y = 1 / (1 + exp z)                     dy = y (y - 1) dz             exp z is infinite where y is 0
    y = max(u, v) + log1p(exp(-|u - v|))    dy = w du + (1 - w) dv,       both terms have a kink where u = v,
                                            w = 1 / (1 + exp(v - u))      and their sum has none

So JAX's exports have `logistic`, and `logaddexp` with all that is made of it, such as `softplus` and `cumlogsumexp`.
Each function here gives the tangent of what an op of such a form gives, or None for any other op.
"""

from typing import Any

from tiduc.dialect.graph import Definition
from tiduc.passes.rules.elementwise import plus, splat


def logistic(b: Any, op: Definition) -> Any | None:
    """Of a quotient."""
    one, below = op.operands
    total = _made_by(below, "stablehlo.add")
    if total is None or splat(b, one) != 1:
        return None
    for x, y in (total.operands, total.operands[::-1]):
        power = _made_by(y, "stablehlo.exponential")
        if power is not None and splat(b, x) == 1:
            dz, y = b.engine.tangent(power.operands[0]), op.result
            return None if dz is None else b.multiply(b.multiply(y, plus(b, y, -1)), dz)
    return None


def log_add_exp(b: Any, op: Definition) -> Any | None:
    """Of a sum. Where u - v is no number, as of equal infinities, either has one half."""
    for x, y in (op.operands, op.operands[::-1]):
        larger, rest = _made_by(x, "stablehlo.maximum"), _made_by(y, "stablehlo.log_plus_one")
        gap = None if larger is None or rest is None else _gap(rest)
        if larger is None or gap is None:
            continue
        (u, v), (first, second) = larger.operands, gap.operands
        if not (_same(b, u, first) and _same(b, v, second)):
            return None
        du, dv = b.engine.tangent(u), b.engine.tangent(v)
        d = gap.result
        w = b.logistic(b.select(b.compare(d, d, "EQ"), d, b.zeros_like(d)))
        terms = [] if du is None else [b.multiply(w, du)]
        if dv is not None:
            terms.append(b.multiply(b.subtract(b.constant(1, w), w), dv))
        return b.sum(terms) if terms else None
    return None


def _gap(op: Definition) -> Definition | None:
    """The u - v of log1p(exp(-|u - v|))."""
    found: Definition | None = op
    for name in ("exponential", "negate", "abs", "subtract"):
        found = None if found is None else _made_by(found.operands[0], f"stablehlo.{name}")
    return found


def _made_by(x: Any, name: str) -> Definition | None:
    """The op of that name that gives x."""
    op: Definition | None = x.definition
    return op if op is not None and op.name == name else None


def _same(b: Any, x: Any, y: Any) -> bool:
    """One value, or one number everywhere in equal shapes."""
    return x is y or (x.type == y.type and splat(b, x) is not None and splat(b, x) == splat(b, y))
