"""Checks the derivative rules numerically, in f64, with random tangents and cotangents.

For a program f, a point x, and every subset of the float and complex inputs, these conditions are checked:

- The primal outputs of the JVP and VJP programs equal the outputs of f.
- The JVP equals central differences of fourth order, dy = (8 (f(x+h) - f(x-h)) - (f(x+2h) - f(x-2h))) / 12h.
- The VJP agrees with the JVP by the adjoint identity Re<ct, dy> = Re<cx, dx>.
- For order two, the same conditions hold for the JVP program and the VJP program with respect to all inputs.

In the fast tests, `order_two.py` chooses the checks that include order two and proper subsets of the inputs.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.compare import compare
from harness.evidence import NOTES, Recorder
from harness.interpret import interpret_at
from harness.order_two import ORDER_TWO
from harness.xla import chosen
from tiduc.backends.reference.interpreter import evaluate
from tiduc.loading import load
from tiduc.passes.rules import OPSET
from tiduc.passes.rules.registry import OpSet
from tiduc.program import Program
from tiduc.runtime.process import Limits
from tiduc.runtime.worker import in_worker

Array = NDArray[Any]
STEP = 1e-4


def check_rule(
    text: str,
    *arguments: Any,
    order: int | None = None,
    subsets: bool = True,
    rtol: float = 1e-7,
    adjoint_rtol: float = 1e-10,
    differences: bool = True,
    jax_function: Callable[..., Any] | None = None,
    seed: int = 0,
    opset: OpSet = OPSET,
) -> None:
    """Checks the derivatives of the function `main` in a StableHLO text at a point.

    Differentiable arguments must be f64 or complex128. By default, `order` is 2 if `ORDER_TWO` chooses the check, and
    else 1. `differences=False` skips the comparison with central differences, for example at a kink. `jax_function` is
    the same function in JAX, whose derivatives are then compared too.
    """
    rng = np.random.default_rng(seed)
    recorder = Recorder.new() if opset is OPSET else None
    program, point = load(text, opset=recorder or opset), [np.asarray(x) for x in arguments]
    everything, primal = active(point), run(program, point)
    derived = _check(program, point, everything, rng, rtol, adjoint_rtol, differences, "order 1", primal)
    is_due = recorder is None or ORDER_TWO.is_due(recorder, [p for p, *_ in derived])
    if subsets and (is_due or (order or 1) > 1):
        for wrt in itertools.chain.from_iterable(
            itertools.combinations(everything, n) for n in range(1, len(everything))
        ):
            _check(program, point, wrt, rng, rtol, adjoint_rtol, differences, "order 1", primal)
    order = order or (2 if is_due else 1)
    if recorder is not None:
        NOTES.checked(recorder, order)
    for further in range(2, order + 1):  # derivatives with respect to all inputs
        checked, derived, label = derived, [], f"order {further}"
        for p, x, results in checked:
            derived += _check(p, x, active(x), rng, rtol, adjoint_rtol, differences, label, results)
    if jax_function is not None:
        _check_jax(program, point, rng, jax_function, rtol)


def run(program: Program, point: Sequence[Array]) -> tuple[Array, ...]:
    """Runs a program on the reference interpreter, or on XLA or IREE if the interpreter cannot run an op."""
    text = str(program)
    return (chosen(text) or evaluate)(text, point)


def run_at(program: Program, points: Sequence[Sequence[Array]]) -> Sequence[tuple[Array, ...]]:
    """Runs a program at several points, with a single call of the reference interpreter's process."""
    text = str(program)
    by_compiler = chosen(text)
    if by_compiler is None:
        return in_worker(interpret_at, Limits(), text, points)
    return [by_compiler(text, point) for point in points]


def active(point: Sequence[Array]) -> list[int]:
    """Returns the positions of the float and complex arguments."""
    return [i for i, x in enumerate(point) if np.asarray(x).dtype.kind in "fc"]


def like(x: Array, rng: np.random.Generator) -> Array:
    """Draws an array with the shape of x from the standard normal distribution. It is complex if x is complex."""
    x = np.asarray(x)
    value = rng.standard_normal(x.shape)
    return value + 1j * rng.standard_normal(x.shape) if x.dtype.kind == "c" else np.asarray(value)


