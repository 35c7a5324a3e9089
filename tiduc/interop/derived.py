"""Derives the programs by which JAX and PyTorch differentiate and batch a program that they call as an op."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from tiduc.calling import ordered
from tiduc.dialect.errors import Unsupported
from tiduc.ports import described, smooth
from tiduc.program import Program
from tiduc.splitting import split

KEPT = 512
"""The number of derived programs of each kind in a cache. The cache avoids recompilation if a function is retraced."""


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


@dataclass(frozen=True, eq=False)
class TwoParts:
    """The VJP of a program, as two programs.

    forward     (inputs...)                  -> (outputs..., values that `backward` reads...)
    backward    (residuals..., cotangents of the differentiable outputs...) -> (cotangents of the inputs `wrt`...)

    `residuals` lists the sources of the residuals: ("input", i) is input i, and ("output", i) is output i of `forward`.
    `count` is the number of outputs of the program, which are the first outputs of `forward`.
    """

    forward: Program
    backward: Program
    residuals: tuple[tuple[str, int], ...]
    wrt: tuple[int, ...]
    count: int


@lru_cache(KEPT)
def parts_of(program: Program, wrt: tuple[int, ...]) -> TwoParts | None:
    """The VJP as two programs. Returns None if `split` raises `Unsupported`."""
    try:
        made = split(program, list(wrt))
    except Unsupported:
        return None
    inputs = [port.name for port in program.inputs]
    outputs = [port.name for port in program.outputs]
    kept, residuals = list(made.forward.outputs[: len(outputs)]), []
    for port, residual in zip(made.forward.outputs[len(outputs) :], made.residuals, strict=True):
        kind, _, name = residual.kind.partition(" ")
        if kind in ("input", "output"):
            residuals.append((kind, (inputs if kind == "input" else outputs).index(name)))
        else:
            residuals.append(("output", len(kept)))
            kept.append(port)
    forward = replace(made.forward, outputs=tuple(kept))
    return TwoParts(forward, made.backward, tuple(residuals), wrt, len(outputs))


@lru_cache(KEPT)
def batched(program: Program, axes: tuple[int | None, ...], size: int) -> Program:
    """The program batched along the axis of each input (None: not batched). Outputs have the batch dimension first."""
    return program.batch(list(axes), size)


def differentiable_outputs(program: Program) -> Sequence[int]:
    """The positions of the outputs that have tangents."""
    with_tangents = {port.name for port in smooth(program, program.outputs)}
    return [i for i, port in enumerate(program.outputs) if port.name in with_tangents]


def arguments_of(program: Program, arguments: Sequence[object], named: Mapping[str, object]) -> list[object]:
    """The arguments of all inputs, in the order of the inputs. Omitted weights of a `Model` have their default values.

    Raises `InputError` if a call of the program with these arguments would raise it.
    """
    inputs = [described(port) for port in program.inputs]
    return ordered(inputs, [value.name for value in inputs], arguments, named, program.defaults)
