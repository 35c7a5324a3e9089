"""Checks programs with dynamic dimensions at given sizes, against their refinement to static shapes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch_mlir import ir

from harness.check_rule import active, like
from harness.compare import compare
from harness.evidence import NOTES
from harness.xla import by_xla, chosen
from tiduc.backends.reference.interpreter import evaluate
from tiduc.dialect.context import parse, run_passes, stage
from tiduc.program import Program, load

Array = NDArray[Any]

_STATIC = (
    "stablehlo-refine-shapes,"
    "func.func(chlo-legalize-to-stablehlo,stablehlo-canonicalize-dynamism,stablehlo-aggressive-simplification,canonicalize,cse)"
)


@stage
def refined(text: str, arguments: Sequence[Array]) -> str:
    """The text of the function `main`, refined to the shapes of these arguments."""
    module = parse(text)
    (main,) = (f for f in module.body.operations if ir.StringAttr(f.attributes["sym_name"]).value == "main")
    type_ = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
    shapes = zip(arguments, type_.inputs, strict=True)
    types = [str(ir.RankedTensorType.get(x.shape, t.element_type)) for x, t in shapes]
    refine = f"stablehlo-refine-arguments{{types={','.join(types)}}}"
    run_passes(module.operation, f"builtin.module({refine})")
    before = ""
    while (text := str(module)) != before:  # a computed size may have to be folded before the next is known
        before = text
        run_passes(module.operation, f"builtin.module({_STATIC})")
    return text


def run(program: Program, arguments: Sequence[Array]) -> tuple[Array, ...]:
    """The program's results by the reference interpreter, after refinement to the arguments' shapes."""
    text = refined(str(program), arguments)
    assert "?" not in text, f"dynamic sizes are left:\n{text}\nof:\n{program}"
    empty = any(0 in x.shape for x in arguments)  # the interpreter aborts on some empty arrays
    return (by_xla if empty else chosen(text) or evaluate)(text, arguments)


def check_dynamic(text: str, *points: Sequence[Any], order: int = 2, seed: int = 0) -> Program:
    """Checks a program's derivatives at points of several sizes against those of its static form."""
    program = load(text)
    for i, point in enumerate(points):
        values = [np.asarray(x) for x in point]
        _check(program, load(refined(str(program), values)), values, order, np.random.default_rng(seed + i))
    NOTES.checked_text(text, order)
    return program


def _check(
    program: Program,
    static: Program,
    point: list[Array],
    order: int,
    rng: np.random.Generator,
    primal: Sequence[Array] | None = None,
) -> None:
    """Checks a program at a point; `primal` has the results of its static form there, if they are known."""
    wrt = active(point)
    primal = run(static, point) if primal is None else primal
    tangents = [like(point[i], rng) for i in wrt]
    cotangents = [like(y, rng) for y in primal if y.dtype.kind in "fc"]
    for mode, more in (("jvp", tangents), ("vjp", cotangents)):
        derived, known = getattr(program, mode)(wrt), getattr(static, mode)(wrt)
        arguments = [*point, *more]
        results = run(known, arguments)
        for actual, expected in zip(run(derived, arguments), results, strict=True):
            assert actual.shape == expected.shape
            compare([actual], [expected], 1e-12, f"{mode}, order {order}, {[x.shape for x in point]}")
        if order > 1:
            _check(derived, known, arguments, order - 1, rng, results)
