"""check: compares a program's derivatives with finite differences, with each other, and with stored derivatives.

    forward        J dx  =  df(x + h dx) / dh                     along a random tangent dx of each input
    reverse        <J* ct, dx>  =  <ct, df(x + h dx) / dh>        for a random cotangent ct of each output
    adjoint        <J* ct, dx>  =  <ct, J dx>
    order two      the comparisons above for the JVP and the VJP as programs
    stored         the gradient, JVP and Hessian-vector product that another program, such as JAX, computed

The program is first widened to f64 (`passes/widen.py`), because rounding errors in f64 are far smaller than the error
of a wrong rule.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from tiduc.checking.comparisons import (
    Comparison,
    Point,
    Run,
    compared,
    differentiable,
    epsilon_of,
    random_like,
)
from tiduc.dialect.errors import InputError, RequestError
from tiduc.dialect.mlir.context import stage
from tiduc.passes.importing.import_stablehlo import clone
from tiduc.passes.widen import widen
from tiduc.program import Program, from_module
from tiduc.runtime.arrays import Array
from tiduc.runtime.checks import check_count, checked

DTYPES = ("f64", "as-is")
MODES = ("fwd", "rev")


def check(
    program: Program,
    arguments: Sequence[ArrayLike],
    run: Run = Program.compile,
    wrt: Sequence[int | str] | None = None,
    expected: Mapping[str, Array] | None = None,
    seed: int = 0,
    *,
    order: int = 1,
    rtol: float | None = None,
    dtype: str = "f64",
    modes: Sequence[str] = MODES,
) -> Iterator[Comparison]:
    """Compares the derivatives of a program at a point. Yields each comparison as soon as it is computed.

    With `dtype` "as-is" the program keeps its element types. `modes` are the derivatives to check, "fwd" and "rev".
    Choose "rev" alone for a program that defines its own derivative as a VJP. With `order` 2, the derivatives of the
    JVP and of the VJP are checked too, with respect to primals and to tangents or cotangents. `rtol` is the tolerance
    of comparisons with finite differences; by default 1e-6 in f64, and more in narrower types.

    `expected` holds `loss`, `grad.i`, `jvp`, `hvp.i` and `tangent.i`, where i is the position of an input. These arrays
    are compared with derivatives of the original program, which is not widened. Raises `InputError` if `arguments` do
    not match the program's inputs. Raises `RequestError` for an unknown mode, dtype or order, and if no input is
    differentiable.
    """
    if order not in (1, 2):
        raise RequestError(f"invalid modes, dtype or order: {order}")
    point = point_of(program, arguments, run, wrt, seed, rtol=rtol, dtype=dtype, modes=modes)
    for each in (point, *(_derived(point, mode) for mode in modes if order > 1)):
        yield from compared(each)
    if expected is not None:
        inputs = zip(point.arguments, program.signature.inputs, strict=True)
        narrow = [x.astype(v.type.dtype) for x, v in inputs]
        yield from _stored(program, narrow, run, [*point.positions], expected)


def point_of(
    program: Program,
    arguments: Sequence[ArrayLike],
    run: Run = Program.compile,
    wrt: Sequence[int | str] | None = None,
    seed: int = 0,
    *,
    rtol: float | None = None,
    dtype: str = "f64",
    modes: Sequence[str] = MODES,
) -> Point:
    """Returns the point at which `check` compares derivatives. The parameters and errors are those of `check`."""
    if not modes or not set(modes) <= set(MODES) or dtype not in DTYPES:
        raise RequestError(f"invalid modes, dtype or order: {list(modes)}, {dtype!r}")
    positions = [program.inputs.index(port) for port in program.differentiated(wrt)]
    if not positions:
        raise RequestError("no input is differentiable")
    wide = in_double(program) if dtype == "f64" else program
    given = _accepted(program, wide, arguments)
    epsilon = max(epsilon_of(given[i].dtype) for i in positions)
    rtol = max(1e-6, 1e2 * epsilon ** (2 / 3)) if rtol is None else rtol
    return Point(wide, given, positions, run, modes, rtol, epsilon, np.random.default_rng(seed))


@stage
def in_double(program: Program) -> Program:
    """Returns the program, widened to f64."""
    graph, values = program.view.graph(program.name), [port.value for port in program.outputs]
    is_whole = values == graph.outputs and len(program.inputs) == len(graph.inputs)
    # The graphs of a derivative refer to one another. The lowered module is simplified and has fewer ops to check.
    module = clone(program.graphs if is_whole else program.module)
    widen(module)
    wide = from_module(module, program.name, program.opset, loop_memory=program.loop_memory)
    return wide.rematerialize(program.memory)


def _accepted(program: Program, wide: Program, arguments: Sequence[ArrayLike]) -> list[Array]:
    """Converts the arguments to the input types of `wide`.

    Each argument may have the type of its input in `program` or in `wide`.
    """
    check_count(program.name, program.signature, arguments)
    accepted = []
    inputs = zip(arguments, program.signature.inputs, wide.signature.inputs, strict=True)
    for i, (x, value, wider) in enumerate(inputs):
        is_wide = getattr(x, "dtype", None) == wider.type.dtype
        accepted.append(checked(x, wider if is_wide else value, i).astype(wider.type.dtype, copy=False))
    return accepted


def _derived(point: Point, mode: str) -> Point:
    """Returns the point at which the JVP or VJP of a point's program is checked. Its tangents or cotangents are random.

    The program of the new point does not return the outputs of the original program.
    """
    program, positions = point.program, [*point.positions]
    derived = program.jvp(positions) if mode == "fwd" else program.vjp(positions)
    if mode == "fwd":
        like = [point.arguments[i] for i in positions]
    else:
        y = point.run(program)(*point.arguments)
        like = [y[j] for j in differentiable(program)]
    before = len(point.arguments)
    return replace(
        point,
        program=replace(derived, outputs=derived.outputs[len(program.outputs) :]),
        arguments=[*point.arguments, *(random_like(x, point.generator) for x in like)],
        positions=[*positions, *range(before, before + len(like))],
        prefix="JVP: " if mode == "fwd" else "VJP: ",
    )


def _stored(
    program: Program,
    arguments: Sequence[Array],
    run: Run,
    positions: list[int],
    expected: Mapping[str, Array],
) -> Iterator[Comparison]:
    """Yields the comparisons of derivatives with the stored derivatives in `expected`."""
    described = {f"grad.{i}": (i, f"gradient in {program.inputs[i].name}") for i in positions}
    if not any(key in expected for key in described):
        raise InputError(
            f"no derivatives to compare with: there must be an array of the name {' or '.join(described)}"
        )
    value, *gradient = run(program.grad(positions, value=True))(*arguments)
    if "loss" in expected:
        yield _against("value, against loss", value, expected["loss"])
    for (key, (_, name)), cx in zip(described.items(), gradient, strict=True):
        if key in expected:
            yield _against(f"{name}, against {key}", cx, expected[key])
    tangents = [expected.get(f"tangent.{i}") for i in positions]
    stored = {int(key.removeprefix("tangent.")) for key in expected if key.startswith("tangent.")}
    if any(x is None for x in tangents) or stored != set(positions):
        return  # the stored JVP and HVPs belong to tangents of other inputs
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
        raise InputError(
            f"{name}: the computed shape is {ours.shape}, but the stored shape is {theirs.shape}"
        )
    # Another program computed the stored numbers, with other rounding errors.
    tolerance = max(1e-10, 1e2 * epsilon_of(ours.dtype))
    largest = float(np.max(np.abs(theirs), initial=0.0))
    error = float(np.max(np.abs(ours.astype(complex) - theirs.astype(complex)), initial=0.0))
    return Comparison(name, error / largest if largest else error, tolerance)
