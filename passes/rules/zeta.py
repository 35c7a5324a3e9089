"""zeta: the Hurwitz zeta function, sum over k >= 0 of (q + k)^(-s).

The derivative in q is -s zeta(s + 1, q). For large q, where the expansion of zeta(s + 1, q) underflows early, it is
computed as -(s - 1) zeta(s, q) (1 / q + 1 / (2 q^2)). CHLO has no op for the derivative in s, so the rule linearizes
the Euler-Maclaurin expansion (DLMF 2.10.1). The result is accurate in f64 for q > 0. It is NaN for q < 0, because the
rule computes log(q). With a = q + N, the expansion is

    sum_(k < N) (q + k)^(-s) + a^(-s) (a / (s - 1) + 1/2 + sum_(j > 0) B_2j / (2j)! s (s + 1)...(s + 2j - 2) a^(1 - 2j))
"""

from math import factorial
from typing import Any

from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.shapes.types import element
from tiduc.passes.rules.chlo import LARGE, inverse
from tiduc.passes.rules.elementwise import plus, times, upcast
from tiduc.passes.rules.expansion import expanded
from tiduc.passes.rules.opset import linearize
from tiduc.passes.rules.registry import Tangents

TERMS = 10
BERNOULLI = (
    1 / 6,
    -1 / 30,
    1 / 42,
    -1 / 30,
    5 / 66,
    -691 / 2730,
    7 / 6,
    -3617 / 510,
    43867 / 798,
    -174611 / 330,
)


@linearize("chlo.zeta")
def zeta(b: StablehloBuilder, op: Definition, dx: Tangents) -> list[Value]:
    s, q = op.operands
    terms: list[Any] = []
    if dx[0] is not None:
        terms += expanded(b, [s], [dx[0]], lambda s: [_euler_maclaurin(b, s, q)])
    if dx[1] is not None:
        terms.append(b.multiply(_toward_q(b, s, q, op.result), dx[1]))
    return [b.sum(terms)]


def _toward_q(b: StablehloBuilder, s: Value, q: Value, z: Value) -> Value:
    one = b.constant(1, s)
    near = b.negate(b.multiply(s, b.zeta(b.add(s, one), q)))
    is_far = b.compare(q, times(b, LARGE[max(element(q).width, 32)], b.add(s, one)), "GT")
    is_far = b.and_(is_far, b.compare(s, one, "GT"))  # zeta(1, q) is infinite
    far = b.multiply(b.multiply(b.subtract(one, s), z), inverse(b, q))
    return b.select(is_far, far, near)


def _euler_maclaurin(b: StablehloBuilder, s: Value, q: Value) -> Value:
    type_ = element(s)
    s, q = upcast(b, s), upcast(b, q)
    a, minus_s = plus(b, q, TERMS), b.negate(s)
    rest = plus(b, b.divide(a, plus(b, s, -1)), 0.5)
    factor = b.divide(s, a)
    for j, number in enumerate(BERNOULLI, 1):
        rest = b.add(rest, times(b, number / factorial(2 * j), factor))
        factor = b.multiply(factor, b.divide(plus(b, s, 2 * j - 1), a))
        factor = b.multiply(factor, b.divide(plus(b, s, 2 * j), a))
    terms = [b.power(plus(b, q, k) if k else q, minus_s) for k in range(TERMS)]
    return b.convert(b.sum([*terms, b.multiply(b.power(a, minus_s), rest)]), type_)
