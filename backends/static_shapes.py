"""Runs programs with dynamic shapes on engines that need static shapes, such as XLA.

A call with arguments of new shapes compiles a copy of the program in which all shapes are static:

func.func @main(%x: tensor<?x3xf32>)    called with a 2x3 array    ->    func.func @main(%x: tensor<2x3xf32>)
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache

from numpy.typing import ArrayLike
from torch_mlir import ir

from tiduc.backends.backend import Lowered, Runnable
from tiduc.backends.named_main import text_with_main, with_main
from tiduc.dialect.dynamic.calls import make_static
from tiduc.dialect.errors import RequestError
from tiduc.dialect.mlir.context import parse, run_passes, stage
from tiduc.runtime.arrays import Array
from tiduc.runtime.checks import check_count, check_sizes, check_type, checked
from tiduc.runtime.signature import Signature, SignatureValue, TensorType

KEPT = 16
"""A program stays compiled for this many combinations of shapes. The least recently used combination is dropped."""

_REFINE = (
    "builtin.module(stablehlo-refine-shapes,"
    "func.func(chlo-legalize-to-stablehlo,stablehlo-canonicalize-dynamism,"
    "stablehlo-aggressive-simplification,canonicalize,cse))"
)
Shapes = tuple[tuple[int, ...], ...]


def is_dynamic(signature: Signature) -> bool:
    """Whether an input or an output has a dynamic dimension."""
    return any(None in value.type.shape for value in (*signature.inputs, *signature.outputs))


def at_each_shape(program: Lowered, compiled: Callable[[Lowered], Runnable]) -> Runnable:
    """Returns a program that can be called. `compiled` compiles it, at once if its shapes are static.

    If it has dynamic shapes, the first call with each combination of argument shapes compiles it. Such a call raises
    `RequestError` if a shape depends on the values of arguments.
    """
    return AtEachShape(program, compiled) if is_dynamic(program.signature) else compiled(program)


class AtEachShape:
    """A program with dynamic shapes. A call with new argument shapes compiles the program for these shapes first.

    Keeps the `KEPT` most recently used compiled programs.
    """

    def __init__(self, program: Lowered, compiled: Callable[[Lowered], Runnable]) -> None:
        self.signature, self.entry = program.signature, program.name
        self._program, self._compiled = program, compiled
        self._at = lru_cache(KEPT)(self._compiled_at)

    def __call__(self, *arguments: ArrayLike) -> tuple[Array, ...]:
        """Runs the program and returns the outputs.

        Raises `InputError`, which names the argument, for a wrong number of arguments, a wrong dtype or a wrong size.
        """
        check_count(self.entry, self.signature, arguments)
        pairs = enumerate(zip(arguments, self.signature.inputs, strict=True))
        arrays = [_array(argument, value, i) for i, (argument, value) in pairs]
        check_sizes(self.signature, arrays)
        return self._at(tuple([tuple(x.shape) for x in arrays]))(*arrays)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.entry}{self.signature}>"

    def _compiled_at(self, shapes: Shapes) -> Runnable:
        return self._compiled(refined(self._program, shapes))


def _array(argument: ArrayLike, value: SignatureValue, index: int) -> Array:
    """Converts an argument to an array, and checks its type against `value`. An array on a device is not copied."""
    if not (hasattr(argument, "shape") and hasattr(argument, "dtype")):
        return checked(argument, value, index)
    array: Array = argument  # type: ignore[assignment]  # it has a shape and a dtype
    check_type(array, value, index)
    return array


@stage
def refined(program: Lowered, shapes: Sequence[Sequence[int]]) -> Lowered:
    """Returns a copy of the program for arguments of the shapes `shapes`. All shapes in the copy are static.

    Raises `RequestError` if a shape depends on the values of arguments.
    """
    module = parse(text_with_main(program.module))
    refine(module, shapes)
    _, main = with_main(module)
    results = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value).results
    inputs = tuple(
        replace(value, type=replace(value.type, shape=tuple(shape)))
        for value, shape in zip(program.signature.inputs, shapes, strict=True)
    )
    outputs = tuple(
        replace(value, type=TensorType(tuple(ir.RankedTensorType(type_).shape), value.type.element))
        for value, type_ in zip(program.signature.outputs, results, strict=True)
    )
    return replace(program, module=module, signature=Signature(inputs, outputs), name="main")


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
    while (text := str(module)) != before:  # repeats, because folding one dimension may reveal another
        before = text
        run_passes(module.operation, _REFINE)
        make_static(module)
    if "?x" in text:
        raise RequestError("a shape depends on the values of arguments, not only on their shapes")
