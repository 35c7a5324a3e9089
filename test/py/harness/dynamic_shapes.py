"""Compares programs with dynamic sizes to the same programs with static sizes, at several sizes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch_mlir import ir

from harness.check_rule import active, like
from harness.compare import compare
from harness.evidence import NOTES
from harness.xla import by_xla, chosen
from tiduc.backends.reference.interpreter import evaluate
from tiduc.dialect.mlir.context import parse, run_passes, stage
from tiduc.loading import load
from tiduc.program import Program

Array = NDArray[Any]

_STATIC = (
    "stablehlo-refine-shapes,"
    "func.func(chlo-legalize-to-stablehlo,stablehlo-canonicalize-dynamism,stablehlo-aggressive-simplification,canonicalize,cse)"
)


@stage
def refined(text: str, arguments: Sequence[Array]) -> str:
    """Returns the text of the function `main` with the static shapes of these arguments."""
    module = parse(text)
    (main,) = (f for f in module.body.operations if ir.StringAttr(f.attributes["sym_name"]).value == "main")
    type_ = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
    shapes = zip(arguments, type_.inputs, strict=True)
    types = [str(ir.RankedTensorType.get(x.shape, t.element_type)) for x, t in shapes]
    refine = f"stablehlo-refine-arguments{{types={','.join(types)}}}"
    run_passes(module.operation, f"builtin.module({refine})")
    before = ""
    while (text := str(module)) != before:  # folding one size may make another size known
        before = text
        run_passes(module.operation, f"builtin.module({_STATIC})")
    return text


def run(program: Program, arguments: Sequence[Array]) -> tuple[Array, ...]:
    """Runs a program on the reference interpreter with the static shapes of the arguments."""
    text = refined(str(program), arguments)
    assert "?" not in text, f"dynamic sizes are left:\n{text}\nof:\n{program}"
    empty = any(0 in x.shape for x in arguments)  # the interpreter aborts on some empty arrays
    return (by_xla if empty else chosen(text) or evaluate)(text, arguments)


def check_dynamic(
    text: str, *points: Sequence[Any], order: int = 2, seed: int = 0, everywhere: bool = True
) -> Program:
    """Compares the derivatives of a program with dynamic sizes to those of the program with static sizes.

    The points have different sizes. If `everywhere` is False, derivatives of order two are compared only at the first
    point.
    """
    program = load(text)
    values = [[np.asarray(x) for x in point] for point in points]
    cases = [
        _Case(load(refined(str(program), point)), point, np.random.default_rng(seed + i))
        for i, point in enumerate(values)
    ]
    _check(program, cases, order, everywhere)
    NOTES.checked_text(text, order)
    return program


@dataclass
class _Case:
    """A point, the program with the static sizes of the point, and its results at the point if they are known."""

    static: Program
    point: list[Array]
    rng: np.random.Generator
    primal: Sequence[Array] | None = None


def _check(program: Program, cases: Sequence[_Case], order: int, everywhere: bool) -> None:
    """Compares the derivatives of a program with dynamic sizes to those of the program with static sizes.

    Each case has a point and the program with the sizes of that point. Derivatives of first order are compared at each
    point. Derivatives of higher order are compared at the first point, or with `everywhere` at each point.
    """
    wrt = active(cases[0].point)
    more: dict[str, list[list[Array]]] = {"jvp": [], "vjp": []}
    for case in cases:
        primal = run(case.static, case.point) if case.primal is None else case.primal
        more["jvp"].append([like(case.point[i], case.rng) for i in wrt])
        more["vjp"].append([like(y, case.rng) for y in primal if y.dtype.kind in "fc"])
    for mode, vectors in more.items():
        derived, further = getattr(program, mode)(wrt), []
        for case, given in zip(cases, vectors, strict=True):
            known, point = getattr(case.static, mode)(wrt), [*case.point, *given]
            results = run(known, point)
            for actual, expected in zip(run(derived, point), results, strict=True):
                assert actual.shape == expected.shape
                label = f"{mode}, order {order}, {[x.shape for x in case.point]}"
                compare([actual], [expected], 1e-12, label)
            further.append(_Case(known, point, case.rng, results))
        if order > 1:
            _check(derived, further if everywhere else further[:1], order - 1, everywhere)