def inner(a: Sequence[Array], b: Sequence[Array]) -> float:
    """Returns the real inner product Re(sum conj(a) b)."""
    return float(sum(np.sum(np.conj(x) * y).real for x, y in zip(a, b, strict=True)))


def difference(
    program: Program, point: Sequence[Array], wrt: Sequence[int], dx: Sequence[Array], step: float = STEP
) -> list[Array]:
    """Computes central differences of fourth order of the program's float and complex outputs in the direction `dx`."""

    def moved(distance: float) -> list[Array]:
        x = list(point)
        for i, tangent in zip(wrt, dx, strict=True):
            x[i] = x[i] + distance * tangent
        return x

    points = [moved(distance) for distance in (step, -step, 2 * step, -2 * step)]
    values = [[y for y in results if y.dtype.kind in "fc"] for results in run_at(program, points)]
    return [(8 * (a - b) - (c - d)) / (12 * step) for a, b, c, d in zip(*values, strict=True)]


def _check(
    program: Program,
    point: list[Array],
    wrt: Sequence[int],
    rng: np.random.Generator,
    rtol: float,
    adjoint_rtol: float,
    differences: bool,
    order: str,
    primal: Sequence[Array],
) -> list[tuple[Program, list[Array], tuple[Array, ...]]]:
    """Checks the derivatives of a program with respect to the inputs `wrt`.

    `primal` are the program's results at the point. Returns the JVP and VJP programs, each with its arguments and
    results.
    """
    floats = [y for y in primal if y.dtype.kind in "fc"]
    # A compiler may round the primal outputs differently in a derivative.
    rounding = 0 if chosen(str(program)) is None else 1e-13
    label = f"{order}, wrt {wrt}"
    dx, ct = [like(point[i], rng) for i in wrt], [like(y, rng) for y in floats]
    forward, backward = program.jvp(list(wrt)), program.vjp(list(wrt))
    jvp, vjp = run(forward, [*point, *dx]), run(backward, [*point, *ct])
    for actual in (jvp[: len(primal)], vjp[: len(primal)]):
        compare(actual, primal, rounding, f"primal, {label}")
    dy, cx = jvp[len(primal) :], vjp[len(primal) :]
    if differences:
        compare(dy, difference(program, point, wrt, dx), rtol, f"jvp, {label}")
    left, right = inner(ct, dy), inner(cx, dx)
    scale = max([1.0, *(float(np.max(np.abs(v))) for v in (*dy, *cx) if v.size)])
    assert np.isfinite(left) and np.isfinite(right), f"not finite, {label}"
    assert abs(left - right) <= adjoint_rtol * scale * 10, f"adjoint, {label}: {left} {right}"
    return [(forward, [*point, *dx], jvp), (backward, [*point, *ct], vjp)]


def _check_jax(
    program: Program, point: list[Array], rng: np.random.Generator, function: Callable[..., Any], rtol: float
) -> None:
    """Compares the derivatives with `jax.jvp` and `jax.vjp`.

    Complex cotangents of JAX are the conjugates of those of tiduc.
    """
    import jax

    wrt = active(point)

    def of_active(*some: Any) -> list[Any]:
        full: list[Any] = list(point)
        for i, x in zip(wrt, some, strict=True):
            full[i] = x
        y = function(*full)
        return list(y) if isinstance(y, tuple | list) else [y]

    @jax.jit  # otherwise, JAX would compile each op separately
    def derivatives(some: Any, dx: Any, ct: Any) -> tuple[Any, Any]:
        return jax.jvp(of_active, some, dx)[1], jax.vjp(of_active, *some)[1](ct)

    some = [point[i] for i in wrt]
    dx = [like(x, rng) for x in some]
    with jax.enable_x64(True):
        ct = [like(np.zeros(y.shape, y.dtype), rng) for y in jax.eval_shape(of_active, *some)]
        dy, cx = derivatives(some, dx, [np.conj(c) for c in ct])
    count = len(program.outputs)
    compare(run(program.jvp(wrt), [*point, *dx])[count:], dy, rtol, "jvp against JAX")
    compare(run(program.vjp(wrt), [*point, *ct])[count:], map(np.conj, cx), rtol, "vjp against JAX")
