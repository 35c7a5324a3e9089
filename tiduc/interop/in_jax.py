"""A program as a JAX primitive, whose JVP, transpose and batching rules call programs that tiduc derives.

jvp         bind(x; f)                ->   bind(x, dx; tangents of f), linear in dx
transpose   bind(x, dx; g), dx linear ->   bind(x, 0, ct; cotangents of g with respect to dx)
batch       bind(x; f)                ->   bind(x; f.batch(axes, size))
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from numpy.typing import NDArray

from tiduc.dialect.errors import InputError
from tiduc.interop.derived import arguments_of, batched, cotangents, differentiable_outputs, tangents
from tiduc.ports import described
from tiduc.program import Program

call = Primitive("tiduc_call")
call.multiple_results = True


def function(program: Program) -> Callable[..., Any]:
    """A JAX function that calls the program. The function raises the errors of `Program.__call__`."""

    def run(*arguments: "jax.Array", **named: "jax.Array") -> Any:
        operands = arguments_of(program, arguments, named)
        results = call.bind(*map(jax.numpy.asarray, operands), program=program)
        return results[0] if len(results) == 1 else tuple(results)

    run.__name__ = program.name
    return run


def _types(program: Program) -> list[Any]:
    """The shapes and dtypes of the outputs."""
    types = [described(port).type for port in program.outputs]
    return [jax.ShapeDtypeStruct(type_.shape, type_.dtype) for type_ in types]


@call.def_abstract_eval
def _abstract(*avals: "jax.core.ShapedArray", program: Program) -> list[Any]:
    inputs = [described(port) for port in program.inputs]
    if len(avals) != len(inputs):
        raise InputError(f"{program.name} takes {len(inputs)} arguments, got {len(avals)}")
    for i, (x, value) in enumerate(zip(avals, inputs, strict=True)):
        if x.dtype != value.type.dtype or not value.type.accepts(x.shape):
            raise InputError(
                f"argument {i} ({value.name}): expected {value.type}, got {x.dtype}{list(x.shape)}"
            )
    return [jax.core.ShapedArray(type_.shape, type_.dtype) for type_ in _types(program)]


def _by_callback(*arguments: "jax.Array", program: Program) -> list[Any]:
    def run(*arrays: "jax.Array") -> list[NDArray[Any]]:
        return list(program.on("cpu").compiled(*map(np.asarray, arrays)))

    results: list[Any] = jax.pure_callback(run, _types(program), *arguments)
    return results


@call.def_impl
def _run(*arguments: "jax.Array", program: Program) -> list[Any]:
    _abstract(*map(jax.typeof, arguments), program=program)  # outside `jax.jit`, JAX does not check the types
    return [jax.numpy.asarray(y) for y in program.on("cpu").compiled(*map(np.asarray, arguments))]


mlir.register_lowering(call, mlir.lower_fun(_by_callback, multiple_results=True))


def _jvp(
    primals: Sequence["jax.Array"], given: Sequence["jax.Array"], program: Program
) -> tuple[Any, list[Any]]:
    results = call.bind(*primals, program=program)
    active = [i for i, dx in enumerate(given) if not isinstance(dx, ad.Zero)]
    out: list[Any] = [ad.Zero(jax.typeof(y).to_tangent_aval()) for y in results]
    if active:
        linear = tangents(program, tuple(active))
        dy = call.bind(*primals, *(given[i] for i in active), program=linear)
        for i, each in zip(differentiable_outputs(program), dy, strict=True):
            out[i] = each
    return results, out


def _transpose(cts: Sequence["jax.Array"], *arguments: "jax.Array", program: Program) -> list[Any]:
    linear = tuple([i for i, x in enumerate(arguments) if ad.is_undefined_primal(x)])
    at = [jax.numpy.zeros(x.aval.shape, x.aval.dtype) if ad.is_undefined_primal(x) else x for x in arguments]
    seeds = [ad.instantiate_zeros(cts[i]) for i in differentiable_outputs(program)]
    results = iter(call.bind(*at, *seeds, program=cotangents(program, linear, True)))
    return [next(results) if i in linear else None for i in range(len(arguments))]


def _batch(
    arguments: Sequence["jax.Array"], axes: Sequence[int | None], program: Program
) -> tuple[Any, list[int]]:
    where = tuple(axes)  # None for an argument that is not batched
    size = next(x.shape[axis] for x, axis in zip(arguments, where, strict=True) if axis is not None)
    results = call.bind(*arguments, program=batched(program, where, size))
    return results, [0] * len(results)


ad.primitive_jvps[call] = _jvp
ad.primitive_transposes[call] = _transpose
batching.primitive_batchers[call] = _batch
