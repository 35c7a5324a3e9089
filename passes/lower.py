"""lower: a flat graph to a `func.func` of plain StableHLO.

    "tidu.graph"() ({ ^bb0(%x: T):                          func.func @main(%x: T) -> T {
      %t = stablehlo.multiply %a, %x {tidu.active = ...} ->   %0 = stablehlo.multiply %a, %x
      "tidu.return"(%t) }) {sym_name = "main"}                return %0 }

Active masks are dropped, after which ops that differed only in them are equal; then simplification runs until
nothing shrinks any more.
"""

from typing import Any

from torch_mlir import ir

from tiduc.dialect.context import run_passes, stage
from tiduc.dialect.graph import Graph, operations
from tiduc.dialect.verify import ACTIVE, MERGED
from tiduc.passes.simplify import simplify

_CLEAN = "builtin.module(func.func(canonicalize{region-simplify=disabled},stablehlo-aggressive-simplification,cse))"
_OWN = ("inputs", MERGED)


@stage
def lower(graph: Graph, attributes: dict[str, Any] | None = None) -> Any:
    """A new module with one public function of the graph's name; `graph` must refer to no other.

    `attributes` are those of the module. The graph's `arg_attrs` and `res_attrs`, where it has them, become the
    function's.
    """
    module = ir.Module.create()
    for name, value in (attributes or {}).items():
        module.operation.attributes[name] = value
    function = _to_function(graph, module)
    operations_, size = function.regions[0].blocks[0].operations, -1
    while size != len(operations_):
        size = len(operations_)
        simplify(function)
        run_passes(module.operation, _CLEAN)
    return module


def _to_function(graph: Graph, module: Any) -> Any:
    copy = graph.op.clone(ir.InsertionPoint(module.body))
    block = copy.regions[0].blocks[0]
    for op in list(operations(block)):
        if op.name == "tidu.name":
            op.erase()
        elif op.name == "tidu.return":
            outputs = list(op.operands)
            ir.Operation.create("func.return", operands=outputs, loc=op.location, ip=ir.InsertionPoint(op))
            op.erase()
        elif ACTIVE in op.attributes:
            del op.attributes[ACTIVE]
    kept = {name: copy.attributes[name] for name in copy.attributes if name not in _OWN}
    type_ = ir.FunctionType.get([x.type for x in block.arguments], [x.type for x in outputs])
    kept["function_type"] = ir.TypeAttr.get(type_)
    function = ir.Operation.create(
        "func.func", attributes=kept, regions=1, loc=copy.location, ip=ir.InsertionPoint(copy)
    )
    block.append_to(function.regions[0])
    copy.erase()
    return function
