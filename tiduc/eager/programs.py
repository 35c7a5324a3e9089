"""program_of: converts the ops that a function runs on eager arrays to a program.

    def f(x):                      func.func @main(%x) {
        return np.exp(x) * x   ->    %0 = exponential %x  %1 = multiply %0, %x  return %1 }

The location of each op is the line of Python code that ran it. If the function reads numbers from arrays, for example
to decide a branch, the program has only the ops of the branch that ran.
"""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from numpy.typing import ArrayLike
from torch_mlir import ir

from tiduc.dialect.emitters.bodies import IrEmitter
from tiduc.dialect.errors import RequestError
from tiduc.dialect.graph.functions import functions_in
from tiduc.dialect.graph.graph import operations
from tiduc.dialect.mlir.context import stage
from tiduc.dialect.ops.ir_types import IrValue
from tiduc.dialect.ops.verify import NAME
from tiduc.eager.array import Array
from tiduc.eager.graphs import tensor_type
from tiduc.eager.record import EagerInput
from tiduc.eager.session import Invocation, logged
from tiduc.program import Program, from_module


def program_of(function: Callable[..., object], *arguments: ArrayLike) -> Program:
    """The program of the ops that a function runs on these arguments. Runs the function once.

    The inputs of the program are the arguments, with the names of the function's parameters. The outputs are the array,
    or the arrays, that the function returns. Print the program to see its graph, and pass it to `tiduc.trace` to see
    the values of its ops. Other arrays that the function reads become constants of the program. Arrays that it computes
    from `.data`, by `detach()` or by `backward()` become constants, too. Raises `RequestError` if the function returns
    anything but eager arrays.
    """
    given = [Array(x, requires_grad=isinstance(x, Array) and x.requires_grad) for x in arguments]
    with logged() as log:
        inputs = [x.value for x in given]
        returned = function(*given)
    listed = list(returned) if isinstance(returned, tuple | list) else [returned]
    results = [y for y in listed if isinstance(y, Array)]
    if len(results) < len(listed):
        raise RequestError("the function must return only arrays of tiduc.eager")
    with logged() as more:
        outputs = [y.value for y in results]  # reading the value of a view runs an op
    return from_module(_module(inputs, [*log, *more], outputs, _names(function, len(given))))


def _names(function: Callable[..., object], count: int) -> list[str]:
    """A name for each argument: the parameter's name, or `arg` and the position if the function takes `*args`."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        parameters = {}.values()
    names = [x.name for x in parameters if x.kind in (x.POSITIONAL_ONLY, x.POSITIONAL_OR_KEYWORD)][:count]
    return [*names, *(f"arg{i}" for i in range(len(names), count))]


@stage
def _module(
    inputs: Sequence[EagerInput],
    log: Sequence[Invocation],
    outputs: Sequence[EagerInput],
    names: Sequence[str],
) -> ir.Module:
    """A module with one function, which contains the ops of all invocations in order."""
    module = ir.Module.create()
    types = [tensor_type(x.data.dtype, x.data.shape) for x in inputs]
    results = [tensor_type(y.data.dtype, y.data.shape) for y in outputs]
    attributes = {
        "sym_name": ir.StringAttr.get("main"),
        "function_type": ir.TypeAttr.get(ir.FunctionType.get(types, results)),
        "arg_attrs": ir.ArrayAttr.get([ir.DictAttr.get({NAME: ir.StringAttr.get(name)}) for name in names]),
    }
    function = ir.Operation.create(
        "func.func", attributes=attributes, regions=1, ip=ir.InsertionPoint(module.body)
    )
    block = function.regions[0].blocks.append(*types)
    b = IrEmitter(ir.InsertionPoint(block), ir.Location.unknown())
    known: dict[Any, IrValue] = {}
    for x, argument in zip(inputs, block.arguments, strict=True):
        known.setdefault(x.key, argument)

    def value(x: EagerInput) -> IrValue:
        if x.key not in known:
            known[x.key] = b.constant(x.data, tensor_type(x.data.dtype, x.data.shape))
        return known[x.key]

    for each in log:
        file, line, column = each.place
        b.location = ir.Location.file(file, line, column)
        for y, result in zip(each.results, _copied(b, each, [value(x) for x in each.inputs]), strict=True):
            known[y.key] = result
    ir.Operation.create(
        "func.return", operands=[value(y) for y in outputs], loc=b.location, ip=ir.InsertionPoint(block)
    )
    return module


def _copied(b: IrEmitter, each: Invocation, arguments: Sequence[IrValue]) -> list[IrValue]:
    """Copies the ops of an invocation into the function, and returns the results of the invocation."""
    functions = functions_in(each.graph.program.module)
    if len(functions) > 1:
        functions = functions_in(_inlined(each.graph.program).module)
    if len(functions) > 1:
        raise RequestError(f"@{each.graph.program.name} calls functions that cannot be inlined")
    block = functions[0].regions[0].blocks[0]
    values: dict[IrValue, IrValue] = dict(zip(block.arguments, arguments, strict=True))
    *inside, end = operations(block)
    for op in inside:
        b.copied(op, values).location = b.location
    return [values[y] for y in end.operands]


def _inlined(program: Program) -> Program:
    return from_module(program.module, program.name, program.opset, inline=True)
