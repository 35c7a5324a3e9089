"""Programs that the derivatives of an op run: each returns only tangents or cotangents."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from tiduc.calling import ordered
from tiduc.ports import described, smooth
from tiduc.program import Program

KEPT = 512
"""The number of derived programs that are kept, so that retracing a function does not recompile them."""


@lru_cache(KEPT)
def tangents(program: Program, wrt: tuple[int, ...]) -> Program:
    """(inputs..., tangents of the inputs at these positions...) -> (tangents of the differentiable outputs...)."""
    both = program.jvp(list(wrt))
    return replace(both, outputs=both.outputs[len(program.outputs) :])


@lru_cache(KEPT)
def cotangents(program: Program, wrt: tuple[int, ...], conjugate: bool = False) -> Program:
    """(inputs..., cotangents of the differentiable outputs...) -> (cotangents of the inputs at these positions...)."""
    both = program.vjp(list(wrt), conjugate=conjugate)
    return replace(both, outputs=both.outputs[len(program.outputs) :])


@lru_cache(KEPT)
def batched(program: Program, axes: tuple[int | None, ...], size: int) -> Program:
    """The program batched over the inputs that have an axis; every output has the new dimension in front."""
    return program.batch(list(axes), size)


def differentiable_outputs(program: Program) -> Sequence[int]:
    """The positions of the outputs that have tangents."""
    with_tangents = {port.name for port in smooth(program, program.outputs)}
    return [i for i, port in enumerate(program.outputs) if port.name in with_tangents]


def arguments_of(program: Program, arguments: Sequence[object], named: Mapping[str, object]) -> list[object]:
    """The arguments of all inputs, in order: by position, then by name; a `Model` has its weights as defaults.

    Raises `InputError` as a call of the program does.
    """
    inputs = [described(port) for port in program.inputs]
    return ordered(inputs, [value.name for value in inputs], arguments, named, program.defaults)
