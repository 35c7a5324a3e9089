"""check: whether a program's derivatives agree with finite differences, with each other, with stored ones.

JVP            J dx  =  (f(x + h dx) - f(x - h dx)) / 2h            along a random tangent dx
VJP            <ct, J dx>  =  <J* ct, dx>                           for a random cotangent ct
stored         the gradient, JVP and Hessian-vector product that another program, such as JAX, computed
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from tiduc.dialect.errors import InputError, RequestError
from tiduc.ports import Port
from tiduc.program import Program
from tiduc.runtime.arrays import Array, random_array
from tiduc.runtime.checks import checked
from tiduc.runtime.signature import TensorType

Run = Callable[[Program], Callable[..., Sequence[Array]]]
"""How a program is run: what an engine makes of it is called with arrays."""


@dataclass(frozen=True)
class Comparison:
    """One comparison: what was compared, by how much it differs, and by how much it may."""

    name: str
    difference: float
    allowed: float

    @property
    def agrees(self) -> bool:
        return self.difference <= self.allowed  # False where the difference is no number


def check(
    program: Program,
    arguments: Sequence[Array],
    run: Run,
    wrt: Sequence[int | str] | None = None,
    expected: Mapping[str, Array] | None = None,
    seed: int = 0,
) -> Iterator[Comparison]:
    """The comparisons, one by one as they are made.

    `expected` holds `loss`, `grad.i`, `jvp`, `hvp.i` and `tangent.i`, where i is the position of an input.
    `InputError` where `arguments` are not the program's.
    """
    inputs = program.signature.inputs
    if len(arguments) != len(inputs):
        raise InputError(f"{program.name} takes {len(inputs)} arguments, got {len(arguments)}")
    arguments = [checked(x, value, i) for i, (x, value) in enumerate(zip(arguments, inputs, strict=True))]
    positions = [program.inputs.index(port) for port in program.differentiated(wrt)]
    if not positions:
        raise RequestError("no input has a derivative")
    yield from _own(program, arguments, run, positions, np.random.default_rng(seed))
    if expected is not None:
        yield from _stored(program, arguments, run, positions, expected)


def _own(
    program: Program,
    arguments: Sequence[Array],
    run: Run,
    positions: list[int],
    generator: np.random.Generator,
) -> Iterator[Comparison]:
    """The JVP against central differences, the VJP against the JVP."""
    # A tangent of its input's size, so that a step is neither lost in the input nor far from it.
    dx = [_scaled(random_array(_type(program.inputs[i]), generator), arguments[i]) for i in positions]
    jvp = run(program.jvp(positions))
    names = [port.name for port in program.outputs]
    outputs = jvp(*arguments, *dx)
    y, dy = outputs[: len(names)], outputs[len(names) :]
    smooth = [i for i, x in enumerate(y) if _is_smooth(x.dtype)]
    epsilon = max(_epsilon(x.dtype) for x in [*dx, *dy])
    differences = [
        _difference(jvp, arguments, positions, dx, step * epsilon ** (1 / 3)) for step in (4, 1, 0.25)
    ]
    for i, tangent in zip(smooth, dy, strict=True):
        # Of the steps, the one that suits this function best: each alone may be too long or too short.
        error = min(_largest(difference[i] - _wide(tangent)) for difference in differences)
        noise = 40 * epsilon ** (2 / 3) * _largest(y[i])
        allowed = 1e3 * epsilon ** (2 / 3) * _largest(tangent) + noise
        yield Comparison(f"tangent of {names[i]}, against central differences", error, allowed)
    ct = [random_array(TensorType.of(tangent), generator) for tangent in dy]
    cx = run(program.vjp(positions))(*arguments, *ct)[len(names) :]
    forward = [_inner(a, b) for a, b in zip(ct, dy, strict=True)]
    backward = [_inner(a, b) for a, b in zip(cx, dx, strict=True)]
    size = sum(s for _, s in forward + backward)
    difference = abs(sum(v for v, _ in forward) - sum(v for v, _ in backward))
    yield Comparison("cotangents, against tangents (adjoint identity)", difference, 1e4 * epsilon * size)


def _stored(
    program: Program,
    arguments: Sequence[Array],
    run: Run,
    positions: list[int],
    expected: Mapping[str, Array],
) -> Iterator[Comparison]:
    """Derivatives against the stored ones."""
    described = {f"grad.{i}": (i, f"gradient in {program.inputs[i].name}") for i in positions}
    if not any(key in expected for key in described):
        raise InputError(f"no derivatives to compare with: expects arrays named {', '.join(described)}")
    value, *gradient = run(program.grad(positions, value=True))(*arguments)
    if "loss" in expected:
        yield _against("value, against loss", value, expected["loss"])
    for (key, (_, name)), cx in zip(described.items(), gradient, strict=True):
        if key in expected:
            yield _against(f"{name}, against {key}", cx, expected[key])
    tangents = [expected.get(f"tangent.{i}") for i in positions]
    stored = {int(key.removeprefix("tangent.")) for key in expected if key.startswith("tangent.")}
    if any(x is None for x in tangents) or stored != set(positions):
        return  # what was stored is along other tangents
    if "jvp" in expected:
        _, dy = run(program.jvp(positions))(*arguments, *tangents)
        yield _against("directional derivative, against jvp", dy, expected["jvp"])
    if any(f"hvp.{i}" in expected for i in positions):
        products = run(program.hvp(positions))(*arguments, *tangents)
        for i, product in zip(positions, products, strict=True):
            if f"hvp.{i}" in expected:
                name = f"Hessian times tangent, rows of {program.inputs[i].name}"
                yield _against(f"{name}, against hvp.{i}", product, expected[f"hvp.{i}"])


def _against(name: str, ours: Array, theirs: Array) -> Comparison:
    if ours.shape != theirs.shape:
        raise InputError(f"{name}: the shape is {ours.shape}, the stored one {theirs.shape}")
    # Relative to the largest entry; f64 is compared with numbers that were rounded on another path.
    tolerance = max(1e-10, 1e2 * _epsilon(ours.dtype))
    return Comparison(name, _largest(_wide(ours) - _wide(theirs)), tolerance * _largest(theirs))


def _difference(
    jvp: Callable[..., Sequence[Array]],
    arguments: Sequence[Array],
    positions: list[int],
    dx: list[Array],
    h: float,
) -> list[Any]:
    """The central difference of each output along dx."""
    outputs = []
    for step in (h, -h):
        moved = list(arguments)
        for i, tangent in zip(positions, dx, strict=True):
            moved[i] = (_wide(arguments[i]) + step * _wide(tangent)).astype(tangent.dtype)
        outputs.append(jvp(*moved, *dx))
    return [
        (_wide(after) - _wide(before)) / (2 * h) if _is_smooth(after.dtype) else None
        for after, before in zip(*outputs, strict=True)
    ]


def _scaled(tangent: Array, x: Array) -> Array:
    size = float(np.sqrt(np.mean(np.abs(_wide(x)) ** 2))) if x.size else 0.0
    return (_wide(tangent) * (size if np.isfinite(size) and size else 1.0)).astype(tangent.dtype)


def _type(port: Port) -> TensorType:
    return TensorType.parse(str(port.type).removeprefix("tensor<").removesuffix(">").split(",")[0])


def _is_smooth(dtype: "np.dtype[Any]") -> bool:
    return dtype.kind in "fcV" and dtype != np.bool_


def _epsilon(dtype: "np.dtype[Any]") -> float:
    return float(ml_dtypes.finfo(dtype).eps)  # type: ignore[no-untyped-call]


def _wide(x: Array) -> Array:
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def _largest(x: Array) -> float:
    return float(np.max(np.abs(_wide(np.asarray(x))), initial=0.0))


def _inner(a: Array, b: Array) -> tuple[float, float]:
    """Re(sum conj(a) b), and the sum of the terms' sizes, which bounds its rounding."""
    terms = np.real(np.conj(_wide(a)) * _wide(b))
    return float(np.sum(terms)), float(np.sum(np.abs(terms)))
