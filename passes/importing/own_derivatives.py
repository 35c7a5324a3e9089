"""Checks functions that name their own derivative in an attribute, and prevents their inlining; part of import.

    func.func private @f(%x: T) -> U attributes {tidu.jvp = @g}     @g (x..., dx...) -> (y..., dy...), linear in dx
    func.func private @f(%x: T) -> U attributes {tidu.vjp = @g}     @g (x..., cy...) -> cx... or (y..., cx...)
    func.func private @f(%x: T) -> U attributes {tidu.root = @g}    @g (x..., y...) -> the residuals, which are zero
    func.func private @f(%b: U, %k: T) -> U attributes {tidu.linear_solve = @g}   @g (x..., k...) -> b..., linear in x

There is one tangent for each argument and result of a float or complex type, in order. The residuals of a root's
equation have the types of the results y. A function with such an attribute is never inlined, because the function that
the attribute names gives the derivative of its calls. A function for which the op set has a rule is not inlined either.
"""

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

from torch_mlir import ir

from tiduc.dialect.control.krylov import LU, METHODS
from tiduc.dialect.errors import ParseError
from tiduc.dialect.graph.functions import functions_in, new_function, symbol
from tiduc.dialect.graph.graph import operations
from tiduc.dialect.ops.attributes import readable
from tiduc.dialect.ops.control_ops import (
    DERIVATIVES,
    FUNCTION,
    NAMED_GRAPHS,
    ROOT,
    SOLVE,
    SOLVER,
    TRANSPOSE_SOLVE,
)
from tiduc.dialect.ops.ir_types import IrOp
from tiduc.dialect.shapes.types import is_wide
from tiduc.passes.rules.registry import OpSet


def keep_functions(module: ir.Module, opset: OpSet) -> list[str]:
    """Sets `FUNCTION` on functions that must not be inlined. Returns the names of derivatives and transposed solvers.

    If a public function names its derivative, its body moves to a new private function, which the public function
    calls. Raises `ParseError` if a function names both a JVP and a VJP, or a derivative that does not exist or has the
    wrong signature.
    """
    derivatives: dict[str, None] = {}
    functions = {symbol(op): op for op in functions_in(module)}
    ruled = set(opset.called("func.call"))
    for name, function in functions.items():
        named = [attribute for attribute in DERIVATIVES if attribute in function.attributes]
        if len(named) > 1:
            raise ParseError(f"@{name} has both {named[0]} and {named[1]}; one is enough", function.location)
        for attribute in named:
            derivatives[_check(function, name, attribute, functions, opset)] = None
            if (back := readable(function.attributes, TRANSPOSE_SOLVE)) is not None:
                derivatives[back.value] = None
        if not named and name not in ruled:
            continue
        if not len(function.regions[0].blocks):
            raise ParseError(f"@{name} has no body", function.location)
        function.attributes[FUNCTION] = ir.StringAttr.get(name)
        if named and "sym_visibility" not in function.attributes:
            _outline_body(function, name, functions)
    return list(derivatives)


def _check(
    function: IrOp, name: str, attribute: str, functions: Mapping[str, ir.Operation], opset: OpSet
) -> str:
    """Checks the function that `attribute` of `function` names, and sets `FUNCTION` on that function. Returns its name.

    Raises `ParseError` unless that function exists and has the right type.
    """
    symbol = function.attributes[attribute]
    if not isinstance(symbol, ir.FlatSymbolRefAttr) or symbol.value not in functions:
        raise ParseError(
            f"@{name} has {attribute} = {symbol}, which is not a function here", function.location
        )
    tangent_type = opset.builder.tangent_type
    inputs, results = _signature(function)
    smooth = [[t for t in types if tangent_type(t) is not None] for types in (inputs, results)]
    if attribute == DERIVATIVES[0]:
        expected = [([*inputs, *smooth[0]], [*results, *smooth[1]])]
    elif attribute in (ROOT, SOLVE):
        expected = [([*inputs, *results], results)]
        if not _is_solvable(results):
            needed = "results of static shape and of one type: f32, f64 or complex"
            raise ParseError(f"@{name} has {attribute}, which needs {needed}", function.location)
        if attribute == SOLVE:
            expected = [([*results, *inputs[len(results) :]], results)]
            if inputs[: len(results)] != results:
                message = f"@{name} has {SOLVE}, whose first arguments have the types of its results"
                raise ParseError(message, function.location)
        _check_solver(function, name, attribute, functions)
    else:
        expected = [([*inputs, *smooth[1]], smooth[0]), ([*inputs, *smooth[1]], [*results, *smooth[0]])]
    derivative = functions[symbol.value]
    if _signature(derivative) not in expected:
        wanted = " or ".join(str(ir.FunctionType.get(*types)) for types in expected)
        actual = ir.TypeAttr(derivative.attributes["function_type"]).value
        message = f"@{symbol.value}, the {attribute} of @{name}, has the type {actual}, expects {wanted}"
        raise ParseError(message, derivative.location)
    derivative.attributes[FUNCTION] = ir.StringAttr.get(symbol.value)
    return str(symbol.value)


