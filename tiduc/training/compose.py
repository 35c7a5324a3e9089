"""compose: makes one program of a model and a loss. The program calls both as functions."""

from collections.abc import Sequence

from torch_mlir import ir

from tiduc.dialect.errors import RequestError
from tiduc.dialect.graph.graph import operations
from tiduc.dialect.mlir.context import stage
from tiduc.ports import OutputPort, attributes_of, with_ports
from tiduc.program import Program, from_module


@stage
def compose(
    model: Program, loss: Program, given: Sequence[OutputPort], updated: Sequence[OutputPort]
) -> Program:
    """Returns a program that calls `model` and then `loss`.

    (the model's inputs..., the loss's other inputs...) -> (the loss's output, the model's outputs `updated`)

    The outputs `given` of the model are the first arguments of the loss. Raises `RequestError` if their types differ
    from the types of the loss's first inputs, or if the loss does not have exactly one output.
    """
    _check(loss, given)
    targets = loss.inputs[len(given) :]
    inputs = with_ports(model.inputs, targets)
    module = ir.Module.create()
    first = move(model, module, "model.")
    second = move(loss, module, "loss.")
    types = [port.type for port in inputs]
    outputs = (*loss.outputs, *updated)
    attributes = {
        "sym_name": ir.StringAttr.get("main"),
        "function_type": ir.TypeAttr.get(ir.FunctionType.get(types, [port.type for port in outputs])),
        "arg_attrs": attributes_of(inputs, "arg"),
        "res_attrs": attributes_of(outputs, "result"),
    }
    function = ir.Operation.create(
        "func.func", attributes=attributes, regions=1, ip=ir.InsertionPoint(module.body)
    )
    block = function.regions[0].blocks.append(*types, arg_locs=[ir.Location.unknown()] * len(types))
    ip, arguments = ir.InsertionPoint(block), list(block.arguments)
    call = _call(first, model, arguments[: len(model.inputs)], ip)
    of = dict(zip([port.name for port in model.outputs], call, strict=True))
    read = [of[port.name] for port in given] + arguments[len(model.inputs) :]
    results = [*_call(second, loss, read, ip), *(of[port.name] for port in updated)]
    ir.Operation.create("func.return", operands=results, ip=ip)
    both = from_module(module, "main", model.opset, loop_memory=model.loop_memory)
    return both.rematerialize(model.memory)


def _check(loss: Program, given: Sequence[OutputPort]) -> None:
    if len(loss.outputs) != 1:
        raise RequestError(f"a loss must have one output; this one has {len(loss.outputs)}")
    if len(loss.inputs) < len(given):
        raise RequestError(
            f"the loss has {len(loss.inputs)} inputs, and the model {len(given)} outputs for them"
        )
    for port, x in zip(given, loss.inputs, strict=False):
        if port.type != x.type:
            raise RequestError(
                f"input {x.name!r} of the loss is {x.type}; the model's {port.name!r} is {port.type}"
            )


def move(program: Program, module: ir.Module, prefix: str) -> str:
    """Adds copies of the program's functions to a module, as private functions. `prefix` is prepended to their names.

    Returns the new name of the program's entry function.
    """
    copy = program.module.operation.clone().operation
    body = copy.regions[0].blocks[0]
    functions = [op for op in operations(body) if "sym_name" in op.attributes]
    entry = ""
    for op in functions:
        old = op.attributes["sym_name"].value
        ir.SymbolTable.replace_all_symbol_uses(old, prefix + old, copy)
        op.attributes["sym_name"] = ir.StringAttr.get(prefix + old)
        if old == program.name:
            entry = prefix + old
        if op.name == "func.func":
            op.attributes["sym_visibility"] = ir.StringAttr.get("private")
    for op in list(operations(body)):
        module.body.append(op)
    return entry


def _call(
    name: str, program: Program, operands: Sequence[ir.Value[ir.Type]], ip: ir.InsertionPoint
) -> list[ir.Value[ir.Type]]:
    callee = {"callee": ir.FlatSymbolRefAttr.get(name)}
    results = [port.type for port in program.outputs]
    return list(ir.Operation.create("func.call", results, list(operands), callee, ip=ip).results)
