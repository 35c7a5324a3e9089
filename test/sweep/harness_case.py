"""Makes a case of a JAX harness, and compares tiduc's derivatives of this case with JAX's. XLA runs both.

At order two, VJPs are differentiated: tiduc differentiates its own VJP program, and JAX its own VJP function.
"""

import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from expectations import OBSERVED

Array = Any

LOW_PRECISION = ("bfloat16", "float16")
TOLERANCE = {"bfloat16": 4e-2, "float16": 5e-3, "float32": 5e-4, "complex64": 5e-4}
TOLERANCE |= {"float64": 1e-8, "complex128": 1e-8}
WIDER = {name: np.float64 for name in (*LOW_PRECISION, "float32")} | {"complex64": np.complex128}
SMALLEST_SCALE = 1e-3  # errors are relative to the largest element or, if that is smaller, to this number


@dataclass(frozen=True)
class Case:
    """A function of arrays, the point at which it is differentiated, and the tangents and cotangents.

    `text` is its StableHLO program, `active` are the positions of its differentiable arguments, and `results` is the
    number of its results.
    """

    function: Callable[..., list[Array]]
    point: list[Array]
    text: str
    active: list[int]
    results: int
    dx: list[Array]
    ct: list[Array]

    def of_active(self, *some: Array) -> list[Array]:
        """Returns the differentiable results for the differentiable arguments `some`.

        The other arguments are those of `point`.
        """
        arguments = list(self.point)
        for i, x in zip(self.active, some, strict=True):
            arguments[i] = x
        return [y for y in self.function(*arguments) if differentiable(y)]


class NotApplicable(Exception):
    """Raised if a harness has nothing to differentiate."""


class Wrong(Exception):
    """Raised if a value or derivative differs."""


class Undecided(Exception):
    """Raised if there are no expected results."""


def differentiable(x: Array) -> bool:
    import jax.numpy as jnp

    return bool(jnp.issubdtype(x.dtype, jnp.inexact))


def random_like(x: Array, rng: Any) -> Array:
    value = rng.standard_normal(x.shape)
    if np.dtype(x.dtype).kind == "c":
        value = value + 1j * rng.standard_normal(x.shape)
    return np.asarray(value).astype(x.dtype)


def case_of(harness: Any, wide: bool = False) -> Case:
    """Makes a case of a harness. With `wide`, its arguments are in double precision."""
    import jax

    rng = np.random.RandomState(zlib.crc32(harness.fullname.encode()))
    leaves, tree = jax.tree_util.tree_flatten(harness.dyn_args_maker(rng))
    if any(jax.dtypes.issubdtype(getattr(x, "dtype", np.bool_), jax.dtypes.extended) for x in leaves):
        raise NotApplicable("takes random keys")
    point = [np.asarray(x) for x in leaves]
    if wide:
        point = in_double(point)

    def function(*flat: Array) -> list[Array]:
        result = harness.dyn_fun(*jax.tree_util.tree_unflatten(tree, flat))
        results = jax.tree_util.tree_leaves(result)
        observed = [function for pattern, function in OBSERVED if re.search(pattern, harness.fullname)]
        return observed[0](*results) if observed else results

    jitted = jax.jit(function, keep_unused=True)
    active = [i for i, x in enumerate(point) if differentiable(x)]
    if not active:
        raise NotApplicable("no float inputs")
    lowered = jitted.lower(*point)
    results = jax.tree_util.tree_leaves(lowered.out_info)
    dx = [random_like(point[i], rng) for i in active]
    ct = [random_like(y, rng) for y in results if differentiable(y)]
    if not ct:
        raise NotApplicable("no float outputs")
    return Case(jitted, point, lowered.as_text(), active, len(results), dx, ct)


def in_double(arrays: Sequence[Array]) -> list[Array]:
    """Converts the arrays to double precision. Arrays of integers do not change."""
    return [x.astype(WIDER.get(x.dtype.name, x.dtype)) for x in arrays]


def of_vjp(case: Case) -> Case:
    """Returns the case of order two: its function is JAX's VJP of `case`, and its program is tiduc's VJP of `case`."""
    import jax

    from tiduc.loading import load

    count, rng = len(case.point), np.random.RandomState(len(case.text))

    def function(*flat: Array) -> list[Array]:
        def of_active(*some: Array) -> list[Array]:
            return replace(case, point=list(flat[:count])).of_active(*some)

        cotangents = jax.vjp(of_active, *(flat[i] for i in case.active))[1](list(flat[count:]))
        return [*case.function(*flat[:count]), *cotangents]

    point = [*case.point, *case.ct]
    try:
        results = jax.tree_util.tree_leaves(jax.jit(function).lower(*point).out_info)
    except Exception as error:  # JAX raises errors of many types here
        raise NotApplicable("JAX has no VJP of the function") from error
    active = [*case.active, *range(count, len(point))]
    return Case(
        jax.jit(function),
        point,
        str(load(case.text).vjp(case.active, conjugate=True)),
        active,
        len(results),
        [random_like(point[i], rng) for i in active],
        [random_like(y, rng) for y in results if differentiable(y)],
    )