def _check_solver(function: IrOp, name: str, attribute: str, functions: Mapping[str, ir.Operation]) -> None:
    """Checks the attributes `SOLVER` and `TRANSPOSE_SOLVE`. Sets `FUNCTION` on the function that solves the transposed
    system, so that it is not inlined.
    """
    methods = (LU, *METHODS) if attribute == ROOT else METHODS
    given = readable(function.attributes, SOLVER)
    if SOLVER in function.attributes and not _is_solver(given, methods):
        message = (
            f"@{name} has {SOLVER} = {given}, expects a dictionary with a method, one of {', '.join(methods)}, "
            "and perhaps a tolerance (f64) and iterations (i64) above 0"
        )
        raise ParseError(message, function.location)
    if TRANSPOSE_SOLVE not in function.attributes:
        return
    symbol = readable(function.attributes, TRANSPOSE_SOLVE)
    if attribute != SOLVE or not isinstance(symbol, ir.FlatSymbolRefAttr) or symbol.value not in functions:
        message = f"@{name} has {TRANSPOSE_SOLVE} = {symbol}, expects a function of this module, and {SOLVE}"
        raise ParseError(message, function.location)
    back = functions[symbol.value]
    if _signature(back) != _signature(function):
        raise ParseError(
            f"@{symbol.value}, the {TRANSPOSE_SOLVE} of @{name}, has another type", back.location
        )
    back.attributes[FUNCTION] = ir.StringAttr.get(symbol.value)


def _is_solver(given: ir.Attribute | None, methods: Sequence[str]) -> bool:
    if not isinstance(given, ir.DictAttr) or not {entry.name for entry in given} <= {"method", *_NUMBERS}:
        return False
    method = readable(given, "method")
    numbers: dict[str, Any] = {name: readable(given, name) for name in _NUMBERS if name in given}
    return (
        isinstance(method, ir.StringAttr)
        and method.value in methods
        and all(
            isinstance(x, _NUMBERS[name]) and float(numbers[name].value) > 0 for name, x in numbers.items()
        )
    )


_NUMBERS = {"tolerance": ir.FloatAttr, "iterations": ir.IntegerAttr}
"""The numeric options of a solver, with the class of their attributes."""


def _is_solvable(results: list[ir.RankedTensorType]) -> bool:
    """Whether residuals of these types have a Jacobian that LU factorization supports."""
    elements = {x.element_type for x in results}
    wide = all(is_wide(x) for x in elements)
    return len(elements) == 1 and wide and all(x.has_static_shape for x in results)


def _signature(function: IrOp) -> tuple[list[ir.RankedTensorType], list[ir.RankedTensorType]]:
    type_ = ir.TypeAttr(function.attributes["function_type"]).value
    return list(type_.inputs), list(type_.results)


def _outline_body(function: ir.Operation, name: str, functions: dict[str, ir.Operation]) -> None:
    """Moves a function's body and its derivative's name to a new private function, which the function then calls."""
    inner = next(n for i in count() if (n := f"{name}.body{'_' * i}") not in functions)
    moved = [attribute for attribute in (FUNCTION, SOLVER, *NAMED_GRAPHS) if attribute in function.attributes]
    attributes = {attribute: function.attributes[attribute] for attribute in moved}
    attributes[FUNCTION] = ir.StringAttr.get(inner)
    inputs, results = _signature(function)
    place = ir.InsertionPoint(function)
    private, block = new_function(inner, (inputs, results), place, function.location, attributes)
    body = function.regions[0].blocks[0]
    for attribute in moved:
        del function.attributes[attribute]
    for old, new in zip(list(body.arguments), list(block.arguments), strict=True):
        old.replace_all_uses_with(new)
    for op in list(operations(body)):
        block.append(op)
    ip, callee = ir.InsertionPoint(body), {"callee": ir.FlatSymbolRefAttr.get(inner)}
    call = ir.Operation.create(
        "func.call", results, list(body.arguments), callee, loc=function.location, ip=ip
    )
    ir.Operation.create("func.return", operands=list(call.results), loc=function.location, ip=ip)
