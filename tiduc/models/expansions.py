"""Ops that torch-mlir cannot lower pass through its pipelines as custom calls, which are expanded afterwards.

`jax/lowerings.py` does this for ops that `jax.export` would expand.

torch.operator "NAME"(%x) : T            what the importer emits
stablehlo.custom_call @tiduc.NAME(%x)    between casts to and from builtin tensors, which torch-mlir lowers
the ops that NAME's `Expansion` emits    in the module that torch-mlir returns
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch_mlir import ir

from tiduc.dialect.errors import Unsupported
from tiduc.dialect.ops.attributes import named_attributes
from tiduc.dialect.ops.control_ops import CUSTOM_CALL, TARGET, call_target
from tiduc.dialect.ops.ir_types import IrOp, IrValue

Expansion = Callable[[Any, Any], Sequence[Any]]
"""(custom call, module) -> the values that replace the results of the call. The function emits ops before the call."""

_OPERATOR = "torch.operator"
PREFIX = "tiduc."
"""The prefix of the targets of custom calls that stand for ops."""
_DETAIL, _PRESENT = "mhlo.backend_config", "present"
TEXT = "text"
"""The attribute of a custom call that holds the string operand of the operator."""
_STRING = "!torch.str"
_NO_TENSORS = ("!torch.none", "!torch.list<int>", _STRING)
_SYMBOL = re.compile(r'@"([^"]*)"')
_CALLEE = re.compile(r"callee = @([\w.]+)")
_ARITY = re.compile(r"_\d+_\d+$")
_TENSOR = re.compile(r"!torch\.vtensor<\[([\d?,]*)\],(.*)>")


def replace_operators(module: ir.Module, names: Mapping[str, Expansion]) -> None:
    """Replaces the operators with these names, in a module of the torch dialect, by custom calls.

    Raises `Unsupported` if an operand or a result is not a tensor of known rank.
    """
    ops: list[Any] = []

    def look(op: IrOp) -> ir.WalkResult:
        if op.name == _OPERATOR and _kind(op) in names:
            ops.append(op.operation if hasattr(op, "operation") else op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(look)
    for op in ops:
        _replace_operator(op)


def _kind(op: IrOp) -> str:
    """The name of an operator without the suffix that gives the numbers of operands and results."""
    return _ARITY.sub("", ir.StringAttr(op.attributes["name"]).value)


def _replace_operator(op: IrOp) -> None:
    name = _kind(op)
    with op.location, ir.InsertionPoint(op):
        there = [i for i, x in enumerate(op.operands) if str(x.type) not in _NO_TENSORS]
        operands = [
            ir.Operation.create("torch_c.to_builtin_tensor", [_builtin(x.type, op)], [x]).result
            for x in (op.operands[i] for i in there)
        ]
        detail = {each.name: each.attr for each in map(op.attributes.__getitem__, range(len(op.attributes)))}
        for x in op.operands:
            if str(x.type) == _STRING:
                detail[TEXT] = ir.OpResult(x).owner.attributes["value"]
        attributes = {
            TARGET: ir.StringAttr.get(PREFIX + name),
            "api_version": ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 4),
            "backend_config": ir.DictAttr.get({}),
            _DETAIL: ir.DictAttr.get(
                {k: v for k, v in detail.items() if k != "name"} | {_PRESENT: ir.DenseI64ArrayAttr.get(there)}
            ),
        }
        call = ir.Operation.create(
            CUSTOM_CALL, [_builtin(y.type, op) for y in op.results], operands, attributes
        )
        for old, new in zip(op.results, call.results, strict=True):
            cast = ir.Operation.create("torch_c.from_builtin_tensor", [old.type], [new])
            old.replace_all_uses_with(cast.result)
    op.erase()


def _builtin(type_: ir.Type, op: IrOp) -> Any:
    match = _TENSOR.fullmatch(str(type_))
    if match is None:
        name = ir.StringAttr(op.attributes["name"]).value
        raise Unsupported(
            f"{name}: an operand or a result is a {type_}, not a tensor of known rank", op.location
        )
    sizes = "".join(f"{size}x" for size in match[1].split(",") if size)
    return ir.Type.parse(f"tensor<{sizes}{match[2].replace('si', 'i')}>")


def expand_calls(module: ir.Module, names: Mapping[str, Expansion]) -> None:
    """Replaces custom calls in a module of torch-mlir or JAX. `names` maps each operator to its expansion."""
    calls: list[Any] = []

    def look(op: IrOp) -> ir.WalkResult:
        if op.name == CUSTOM_CALL and call_target(op).startswith(PREFIX):
            calls.append(op.operation if hasattr(op, "operation") else op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(look)
    for op in calls:
        with op.location, ir.InsertionPoint(op):
            results = names[call_target(op).removeprefix(PREFIX)](op, module)
        for old, new in zip(op.results, results, strict=True):
            old.replace_all_uses_with(new)
        op.erase()


def detail(op: IrOp) -> dict[str, Any]:
    """The attributes of the original operator by name. Prefixes of the names are removed."""
    given = named_attributes(op.attributes[_DETAIL])
    return {name.rpartition(".")[2]: value for name, value in given.items() if name != _PRESENT}


def present(op: IrOp) -> list[int]:
    """For each operand of the call, its position among the operands of the original operator."""
    return list(ir.DictAttr(op.attributes[_DETAIL])[_PRESENT])


def call_text(call: IrOp, module: ir.Module) -> Sequence[IrValue]:
    """Expands an operator whose string operand is the text of a function.

    Adds the function to the module, and emits a call of the function.
    """
    text = ir.StringAttr(detail(call)[TEXT]).value
    symbol = f"{_SYMBOL.findall(text)[0]}.{len(list(module.body.operations))}"
    parsed = ir.Module.parse(_declarations(text, module) + _SYMBOL.sub(f'@"{symbol}"', text, count=1))
    module.body.append(list(parsed.body.operations)[-1].detach_from_parent())
    types = [y.type for y in call.results]
    attributes = {"callee": ir.FlatSymbolRefAttr.get(symbol)}
    return list(ir.Operation.create("func.call", types, list(call.operands), attributes).results)


def _declarations(text: str, module: ir.Module) -> str:
    """Declarations of the functions that `text` calls. MLIR needs them to verify `text` as a separate module."""
    functions = {ir.StringAttr(op.attributes["sym_name"]).value: op for op in module.body.operations}
    lines = []
    for name in sorted(set(_CALLEE.findall(text))):
        given = f'sym_name = "{name}", sym_visibility = "private"'
        lines.append(
            f'"func.func"() <{{{given}, function_type = {functions[name].attributes["function_type"]}}}> '
        )
    return "".join(f"{line} ({{}}) : () -> ()\n" for line in lines)
