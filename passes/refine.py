"""refine: specializes a program to arguments of given shapes, so that no dimension is dynamic.

func @main(%x: tensor<?x3xf32>)    at (2, 3)  ->    func @main(%x: tensor<2x3xf32>)
"""

from collections.abc import Sequence
from typing import Any

from torch_mlir import ir

from tiduc.dialect.context import run_passes, stage
from tiduc.dialect.dynamic.calls import make_static
from tiduc.dialect.errors import RequestError

_REFINE = (
    "builtin.module(stablehlo-refine-shapes,"
    "func.func(chlo-legalize-to-stablehlo,stablehlo-canonicalize-dynamism,"
    "stablehlo-aggressive-simplification,canonicalize,cse))"
)


@stage
def refine(module: Any, shapes: Sequence[Sequence[int]]) -> None:
    """Makes all shapes static, in place, in a module whose only public function is `main`.

    `RequestError` where a dynamic dimension remains.
    """
    run_passes(module.operation, "builtin.module(inline,symbol-dce)")
    main = module.body.operations[0]
    inputs = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value).inputs
    static = zip(shapes, inputs, strict=True)
    types = ",".join(str(ir.RankedTensorType.get(sizes, type_.element_type)) for sizes, type_ in static)
    run_passes(module.operation, f"builtin.module(stablehlo-refine-arguments{{types={types}}})")
    before = ""
    while (text := str(module)) != before:  # folding one dimension may reveal another
        before = text
        run_passes(module.operation, _REFINE)
        make_static(module)
    if "?x" in text:
        raise RequestError("a shape depends on the values of arguments, not only on their shapes")
