"""Exports functions from JAX for CPU, CUDA and TPU.

CPU functions replace the custom calls of exports for CUDA and TPU, so that tests can run the programs.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax import export, lax
from jax import numpy as jnp

from harness.check_rule import inner, like
from harness.xla import by_xla
from tiduc.loading import load

CALL = re.compile(r"stablehlo\.custom_call @(\w+)\((%\w+)\) \{(.*)\} : \(tensor<((?:\d+x)*)(\S+)>\) -> (.*)")
"""Matches a custom call with one operand.

The groups are the target, the operand, the attributes, the operand's sizes and element type, and the result types.
"""

RNG = np.random.default_rng(0)

DTYPES = {"f64": np.float64, "complex<f64>": np.complex128}


def random(*sizes: int, complex_: bool = False) -> Any:
    """Draws an array from the standard normal distribution, in f64 or complex128."""
    x = RNG.standard_normal(sizes)
    return x + 1j * RNG.standard_normal(sizes) if complex_ else x


def exported(function: Callable[..., Any], *arguments: Any, platform: str = "cpu") -> str:
    """Returns the StableHLO text that JAX exports for a function and arguments of these types."""
    with jax.enable_x64(True):
        traced = jax.jit(function, keep_unused=True).trace(*arguments)
        return str(traced.lower(lowering_platforms=(platform,)).as_text())


def exported_dynamic(function: Callable[..., Any], *shapes: str, dtype: Any = np.float64) -> str:
    """Returns the StableHLO text that JAX exports for a function and arguments with dynamic sizes.

    Shapes are strings such as `(n, 3)`.
    """
    scope = export.SymbolicScope()
    with jax.enable_x64(True):
        sizes = [export.symbolic_shape(shape, scope=scope) for shape in shapes]
        arguments = [jax.ShapeDtypeStruct(shape, dtype) for shape in sizes]
        return str(export.export(jax.jit(function))(*arguments).mlir_module())


def flat(function: Callable[..., Any]) -> Callable[..., tuple[Any, ...]]:
    """Returns a function that calls `function` and returns the float and complex outputs as a tuple."""

    def call(*arguments: Any) -> tuple[Any, ...]:
        results = jax.tree.leaves(function(*(jax.numpy.asarray(x) for x in arguments)))
        return tuple(y for y in results if np.issubdtype(y.dtype, np.inexact))

    return call


def floats(arguments: Sequence[Any]) -> list[int]:
    """Returns the positions of the float and complex arguments."""
    return [i for i, x in enumerate(arguments) if np.issubdtype(np.asarray(x).dtype, np.inexact)]


def with_stand_ins(text: str) -> str:
    """Returns the program with CPU functions in place of the custom calls in `STAND_INS`."""
    functions = []

    def call(match: re.Match[str]) -> str:
        target, operand, attributes, sizes, element, results = match.groups()
        if target not in STAND_INS:
            return match[0]
        x = jax.ShapeDtypeStruct([int(n) for n in sizes.split("x")[:-1]], DTYPES[element])
        body = str(load(exported(lambda a: STAND_INS[target](a, attributes), x)))  # `load` inlines the calls
        name = f"{target}_{len(functions)}"
        body = body[body.index("func.func @main") : body.rindex("}")]
        functions.append(body.replace("@main", f"private @{name}"))
        return f"func.call @{name}({operand}) : (tensor<{sizes}{element}>) -> {results}"

    text = CALL.sub(call, text)
    end = text.rindex("}")
    return text[:end] + "\n".join(functions) + text[end:]


def check_platform(function: Callable[..., Any], x: Any, platform: str, on_cpu: Any = None) -> None:
    """Compares the derivatives of a JAX export for another platform with JAX's derivatives on the CPU.

    If the other platform uses another algorithm, `on_cpu` is a function with this algorithm that JAX runs on the CPU.
    """
    rng, on_cpu = np.random.default_rng(1), on_cpu or function
    program = load(exported(function, x, platform=platform))
    with jax.enable_x64(True):
        dx = like(x, rng)
        primals, tangents = jax.jvp(jax.jit(on_cpu), (x,), (dx,))
        pairs = list(zip(jax.tree.leaves(primals), jax.tree.leaves(tangents), strict=True))
        dy = [np.asarray(tangent) for primal, tangent in pairs if primal.dtype.kind in "fc"]
    count, ct = len(program.outputs), [like(y, rng) for y in dy]
    jvp, vjp = (
        by_xla(with_stand_ins(str(p)), [x, *more]) for p, more in ((program.jvp(), [dx]), (program.vjp(), ct))
    )
    for actual, expected in zip(jvp[count:], dy, strict=True):
        np.testing.assert_allclose(actual, expected, atol=1e-11 * max(1, np.max(np.abs(expected))))
    np.testing.assert_allclose(inner(vjp[count:], [dx]), inner(ct, jvp[count:]), rtol=1e-10)


def _info(x: Any) -> Any:
    return jnp.zeros(x.shape[:-2], np.int32)


def _eigh(x: Any, lower: bool) -> Any:
    v, w = lax.linalg.eigh(x, lower=lower, symmetrize_input=False)
    return v, w


def _svd(x: Any, full: bool, of_v: bool, vectors: bool, transposed: bool = False) -> Any:
    u, s, vh = jnp.linalg.svd(x, full_matrices=full)
    if of_v:
        vh = jnp.conj(jnp.swapaxes(vh, -1, -2))
    if not vectors:
        u, vh = (jnp.full_like(y, jnp.nan) if of_v else jnp.array(jnp.nan, y.dtype) for y in (u, vh))
    return (x, s, vh, u, _info(x)) if transposed else (x, s, u, vh, _info(x))


def _eig(x: Any, vectors: bool) -> Any:
    w, v = lax.linalg.eig(x, compute_left_eigenvectors=False)
    if not jnp.iscomplexobj(x):  # two columns hold the real and imaginary parts of a conjugate pair
        v = jnp.where(jnp.imag(w)[..., None, :] < 0, -jnp.imag(v), jnp.real(v))
    none = jnp.full_like(x, jnp.nan)
    return x, w, none, v if vectors else none, _info(x)


STAND_INS: dict[str, Callable[[Any, str], Any]] = {
    "Eigh": lambda x, a: _eigh(x, '"1,' in a),
    "cusolver_syevd_ffi": lambda x, a: (*_eigh(x, "lower = true" in a), _info(x)),
    "cusolver_gesvdj_ffi": lambda x, a: _svd(x, "full_matrices = true" in a, True, "compute_uv = true" in a),
    "cusolver_gesvdp_ffi": lambda x, a: _svd(x, "full_matrices = true" in a, True, "compute_uv = true" in a),
    "cusolver_gesvd_ffi": lambda x, a: _svd(
        x, "full_matrices = true" in a, False, "compute_uv = true" in a, "transposed = true" in a
    ),
    "cusolver_geev_ffi": lambda x, a: _eig(x, "right = true" in a),
}
"""Maps each target to a function that computes the results of the custom call.

The arguments of the function are the operand and the text of the attributes. Results that it does not compute are NaN.
"""
