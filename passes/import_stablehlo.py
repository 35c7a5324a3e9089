"""import: `func.func`s of StableHLO and CHLO to primal `tidu.graph`s.

    func.func @main(%a: T, %x: T) -> T {       "tidu.graph"() ({ ^bb0(%a: T, %x: T):
      %0 = stablehlo.multiply %a, %x      ->     %0 = stablehlo.multiply %a, %x
      return %0                                  stablehlo.return %0
    }                                          }) {sym_name = "main", inputs = [@a, @x]}

Composites become calls, but for those that have a rule, and private callees are inlined, by MLIR's passes; each public
function becomes a graph. An input's key is its `tidu.name` attribute, else the name in its location (as JAX writes
it), else `argN`. Attributes of the module, the function, its arguments and results survive, known or not; those of ops
stay with the op.
"""

from typing import Any

from torch_mlir import ir

from tiduc.dialect.context import run_passes, stage
from tiduc.dialect.control import CALL, GRAPHS, KEPT
from tiduc.dialect.errors import ParseError, Unsupported
from tiduc.dialect.graph import CARRIER, TARGET, operations
from tiduc.dialect.verify import TERMINATOR
from tiduc.passes.own_derivatives import is_private, keep_functions, name_of
from tiduc.passes.rules import OPSET
from tiduc.passes.rules.registry import OpSet

NAME = "tidu.name"
_OWN = ("sym_name", "function_type", "sym_visibility")


@stage
def import_stablehlo(module: Any, only: str | None = None, opset: OpSet = OPSET) -> Any:
    """A new module, with a graph for each public function; `module` stays as it is.

    Functions that custom calls and composites name stay functions. `only` names the one function to import, whatever
    the others are. `opset` says which composites have a rule. `Unsupported` where a function has several blocks, or
    recursion leaves a call.
    """
    imported = _clone(module)
    keep_functions(imported, opset)
    ruled = ",".join(opset.called("stablehlo.composite"))
    run_passes(
        imported.operation,
        f"builtin.module(func.func(stablehlo-legalize-composite-to-call{{except={ruled}}}),"
        "inline{default-pipeline=},symbol-dce)",
    )
    functions = [op for op in operations(imported.body) if op.name == "func.func"]
    named = _named_by_ops(functions) if len(functions) > 1 else set()
    kept = {name_of(op) for op in functions if KEPT in op.attributes}
    for op in functions:
        name = name_of(op)
        if name in named:
            op.attributes["sym_visibility"] = ir.StringAttr.get("private")
            continue
        if len(op.regions[0].blocks) and (name in kept or only in (None, name)):
            _to_graph(op, name in kept and (is_private(op) or only not in (None, name)), kept)
        op.erase()
    return imported


def _named_by_ops(functions: list[Any]) -> set[str]:
    names: set[str] = set()

    def look(op: Any) -> Any:
        if op.name == "stablehlo.custom_call" and "called_computations" in op.attributes:
            names.update(symbol.value for symbol in op.attributes["called_computations"])
        elif op.name == "stablehlo.composite":
            names.add(op.attributes["decomposition"].value)
        return ir.WalkResult.ADVANCE

    for function in functions:
        function.walk(look)
    return names


def _clone(module: Any) -> Any:
    copy = ir.Module.create(loc=module.operation.location)
    for attribute in module.operation.attributes:
        copy.operation.attributes[attribute] = module.operation.attributes[attribute]
    ip = ir.InsertionPoint(copy.body)
    for op in operations(module.body):
        op.clone(ip)
    return copy


def _to_graph(function: Any, closed: bool, kept: set[str]) -> None:
    """Makes a graph of a function, before it; the function keeps no body.

    The inputs of a `closed` one, which others call, have keys of their own; `kept` are the names of all such.
    """
    if len(function.regions[0].blocks) != 1:
        raise Unsupported("a function of several blocks cannot be differentiated", function.location)
    block = function.regions[0].blocks[0]
    name = ir.StringAttr(function.attributes["sym_name"])
    own = (*_OWN, "arg_attrs", "res_attrs") if closed else _OWN
    attributes = {name: function.attributes[name] for name in function.attributes if name not in own}
    if closed:
        keys = [f"{name.value}.{i}" for i in range(len(block.arguments))]
        attributes["sym_visibility"] = ir.StringAttr.get("private")
    else:
        keys = _keys(block, function.attributes.get("arg_attrs"))
    attributes["sym_name"] = name
    attributes["inputs"] = ir.ArrayAttr.get([ir.FlatSymbolRefAttr.get(key) for key in keys])
    graph = ir.Operation.create(
        "tidu.graph", attributes=attributes, regions=1, loc=function.location, ip=ir.InsertionPoint(function)
    )
    block.append_to(graph.regions[0])
    for op in _calls(graph):
        _to_graph_call(op, kept)
    last = list(operations(block))[-1]
    ir.Operation.create(
        TERMINATOR, operands=list(last.operands), loc=last.location, ip=ir.InsertionPoint(last)
    )
    last.erase()


def _calls(graph: Any) -> list[Any]:
    """The calls that are left, in regions too."""
    found = []

    def look(op: Any) -> Any:
        if op.name == "func.call":
            found.append(op)
        return ir.WalkResult.ADVANCE

    graph.walk(look)
    return found


def _to_graph_call(op: Any, kept: set[str]) -> None:
    """Makes a call of a graph of a call of a function that was not inlined."""
    callee = op.attributes["callee"]
    if callee.value not in kept:
        raise Unsupported(f"the call of {callee} is recursive", op.location)
    attributes = {TARGET: ir.StringAttr.get(CALL), GRAPHS: ir.ArrayAttr.get([callee])}
    types = [y.type for y in op.results]
    call = ir.Operation.create(
        CARRIER, types, list(op.operands), attributes, loc=op.location, ip=ir.InsertionPoint(op)
    )
    for old, new in zip(op.results, call.results, strict=True):
        old.replace_all_uses_with(new)
    op.erase()


def _keys(block: Any, arg_attrs: Any) -> list[str]:
    """One distinct key an argument."""
    keys: dict[str, None] = {}
    for i, argument in enumerate(block.arguments):
        key = f"arg{i}"
        if arg_attrs is not None and NAME in ir.DictAttr(arg_attrs[i]):
            key = name_in(arg_attrs[i], argument.location)
        elif isinstance(argument.location, ir.NameLoc):
            key = argument.location.name_str
        if not key:
            raise ParseError(f"argument {i} has an empty name", argument.location)
        base, copy = key, 1
        while key in keys:
            copy += 1
            key = f"{base}.{copy}"
        keys[key] = None
    return list(keys)


def name_in(attributes: Any, location: Any) -> str:
    """The `tidu.name` among an argument's or a result's attributes; `ParseError` where it is no string."""
    name = ir.DictAttr(attributes)[NAME]
    if not isinstance(name, ir.StringAttr):
        raise ParseError(f"expects a string as {NAME}, has {name}", location)
    return str(name.value)
