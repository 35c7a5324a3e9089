"""Judges the derivatives of a random program at one point, in f64.

The program is a function f. Random arrays are drawn: a point x, a tangent dx of a random subset of the inputs, and
cotangents a and b of the outputs. Five functions are evaluated: f, its JVP, its VJP, the JVP of the VJP and the VJP of
the JVP. Let J be the Jacobian of f at x. The checks:

- every derivative also returns the values of f;
- the JVP agrees with central differences of f;
- the VJP is the adjoint of the JVP: Re<b, J dx> = Re<J'b, dx>;
- the JVP of the VJP at (x, b), with the tangents (dx, a), agrees with central differences of the VJP;
- the results of the VJP of the JVP at (x, dx), with the cotangents (a, b), equal results of the JVP of the VJP. They
are
  J'a + d<b, J dx>/dx and J'b.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from harness.check_rule import Array, inner, like

import tiduc
from tiduc.passes.rules import OPSET
from tiduc.passes.rules.registry import OpSet

STEPS = (1e-3, 2.5e-4)
_MULTIPLES = (1, -1, 2, -2)
_CLOSE = 1e-8
"""The tolerance of the relative error of a derivative, in addition to the estimated error of the differences."""
_SURE = 1e-6
"""If the estimated relative error of the differences is larger, they are inconclusive."""
_EXACT = 1e-11
"""A tenth of the tolerance of the relative error between two results that must be equal up to rounding."""
SIZES = (1, 2, 3)
"""The sizes of dynamic dimensions at run time."""

Verdict = tuple[str, str]
"""The category of an outcome, and a text with details."""


class Wrong(Exception):
    """Raised if a derivative is wrong."""


class Undecided(Exception):
    """Raised if the function is not smooth or not finite at the point."""


@dataclass(frozen=True)
class Case:
    """The five functions of a program, and the random arrays. `wrt` are the positions of differentiated inputs."""

    texts: tuple[str, ...]
    point: tuple[Array, ...]
    wrt: tuple[int, ...]
    dx: tuple[Array, ...]
    a: tuple[Array, ...]
    b: tuple[Array, ...]
    floats: tuple[int, ...]
    """The positions of the float and complex outputs."""

    @property
    def distances(self) -> tuple[float, ...]:
        """The multiples of the tangent dx that are added to x for the evaluations. The first one is 0."""
        return (0.0, *(m * step for step in STEPS for m in _MULTIPLES))

    def arguments(self, distance: float) -> list[list[Array]]:
        """Returns the arguments of each function at a distance from the point.

        x is replaced by x + distance dx, and b by b + distance a.
        """
        x = list(self.point)
        for i, tangent in zip(self.wrt, self.dx, strict=True):
            x[i] = np.asarray(x[i] + distance * tangent)
        b = [np.asarray(v + distance * u) for u, v in zip(self.a, self.b, strict=True)]
        given = [x, [*x, *self.dx], [*x, *b], [*x, *b, *self.dx, *self.a], [*x, *self.dx, *self.a, *self.b]]
        return given[: len(self.texts)]


def case_of(text: str, seed: int, order: int = 2, opset: OpSet = OPSET) -> Case:
    """Returns the case of a program or, if `order` is 3, of its JVP or VJP, which is chosen at random.

    The seed determines all random choices. Raises `TiducError` if tiduc refuses the program.
    """
    rng = np.random.default_rng(seed)
    program = tiduc.load(text, opset=opset)
    if order > 2:
        program = program.jvp() if rng.random() < 0.5 else program.vjp()
        text = program.text
    size = int(rng.choice(SIZES))
    point = point_of(program, rng, size)
    active = [i for i, x in enumerate(point) if x.dtype.kind in "fc"]
    wrt = tuple(i for i in active if rng.random() < 0.7) or tuple(active[:1])
    floats = tuple(i for i, port in enumerate(program.outputs) if _is_float(port.type))
    shapes = [_argument(rng, program.outputs[i].type, size) for i in floats]
    jvp, vjp = program.jvp(list(wrt)), program.vjp(list(wrt))
    texts = [text, jvp.text, vjp.text]
    if order > 1:
        count = len(point)
        texts.append(vjp.jvp([*wrt, *range(count, count + len(floats))]).text)
        texts.append(jvp.vjp([*wrt, *range(count, count + len(wrt))]).text)
    dx = tuple(like(point[i], rng) for i in wrt)
    a, b = (tuple(like(y, rng) for y in shapes) for _ in range(2))
    return Case(tuple(texts), point, wrt, dx, a, b, floats)


def point_of(program: tiduc.Program, rng: np.random.Generator, size: int = 1) -> tuple[Array, ...]:
    """Returns random arguments of a program. Dynamic dimensions have the size `size`."""
    return tuple(_argument(rng, port.type, size) for port in program.inputs)


def _is_float(type_: Any) -> bool:
    return "f64" in str(type_)


def _argument(rng: np.random.Generator, type_: Any, size: int) -> Array:
    """Returns a random argument. Floats have at most the magnitude 1.5, and integers are from 0 to 3.

    Dynamic dimensions have the size `size`.
    """
    shape = tuple(type_.get_dim_size(d) if not type_.is_dynamic_dim(d) else size for d in range(type_.rank))
    element = str(type_.element_type)
    if element == "i1":
        return np.asarray(rng.random(shape) < 0.5)
    if element[0] in "iu":
        return np.asarray(rng.integers(0, 4, shape)).astype(f"int{element.lstrip('sui')}")
    x = rng.uniform(-1.5, 1.5, shape)
    if "complex" in element:
        return np.asarray(x + 1j * rng.uniform(-1.5, 1.5, shape)) / np.sqrt(2)
    return np.asarray(x)


def verdict(case: Case, results: Sequence[Sequence[Sequence[Array]]]) -> Verdict:
    """Returns the verdict on a case. `results` has the results of each function for each of `case.distances`."""
    try:
        with np.errstate(all="ignore"):
            _judge(case, results)
    except Wrong as wrong:
        return "wrong", str(wrong)
    except Undecided as reason:
        return "not comparable", str(reason)
    return "ok", ""


def _judge(case: Case, results: Sequence[Sequence[Sequence[Array]]]) -> None:
    here = results[0]
    primal, jvp, vjp = here[:3]
    count = len(primal)
    if not all(np.isfinite(y).all() for each in results for y in each[0]):
        raise Undecided("the function is not finite")
    for k, each in enumerate(here[1:], 1):
        _equal(each[:count], primal, f"values of function {k}")
    dy, cx = jvp[count:], vjp[count:]
    _differences(dy, [[each[0][i] for i in case.floats] for each in results], "JVP")
    _adjoint(case.b, dy, cx, case.dx)
    if len(case.texts) == 3:
        return
    forward, reverse = here[3], here[4]
    both = count + len(case.wrt)
    _equal(forward[count:both], cx, "cotangents of the JVP of the VJP")
    differentiable = [*case.floats, *range(count, both)]
    moved = [[each[2][i] for i in differentiable] for each in results]
    _differences(forward[both:], moved, "JVP of the VJP")
    after = count + len(case.floats)
    _equal(reverse[count:after], dy, "tangents of the VJP of the JVP")
    expected = [*forward[both + len(case.floats) :], *cx]
    _equal(reverse[after:], expected, "VJP of the JVP")


def _adjoint(b: Sequence[Array], dy: Sequence[Array], cx: Sequence[Array], dx: Sequence[Array]) -> None:
    left, right = inner(b, dy), inner(cx, dx)
    pairs = [*zip(b, dy, strict=True), *zip(cx, dx, strict=True)]
    scale = sum(float(np.sum(np.abs(u * v))) for u, v in pairs)
    if not abs(left - right) <= _EXACT * max(1.0, scale):
        raise Wrong(f"the VJP is not the adjoint of the JVP: <b, dy> = {left}, but <cx, dx> = {right}")


def _equal(actual: Sequence[Array], expected: Sequence[Array], label: str) -> None:
    """Raises `Wrong` unless values are equal up to rounding, relative to the largest expected element or to 1."""
    scale = max([1.0, *(float(np.max(np.abs(y), initial=0)) for y in expected)])
    for i, (x, y) in enumerate(zip(actual, expected, strict=True)):
        error = float(np.max(np.abs(x - y), initial=0)) if x.shape == y.shape else np.inf
        if not error <= _EXACT * 10 * scale:
            raise Wrong(
                f"{label}, result {i}: {_shown(x)} instead of {_shown(y)}, relative error {error / scale:.1e}"
            )


def _differences(dy: Sequence[Array], values: Sequence[Sequence[Array]], label: str) -> None:
    """Compares tangents with fourth-order central differences of the values.

    Raises `Wrong` if a tangent is wrong, and `Undecided` if the differences are inconclusive.
    """
    for i, tangent in enumerate(dy):
        far, near = (_quotient([each[i] for each in values], k) for k in range(2))
        scale = max(0.1, float(np.max(np.abs(near), initial=0)))
        doubt = float(np.max(np.abs(far - near), initial=0))
        if not doubt <= _SURE * scale:
            raise Undecided(f"{label}, result {i}: differences disagree by {doubt / scale:.1e}")
        error = float(np.max(np.abs(tangent - near), initial=0))
        if not error <= 20 * doubt + _CLOSE * scale:
            if _has_kink([each[i] for each in values]):
                raise Undecided(f"{label}, result {i}: the point is a kink")
            raise Wrong(
                f"{label}, result {i}: {_shown(tangent)}, differences say {_shown(near)}, "
                f"relative error {error / scale:.1e}"
            )


def _quotient(values: Sequence[Array], k: int) -> Array:
    plus, minus, plus2, minus2 = values[1 + 4 * k : 5 + 4 * k]
    return np.asarray((8 * (plus - minus) - (plus2 - minus2)) / (12 * STEPS[k]))


def _has_kink(values: Sequence[Array]) -> bool:
    """Returns whether the function has a kink at the point.

    At a kink, the left and right differences differ by about equal amounts for the small and the large step.
    """
    bends = []
    for k, step in enumerate(STEPS):
        plus, minus = values[1 + 4 * k : 3 + 4 * k]
        bends.append(np.abs(plus - 2 * values[0] + minus) / step)
    return bool(np.any((bends[1] > 0.6 * bends[0]) & (bends[1] > 1e-6)))


def _shown(x: Array) -> str:
    return " ".join(np.array2string(x, threshold=12, precision=9).split())


def each_text(case: Case) -> Iterator[tuple[str, str]]:
    """Yields the name and the text of each function of a case."""
    names = ("f", "JVP", "VJP", "JVP of the VJP", "VJP of the JVP")
    return zip(names, case.texts, strict=False)
