"""Programs with dynamic shapes on engines that need static shapes: compiled again for each new shape."""

from collections.abc import Callable, Sequence
from typing import Any

from tiduc.backends.named_main import text_with_main
from tiduc.dialect.context import parse
from tiduc.passes.refine import refine
from tiduc.program import Program, from_module
from tiduc.runtime.arrays import Array

Call = Callable[..., Sequence[Array]]


def at_each_shape(program: Program, run: Callable[[Program], Call]) -> Call:
    """A callable for the program; with dynamic shapes, it refines the program to the arguments' shapes and runs that.

    Each refinement is made once and kept.
    """
    if not any(None in value.type.shape for value in (*program.signature.inputs, *program.signature.outputs)):
        return run(program)
    compiled: dict[Any, Call] = {}

    def call(*arrays: Array) -> Sequence[Array]:
        shapes = tuple([x.shape for x in arrays])
        if shapes not in compiled:
            compiled[shapes] = run(_refined(program, shapes))
        return compiled[shapes](*arrays)

    return call


def _refined(program: Program, shapes: Sequence[Sequence[int]]) -> Program:
    module = parse(text_with_main(program.module), dialects=program.opset.dialects)
    refine(module, shapes)
    return from_module(module, "main", program.opset)