def derivatives(case: Case) -> tuple[str, str]:
    """Returns the StableHLO texts of tiduc's JVP and VJP. CHLO ops are lowered to StableHLO."""
    from tiduc.loading import load

    program = load(case.text)
    return legal(str(program.jvp(case.active))), legal(str(program.vjp(case.active, conjugate=True)))


def legal(text: str) -> str:
    from tiduc.dialect.mlir.context import parse, run_passes

    module = parse(text)
    run_passes(module.operation, "builtin.module(func.func(chlo-legalize-to-stablehlo))")
    return str(module)


def execute(text: str, arguments: Sequence[Array]) -> list[Array]:
    """Compiles a StableHLO module with XLA for the CPU, and returns the results of a call."""
    import jax

    return [np.asarray(x) for x in compiled(text).execute([jax.device_put(x) for x in arguments])]


@cache
def compiled(text: str) -> Any:
    import jax
    from jax._src.lib import _jax

    device = jax.devices("cpu")[0]
    return device.client.compile_and_load(text, _jax.DeviceList((device,)), _jax.CompileOptions())


def compare(actual: Sequence[Array], expected: Sequence[Array], label: str, tolerance: float = 0) -> None:
    """Raises `Wrong` unless the arrays agree. Infinities and NaN must be at the same positions."""
    assert len(actual) == len(expected), f"{label}: {len(actual)} results, expects {len(expected)}"
    for i, (x, y) in enumerate(zip(actual, expected, strict=True)):
        x, y = np.asarray(x), np.asarray(y)
        assert (x.shape, x.dtype) == (y.shape, y.dtype), (
            f"{label} {i}: {x.dtype}{x.shape}, {y.dtype}{y.shape}"
        )
        limit = tolerance or TOLERANCE[y.dtype.name]
        if y.dtype.name in LOW_PRECISION:
            x, y = in_double([x, y])
        x, y = np.atleast_1d(x), np.atleast_1d(y)
        finite = np.isfinite(y)
        same = finite | (x == y) | (np.isnan(x) & np.isnan(y))
        if not np.all(same):
            where = tuple(int(k) for k in np.argwhere(~same)[0])
            raise Wrong(f"{label} {i}: {np.sum(~same)} of {x.size} not as JAX's: {x[where]}, not {y[where]}")
        if not np.any(finite):
            continue
        scale = max(SMALLEST_SCALE, float(np.max(np.abs(y[finite]))))
        error = float(np.max(np.abs(x[finite] - y[finite]))) / scale
        if not error <= limit:
            where = tuple(
                int(k) for k in np.unravel_index(np.argmax(np.where(finite, abs(x - y), 0)), x.shape)
            )
            raise Wrong(f"{label} {i}: error {error:.1e}: {x[where]}, not {y[where]}, at {where}")


def of_jax(case: Case) -> tuple[list[Array] | None, list[Array] | None]:
    """Returns the tangents and the cotangents that JAX computes. Either is None if JAX cannot compute it."""
    import jax

    def tangents(x: Any, dx: Any, ct: Any) -> Any:
        return jax.jvp(case.of_active, x, dx)[1]

    def cotangents(x: Any, dx: Any, ct: Any) -> Any:
        return list(jax.vjp(case.of_active, *x)[1](ct))

    def both(*of: Any) -> Any:
        return tangents(*of), cotangents(*of)

    def attempt(function: Any) -> Any:
        try:
            return jax.jit(function)([case.point[i] for i in case.active], case.dx, case.ct)
        except Exception:  # JAX raises errors of many types here
            return None

    return attempt(both) or (attempt(tangents), attempt(cotangents))


def check_values(case: Case, texts: tuple[str, str]) -> str:
    """Compares tiduc's derivatives with JAX's. Returns the derivatives that JAX has: "both", "jvp", "vjp" or "none"."""
    primal = case.of_active(*(case.point[i] for i in case.active))
    jvp = execute(texts[0], [*case.point, *case.dx])
    vjp = execute(texts[1], [*case.point, *case.ct])
    for some, label in ((jvp, "primal of jvp"), (vjp, "primal of vjp")):
        compare([y for y in some[: case.results] if differentiable(y)], primal, label)
    dy, cx = of_jax(case)
    if dy is not None:
        compare(jvp[case.results :], dy, "tangent")
    if cx is not None:
        compare(vjp[case.results :], cx, "cotangent")
    return names_of(dy, cx)


def names_of(dy: Any, cx: Any) -> str:
    names = [name for name, has in (("jvp", dy is not None), ("vjp", cx is not None)) if has]
    return {2: "both", 1: names[0] if names else "", 0: "none"}[len(names)]
