"""Computes the regularized incomplete gamma functions P and Q = 1 - P by loops that end when all elements converged.

P(a, x) = x^a e^-x / Gamma(a + 1) (1 + x / (a + 1) + x^2 / ((a + 1) (a + 2)) + ...)        for x <= a + 1: DLMF 8.7.1
Q(a, x) = x^a e^-x / Gamma(a) / (x + 1 - a - 1 (1 - a) / (x + 3 - a - 2 (2 - a) / ...))    for x > a + 1: DLMF 8.9.2

The loops are differentiated, also with respect to a, for which PyTorch has no derivative. If an operand is NaN, the
result is NaN.
"""

from collections.abc import Callable, Sequence
from math import pi

from tiduc.models.emitted_text import Body, TextTensor
from tiduc.models.torch.ops.calls import call
from tiduc.models.torch.ops.framework import TABLE, aten, torch

_MOST = 100_000
"""The limit on the iterations of a loop. In f64, the series of P(a, x) needs 9 sqrt(a) iterations if x is near a."""

_TINY = {"f32": 1e-30, "f64": 1e-300}


def _converging(
    body: Body,
    step: Callable[..., tuple[Sequence[TextTensor], TextTensor]],
    initial: Sequence[TextTensor],
) -> list[TextTensor]:
    """Emits a loop that computes `values, flags = step(n, *values)` for n = 1, 2, ... until all flags are false.

    A flag is true if its element has not converged. Returns the last values.
    """
    like = initial[0]
    one, goes = body.constant("1.0", [], like.element), body.constant("true", [], "i1")
    carried = [one, goes, *initial]
    types = [(x.sizes, x.element) for x in carried]

    def advance(n: TextTensor, _: TextTensor, *values: TextTensor) -> list[TextTensor]:
        new, is_open = step(body.spread(n, like), *values)
        either = body.region([((), "i1")] * 2, lambda a, b: [body.emit("or", [a, b], [])])
        listed = ", ".join(map(str, range(len(like.sizes))))
        dimensions = f"dimensions = array<i64{': ' if listed else ''}{listed}>"
        (some,) = body.emit_all(
            "reduce", [is_open, body.constant("false", [], "i1")], [((), "i1")], dimensions, [either]
        )
        more = body.compare(n, body.constant(f"{_MOST:e}", [], n.element), "LT")
        return [body.add(n, one), body.emit("and", [some, more], []), *new]

    regions = [body.region(types, lambda n, goes, *_: [goes]), body.region(types, advance)]
    return body.emit_all("while", carried, types, regions=regions)[2:]


