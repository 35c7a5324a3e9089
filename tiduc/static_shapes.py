"""Programs with dynamic shapes on engines that need static shapes: they are refined and compiled for each new shape.

func.func @main(%x: tensor<?x3xf32>)    at (2, 3)  ->    func.func @main(%x: tensor<2x3xf32>)
"""

from collections.abc import Callable, Sequence
from typing import Any

from torch_mlir import ir

from tiduc.backends.named_main import text_with_main
from tiduc.dialect.dynamic.calls import make_static
from tiduc.dialect.errors import RequestError
from tiduc.dialect.mlir.context import parse, run_passes, stage
from tiduc.program import Program, from_module
from tiduc.runtime.arrays import Array

Call = Callable[..., Sequence[Array]]

_REFINE = (
    "builtin.module(stablehlo-refine-shapes,"
    "func.func(chlo-legalize-to-stablehlo,stablehlo-canonicalize-dynamism,"
    "stablehlo-aggressive-simplification,canonicalize,cse))"
)


def at_each_shape(program: Program, run: Callable[[Program], Call]) -> Call:
    """A callable for the program. If shapes are dynamic, it refines the program to the arguments' shapes.

    Each refined program is built once and cached.
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


@stage
def refine(module: ir.Module, shapes: Sequence[Sequence[int]]) -> None:
    """Makes all shapes static, in place, in a module whose only public function is `main`.

    Raises `RequestError` if a dynamic dimension remains.
    """
    run_passes(module.operation, "builtin.module(inline,symbol-dce)")
    main = module.body.operations[0]
    inputs = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value).inputs
    static = zip(shapes, inputs, strict=True)
    types = ",".join(
        str(ir.RankedTensorType.get(sizes, ir.ShapedType(type_).element_type)) for sizes, type_ in static
    )
    run_passes(module.operation, f"builtin.module(stablehlo-refine-arguments{{types={types}}})")
    before = ""
    while (text := str(module)) != before:  # folding one dimension may reveal another
        before = text
        run_passes(module.operation, _REFINE)
        make_static(module)
    if "?x" in text:
        raise RequestError("a shape depends on the values of arguments, not only on their shapes")
