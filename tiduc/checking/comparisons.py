"""Compares the derivatives of a program at a point with central differences and with each other.

Tangents are compared element by element: an error is relative to the element, or to 1% of the largest element if the
element is smaller. Cotangents are compared by inner products with random tangents: an error is relative to the root of
the sum of the squared terms. Only one input varies at a time, and only one output has a cotangent at a time, so that no
error hides behind a larger derivative.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np

from tiduc.checking.differences import DifferenceEstimate, derivatives
from tiduc.dialect.errors import InputError
from tiduc.program import Program
from tiduc.runtime.arrays import Array, random_array
from tiduc.runtime.signature import TensorType

Call = Callable[..., Sequence[Array]]
Run = Callable[[Program], Call]
"""A function that compiles a program with some engine. It returns a function on arrays."""

_DRAWS = 2  # the number of times that random tangents and cotangents are drawn
_SMALL = 1e-2  # an error is relative to at least this share of the largest element
_MARGIN = 20  # the largest factor by which uncertain finite differences raise a tolerance


@dataclass(frozen=True)
class Comparison:
    """A comparison, with its largest relative error and the tolerance for this error.

    `uncertainty` is the error that the finite differences may have, relative to the same scale as `error`. `where`
    names the input that changed, or the output that had a cotangent, where the error is largest.
    """

    name: str
    error: float
    tolerance: float
    uncertainty: float = 0.0
    where: str = ""

    @property
    def agrees(self) -> bool:
        return self.error <= self.tolerance  # False for NaN

    @property
    def excess(self) -> float:
        """The error divided by the tolerance. Infinite if the error is NaN."""
        ratio = self.error / self.tolerance if self.tolerance else np.inf * bool(self.error)
        return np.inf if np.isnan(ratio) else ratio


@dataclass(frozen=True)
class Point:
    """A program, its arguments, the positions of the inputs that vary, and the parameters of the comparisons.

    `epsilon` is the relative rounding error of the arrays. `prefix` precedes the names of the comparisons.
    """

    program: Program
    arguments: Sequence[Array]
    positions: Sequence[int]
    run: Run
    modes: Sequence[str]
    rtol: float
    epsilon: float
    generator: np.random.Generator
    prefix: str = ""


@dataclass(frozen=True)
class _Drawn:
    """Random tangents `dx` of the inputs that vary, and random cotangents `ct` of the differentiable outputs.

    `y` and `names` are the values and the names of these outputs.
    """

    dx: Sequence[Array]
    ct: Sequence[Array]
    y: Sequence[Array]
    names: Sequence[str]


@dataclass(frozen=True)
class _Along:
    """The tangents of the outputs if one input varies along its tangent.

    `differences` are estimated by finite differences. `dy` is computed by the JVP, or None if the JVP is not checked.
    """

    differences: Sequence[DifferenceEstimate]
    dy: Sequence[Array] | None


def differentiable(program: Program) -> list[int]:
    """Returns the positions of the outputs whose types have tangents."""
    tangent_type = program.opset.builder.tangent_type
    return [j for j, port in enumerate(program.outputs) if tangent_type(port.type) is not None]


def random_like(x: Array, generator: np.random.Generator) -> Array:
    """Returns a random array with the shape and the dtype of `x`."""
    return random_array(TensorType.of(x), generator)


def epsilon_of(dtype: "np.dtype[Any]") -> float:
    """Returns the relative rounding error of a float or complex type."""
    return float(ml_dtypes.finfo(dtype).eps)  # type: ignore[no-untyped-call]


def compared(p: Point) -> Iterator[Comparison]:
    """Yields, for each kind of comparison at a point, the worst result of all draws."""
    value = p.run(p.program)
    jvp = p.run(p.program.jvp([*p.positions])) if "fwd" in p.modes else None
    vjp = p.run(p.program.vjp([*p.positions])) if "rev" in p.modes else None
    worst: dict[str, Comparison] = {}
    for _ in range(_DRAWS):
        for comparison in _comparisons(p, value, jvp, vjp):
            known = worst.get(comparison.name)
            if known is None or comparison.excess > known.excess:
                worst[comparison.name] = comparison
    for comparison in worst.values():
        yield replace(comparison, name=p.prefix + comparison.name)


def _comparisons(p: Point, value: Call, jvp: Call | None, vjp: Call | None) -> Iterator[Comparison]:
    """Yields the comparisons for one draw of tangents and cotangents."""
    drawn, count = _draw(p, value), len(p.program.outputs)
    along = []
    for i, position in enumerate(p.positions):
        differences = derivatives(_line(p, value, position, drawn.dx[i]), p.epsilon, 1e-3 * p.rtol)
        dy = jvp(*p.arguments, *_only(i, drawn.dx))[count:] if jvp is not None else None
        along.append(_Along(differences, dy))
        where = f"along {p.program.inputs[position].name}"
        for j, tangent in enumerate(dy or ()):
            comparison = compare_elements(tangent, differences[j], drawn.y[j], p)
            name = f"tangent of {drawn.names[j]}, against central differences"
            yield replace(comparison, name=name, where=where)
    if vjp is None:
        return
    for j, ct in enumerate(drawn.ct):
        pulled = vjp(*p.arguments, *_only(j, drawn.ct))[count:]
        for i, (position, cx, dx) in enumerate(zip(p.positions, pulled, drawn.dx, strict=True)):
            name, where = f"cotangent of {p.program.inputs[position].name}", f"from {drawn.names[j]}"
            comparison = compare_products((cx, dx), ct, along[i].differences[j], drawn.y[j], p.rtol, p)
            yield replace(comparison, name=f"{name}, against central differences", where=where)
            if (dy := along[i].dy) is not None:
                exact = DifferenceEstimate(wide(dy[j]), np.zeros(dy[j].shape))
                comparison = compare_products(
                    (cx, dx), ct, exact, drawn.y[j], max(p.rtol / 100, 1e4 * p.epsilon), p
                )
                yield replace(comparison, name=f"{name}, against tangents (adjoint identity)", where=where)


def _draw(p: Point, value: Call) -> _Drawn:
    y, names = [], []
    results = value(*p.arguments)
    for j in differentiable(p.program):
        name, x = p.program.outputs[j].name, results[j]
        if x.size and not np.any(np.isfinite(wide(x))):
            raise InputError(f"{name} is not finite at these arguments; give other arguments with --input")
        y.append(x)
        names.append(name)
    at = [p.arguments[i] for i in p.positions]
    dx = [scaled(random_like(x, p.generator), x) for x in at]
    ct = [np.where(np.isfinite(wide(x)), random_like(x, p.generator), 0).astype(x.dtype) for x in y]
    return _Drawn(dx, ct, y, names)


def _line(p: Point, value: Call, position: int, dx: Array) -> Callable[[float], list[Array]]:
    """Returns a function that moves one input by `distance` times `dx`, and returns the differentiable outputs."""
    smooth = differentiable(p.program)

    def at(distance: float) -> list[Array]:
        moved = list(p.arguments)
        moved[position] = (wide(moved[position]) + distance * wide(dx)).astype(dx.dtype)
        results = value(*moved)
        return [wide(results[j]) for j in smooth]

    return at


def _only(i: int, arrays: Sequence[Array]) -> list[Array]:
    """Returns the arrays, with zeros in place of each array except array `i`."""
    return [x if i == j else np.zeros_like(x) for j, x in enumerate(arrays)]


def scaled(tangent: Array, x: Array) -> Array:
    """Multiplies a tangent by the root mean square of the finite elements of `x`.

    A step along the result is neither lost in rounding nor far from `x`.
    """
    sizes = np.abs(wide(x)[np.isfinite(wide(x))])
    size = float(np.sqrt(np.mean(sizes**2))) if sizes.size else 0.0
    return (wide(tangent) * (size if np.isfinite(size) and size else 1.0)).astype(tangent.dtype)


def compare_elements(tangent: Array, known: DifferenceEstimate, y: Array, p: Point) -> Comparison:
    """Compares the elements of a tangent with finite differences. Returns the comparison of the worst element.

    The worst element has the largest ratio of error to tolerance.
    """
    finite = np.isfinite(wide(y))
    if not np.any(finite):
        return Comparison("", 0.0, p.rtol)
    value, dy = known.value[finite], wide(tangent)[finite]
    with np.errstate(all="ignore"):
        floor = max(_SMALL * _largest(value), p.epsilon ** (1 / 3) * _largest(wide(y)[finite]))
        scale = np.maximum(np.maximum(np.abs(value), floor), np.finfo(float).tiny)
        error, uncertainty = np.abs(dy - value) / scale, known.uncertainty[finite] / scale
        tolerance = p.rtol + np.minimum(4 * uncertainty, _MARGIN * p.rtol)
        at = int(np.argmax(error / tolerance))  # argmax treats NaN as the largest
    return Comparison("", float(error[at]), float(tolerance[at]), float(uncertainty[at]))


def compare_products(
    pulled: tuple[Array, Array], ct: Array, known: DifferenceEstimate, y: Array, tolerance: float, p: Point
) -> Comparison:
    """Compares <J* ct, dx> with <ct, dy>. `pulled` is the pair J* ct and dx, and `known` is the tangent dy."""
    finite = np.isfinite(wide(y))
    back, forward = _terms(*pulled), _terms(ct[finite], known.value[finite])
    with np.errstate(all="ignore"):
        floor = p.epsilon ** (1 / 3) * _norm(wide(ct)[finite] * wide(y)[finite])
        scale = max(_norm(forward), floor, float(np.finfo(float).tiny))
        error = abs(float(np.sum(back)) - float(np.sum(forward))) / scale
        rounding = 10 * p.epsilon * float(np.sum(np.abs(back)) + np.sum(np.abs(forward)))
        uncertain = float(np.sum(np.abs(ct[finite]) * known.uncertainty[finite])) / scale
        allowed = tolerance + min(uncertain + rounding / scale, _MARGIN * tolerance)
    return Comparison("", error, allowed, uncertain)


def _terms(a: Array, b: Array) -> Array:
    """Returns the terms of the real inner product Re(sum conj(a) b)."""
    return np.asarray(np.real(np.conj(wide(a)) * wide(b)))


def _norm(x: Array) -> float:
    return float(np.sqrt(np.sum(np.abs(x) ** 2)))


def _largest(x: Array) -> float:
    return float(np.max(np.abs(x), initial=0.0))


def wide(x: Array) -> Array:
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64, copy=False)