def _series(a: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """The series of P without its factor: the sum of x^n / ((a + 1) (a + 2) ... (a + n)) for n = 0, 1, 2, and so on."""
    least = torch.finfo(a.dtype).eps / 4

    def build(body: Body, a: TextTensor, x: TextTensor) -> list[TextTensor]:
        def step(n: TextTensor, term: TextTensor, total: TextTensor) -> tuple[list[TextTensor], TextTensor]:
            ratio = body.emit("divide", [x, body.add(a, n)], x.sizes)
            new = body.multiply(term, ratio)
            small = body.multiply(total, body.constant(f"{least:e}", x.sizes, x.element))
            return [new, body.add(total, new)], body.compare(new, small, "GT")

        one = body.constant("1.0", x.sizes, x.element)
        return _converging(body, step, [one, one])[1:]

    return call("gamma_series", [a, x], build)


def _fraction(a: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """The continued fraction 1 / (x + 1 - a - 1 (1 - a) / (x + 3 - a - ...)), by Lentz's algorithm."""
    least = torch.finfo(a.dtype).eps

    def build(body: Body, a: TextTensor, x: TextTensor) -> list[TextTensor]:
        def number(n: float) -> TextTensor:
            return body.constant(f"{n:e}", x.sizes, x.element)

        def guarded(y: TextTensor) -> TextTensor:
            size = body.emit("abs", [y], y.sizes)
            tiny = number(_TINY[y.element])
            return body.select(body.compare(size, tiny, "LT"), tiny, y)

        def over(y: TextTensor, z: TextTensor) -> TextTensor:
            return body.emit("divide", [y, z], y.sizes)

        def step(
            n: TextTensor, b: TextTensor, c: TextTensor, d: TextTensor, h: TextTensor
        ) -> tuple[list[TextTensor], TextTensor]:
            top = body.multiply(n, body.subtract(a, n))
            b = body.add(b, number(2))
            d = over(number(1), guarded(body.add(body.multiply(top, d), b)))
            c = guarded(body.add(b, over(top, c)))
            change = body.multiply(c, d)
            away = body.emit("abs", [body.subtract(change, number(1))], x.sizes)
            return [b, c, d, body.multiply(h, change)], body.compare(away, number(least), "GT")

        b = guarded(body.add(body.subtract(x, a), number(1)))
        d = over(number(1), b)
        return _converging(body, step, [b, number(1 / _TINY[x.element]), d, d])[3:]

    return call("gamma_fraction", [a, x], build)


def _scale(a: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Computes x^a e^-x / Gamma(a). For a >= 20, uses Stirling's series (DLMF 5.11.1) for the gamma function.

    The direct formula would lose digits by cancellation if a is large and x is near a.
    """
    is_large = a >= 20
    small, large = torch.where(is_large, 1, a), torch.where(is_large, a, 20)
    below = torch.exp(small * torch.log(x) - x - torch.lgamma(small))
    away = (x - large) / large
    inverse = 1 / (large * large)
    series = (
        1 / 12 - inverse * (1 / 360 - inverse * (1 / 1260 - inverse * (1 / 1680 - inverse / 1188)))
    ) / large
    above = torch.sqrt(large / (2 * pi)) * torch.exp(large * (torch.log1p(away) - away) - series)
    return torch.where(is_large, above, below)


def _first(a: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """The first two terms of the series of P(a, x). At x = 0, they give P and its derivatives up to order two."""
    return torch.pow(x, a) * torch.exp(-x - torch.lgamma(a + 1)) * (1 + x / (a + 1))


def _gamma(a: torch.Tensor, x: torch.Tensor, is_upper: bool) -> torch.Tensor:
    a, x = torch.broadcast_tensors(a, x)
    wide = torch.float64 if a.dtype == torch.float64 else torch.float32
    kind, a, x = a.dtype, a.to(wide), x.to(wide)
    is_sound = (a > 0) & (x > 0) & torch.isfinite(a) & torch.isfinite(x)
    a_in, x_in = torch.where(is_sound, a, 1), torch.where(is_sound, x, 1)
    is_small = x_in <= a_in + 1
    scale = _scale(a_in, x_in)
    lower = scale / a_in * _series(a_in, torch.where(is_small, x_in, 0))
    upper = scale * _fraction(a_in, torch.where(is_small, a_in + 2, x_in))
    y = torch.where(is_small, 1 - lower, upper) if is_upper else torch.where(is_small, lower, 1 - upper)
    at_zero = (a > 0) & torch.isfinite(a) & (x == 0)
    first = _first(torch.where(at_zero, a, 1), torch.where(at_zero, x, 1))
    y = torch.where(at_zero, 1 - first if is_upper else first, y)
    is_one = ((a == 0) & (x > 0)) | ((a >= 0) & torch.isfinite(a) & (x == float("inf")))  # where P is 1
    is_zero = (a == float("inf")) & (x >= 0) & torch.isfinite(x)
    ends = torch.where(is_one, 1.0 - is_upper, torch.where(is_zero, float(is_upper), float("nan")))
    return torch.where(is_sound | at_zero, y, ends.to(wide)).to(kind)


TABLE[aten.igamma.default] = TABLE[aten.special_gammainc.default] = lambda a, x: _gamma(a, x, False)
TABLE[aten.igammac.default] = TABLE[aten.special_gammaincc.default] = lambda a, x: _gamma(a, x, True)
