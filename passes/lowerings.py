"""lowerings: replaces custom ops by calls of functions with their lowerings to StableHLO, before compilation.

    %y = "foreign.softplus"(%x)     ->     %y = call @foreign.softplus(%x)
                                           func private @foreign.softplus(%x) { log_plus_one(exponential(%x)) }

Ops of equal name, attributes and types share one function. Any remaining op of an unregistered dialect is an error.
"""

from itertools import chain, count
from typing import Any

from torch_mlir import ir

from tiduc.dialect.errors import RuleError, Unsupported
from tiduc.dialect.graph.functions import outline, replace_by_call, unused_symbol, within
from tiduc.dialect.graph.graph import operations
from tiduc.dialect.mlir.context import context, stage
from tiduc.dialect.ops.ir_types import IrOp
from tiduc.passes.importing.import_stablehlo import import_stablehlo
from tiduc.passes.lower.lower import lower
from tiduc.passes.materialize_merge import materialize_merge
from tiduc.passes.resolve import resolve
from tiduc.passes.rules.registry import OpSet
from tiduc.passes.structure.structure import structure

_Kind = tuple[str, int, tuple[ir.Type, ...], ir.DictAttr]
"""The name of an op, the number of its operands, the types of its operands and results, and its attributes."""


@stage
def apply_lowerings(module: IrOp, opset: OpSet) -> None:
    """Replaces each op that has a lowering by a call, in place. `module` is the operation of the module.

    Raises `Unsupported`, with the op and its location, if a custom op has no lowering, and `RuleError` if a lowering is
    circular.
    """
    if not opset.known:  # returns, because only an extended op set has custom ops
        return
    body, functions = module.regions[0].blocks[0], dict[_Kind, str]()
    for function in list(operations(body)) if opset.lowerings else ():
        _lower_within(function, body, opset, functions, ())
    for op in within(module):
        if not context().is_registered_operation(op.name):
            raise Unsupported(f"{op.name} cannot be compiled: it has no lowering to StableHLO", op.location)


def _lower_within(
    function: IrOp, body: ir.Block, opset: OpSet, functions: dict[_Kind, str], callers: tuple[str, ...]
) -> None:
    """Replaces the ops in `function` that have a lowering by calls.

    `functions` maps each kind of op (`_Kind`) to the name of the function that computes it. `callers` are the functions
    whose ops are being replaced. Raises `RuleError` if an op needs one of them, because the lowering is then circular.
    """
    for op in within(function):
        key = opset.key(op)
        if key not in opset.lowerings:
            continue
        if (kind := _kind(op)) not in functions:
            names = (f"{op.name}.{i}" for i in count())
            name = functions[kind] = unused_symbol(body, chain([op.name], names))
            function_of_op = _function(op, key, name, body, opset)
            _lower_within(function_of_op, body, opset, functions, (*callers, name))
        elif functions[kind] in callers:
            raise RuleError(f"the lowering of {key} contains the op itself", op.location)
        replace_by_call(op, functions[kind])


def _kind(op: IrOp) -> _Kind:
    types = tuple([x.type for x in (*op.operands, *op.results)])
    return op.name, len(op.operands), types, ir.DictAttr.get({n: op.attributes[n] for n in op.attributes})


def _function(op: IrOp, key: str, name: str, body: ir.Block, opset: OpSet) -> Any:
    """Adds a private function to the module block `body`, and returns it. It computes the results of the op."""
    alone = ir.Module.create()
    outline(op, name, alone.body)
    view = resolve(import_stablehlo(alone, name, opset))
    graph = view.graph(name)
    (definition,) = graph.definitions
    b: Any = opset.builder(view, view.fresh("W"))
    b.location = op.location
    given = opset.lowerings[key](b, definition, *definition.operands)
    results = list(given) if isinstance(given, list | tuple) else [given]
    b.finish(results)
    flat = materialize_merge(view, results, list(graph.inputs), opset, name)
    lowered = lower(structure(view, flat, opset), view=view)
    (lowered_function,) = operations(lowered.body)
    lowered_function.attributes["sym_visibility"] = ir.StringAttr.get("private")
    return lowered_function.clone(ir.InsertionPoint(body))
