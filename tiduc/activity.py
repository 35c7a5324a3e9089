"""Activity analysis: finds the values that tangents reach, and says why tangents do not reach the others.

    %0 = stablehlo.multiply %a, %x      wrt = {x}      %0: active
    %1 = stablehlo.compare GT, %0, %c   ->             %1: its type has no tangent
    %2 = stablehlo.floor %0                            %2: the derivative of floor is zero

The analysis walks the operations of functions and graphs. An argument of a function is active if any caller passes an
active operand; a loop-carried value is active if any iteration makes it active. `linearize` applies the rule of each op
and may find fewer active values, because a rule may know that a result does not depend on an operand. If the two
disagree, `linearize` is right.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch_mlir import ir

from tiduc.dialect.graph.graph import operations, terminator
from tiduc.dialect.ops.control_ops import CUSTOM_CALL, GRAPH_CALLS, call_target
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.ops.traits import CONTROL
from tiduc.dialect.ops.verify import ACTIVE, INPUT_OF
from tiduc.passes.rules import OPSET
from tiduc.passes.rules.registry import OpSet

GRAPHS = "called_computations"
NO_INPUT = "it depends on no input in wrt"
REACHED = "a tangent reaches it"


@dataclass
class Activity:
    """The activity of the values of a module.

    `active` holds the primal values that tangents reach, and `linear` holds the tangents and cotangents. `why` maps
    each op without an active result to the reason why tangents do not pass it.
    """

    active: set[Any] = field(default_factory=set)
    linear: set[Any] = field(default_factory=set)
    why: dict[Any, str] = field(default_factory=dict)

    def of(self, x: IrValue) -> str:
        """Returns the activity of a value: "linear", "active" or "inactive".

        "linear" is a tangent or cotangent; "active" is a primal value that a tangent reaches.
        """
        return "linear" if x in self.linear else "active" if x in self.active else "inactive"


def functions(module: ir.Module) -> dict[str, Any]:
    """Maps symbols to the functions and graphs of a module that have a body."""
    return {
        str(ir.StringAttr(op.attributes["sym_name"]).value): op
        for op in operations(module.body)
        if op.name in ("func.func", "tidu.graph") and len(op.regions[0].blocks)
    }


def callees(op: IrOp) -> list[str]:
    """Returns the names of the functions or graphs that an op calls."""
    if op.name in ("func.call", "call"):
        return [str(ir.FlatSymbolRefAttr(op.attributes["callee"]).value)]
    if op.name == CUSTOM_CALL and GRAPHS in op.attributes:
        return [str(ir.FlatSymbolRefAttr(x).value) for x in op.attributes[GRAPHS]]
    return []


def name_of(op: IrOp) -> str:
    """Returns the name of an op.

    For a custom call that represents an op of the dialect `tidu`, returns the name of that op.
    """
    target = call_target(op)
    return str(target if target in GRAPH_CALLS else op.name)


def find_activity(
    module: ir.Module,
    wrt: Mapping[str, Iterable[int]],
    opset: OpSet = OPSET,
    tangents: Mapping[str, Iterable[int]] | None = None,
) -> Activity:
    """Computes the activity of a module's values from the active inputs of its functions and graphs.

    `wrt` maps the symbol of a function or graph to the positions of its active inputs. `tangents` maps the symbol to
    the positions of the inputs that are tangents or cotangents. In linear graphs, all inputs are tangents or
    cotangents. A reference to a value of another graph has the activity of that value.
    """
    walk = _Walk(functions(module), opset)
    for given, into in ((wrt, walk.result.active), (tangents or {}, walk.result.linear)):
        for name, positions in given.items():
            arguments = walk.functions[name].regions[0].blocks[0].arguments
            into.update(arguments[i] for i in positions)
    for op in walk.functions.values():
        if INPUT_OF in op.attributes:
            walk.result.linear.update(op.regions[0].blocks[0].arguments)
    while walk.grew:
        walk.grew = False
        for op in walk.functions.values():
            walk.block(op.regions[0].blocks[0])
    return walk.result


class _Walk:
    """A fixed-point iteration that walks all bodies until no further value becomes active."""

    def __init__(self, functions: dict[str, IrOp], opset: OpSet) -> None:
        self.functions = functions
        self.opset = opset
        self.result = Activity()
        self.grew = True
        self.named = {name: named_values(op) for name, op in functions.items() if op.name == "tidu.graph"}

    def block(self, block: ir.Block) -> None:
        for op in operations(block):
            if len(op.results):
                self.op(op)

    def op(self, op: ir.Operation) -> None:
        """Propagates activity from the operands of an op to its results, and into its regions and callees."""
        if op.name == "tidu.external":
            graph, name = op.attributes["ref"].value
            self.mark(op.results, [self.named.get(graph, {}).get(name)])
            return
        bodies = [block for region in op.regions for block in region.blocks]
        callees_ = [self.functions[name] for name in callees(op) if name in self.functions]
        linear = ACTIVE in op.attributes or any(x in self.result.linear for x in op.operands)
        reads = [
            *op.operands,
            *(x for block in bodies for inner in operations(block) for x in inner.operands),
        ]
        if not linear and not any(x in self.result.active for x in reads):
            self.result.why[op] = NO_INPUT
            return
        if callees_ or op.name in CONTROL:
            self.control(op, bodies, callees_)
        elif self.opset.key(op) in self.opset.inactive_ops:
            self.result.why[op] = f"the derivative of {op.name.partition('.')[2]} is zero wherever it exists"
            return
        else:
            self.grow(op.results, self.result.linear if linear else self.result.active)
        if any(y in self.result.active or y in self.result.linear for y in op.results):
            self.result.why.pop(op, None)
        elif not any(map(self.has_tangent, op.results)):
            self.result.why[op] = f"{_types(op)} has no tangent"
        else:
            self.result.why[op] = NO_INPUT

    def control(self, op: IrOp, bodies: Sequence[ir.Block], called: Sequence[IrOp]) -> None:
        """Propagates activity from operands into bodies, from returned values into results, and around loops."""
        if op.name == "stablehlo.while":
            for block in bodies:
                self.aligned(block.arguments, op.operands)
        for block in bodies:
            self.block(block)
        ends = [terminator(block) for block in bodies]
        if op.name == "stablehlo.while":
            self.aligned(op.results, op.operands)
            self.aligned(op.results, ends[1].operands)
            for block in bodies:
                self.aligned(block.arguments, op.results)
            return
        for end in ends:
            self.aligned(op.results, end.operands)
        for callee in called:
            block = callee.regions[0].blocks[0]
            if name_of(op) in ("func.call", "call", "tidu.call"):
                self.aligned(block.arguments, op.operands)
                self.aligned(op.results, terminator(block).operands)
            else:  # loops and branches over graphs: any operand may affect any result
                self.mark(block.arguments, op.operands)
                self.mark(op.results, op.operands)

    def aligned(self, to: Sequence[IrValue], of: Sequence[IrValue]) -> None:
        for y, x in zip(to, of, strict=False):
            self.mark([y], [x])

    def mark(self, results: Iterable[IrValue], because_of: Iterable[IrValue | None]) -> None:
        """Makes the results linear if a value in `because_of` is linear, or else active if such a value is active.

        Results whose type has no tangent stay inactive.
        """
        because_of = list(because_of)
        if any(x in self.result.linear for x in because_of):
            self.grow(results, self.result.linear)
        elif any(x in self.result.active for x in because_of):
            self.grow(results, self.result.active)

    def grow(self, results: Iterable[IrValue], into: set[IrValue]) -> None:
        for y in results:
            if y not in into and self.has_tangent(y):
                into.add(y)
                self.grew = True

    def has_tangent(self, x: IrValue) -> bool:
        """Whether the type of a value, or an element type of a tuple, has tangents."""
        waiting = [x.type]
        while waiting:
            type_ = waiting.pop()
            if isinstance(type_, ir.TupleType):
                waiting += [type_.get_type(i) for i in range(type_.num_types)]
            elif self.opset.builder.tangent_type(type_) is not None:
                return True
        return False


def named_values(graph: IrOp) -> dict[str, IrValue]:
    """Maps the names that references use to the values of a graph."""
    block = graph.regions[0].blocks[0]
    keys = [str(ir.FlatSymbolRefAttr(key).value) for key in graph.attributes["inputs"]]
    values = dict(zip(keys, block.arguments, strict=True))
    for op in operations(block):
        if op.name == "tidu.name":
            values[str(ir.StringAttr(op.attributes["sym_name"]).value)] = op.operands[0]
    return values


def _types(op: IrOp) -> str:
    return ", ".join(sorted({str(y.type).removeprefix("tensor<").removesuffix(">") for y in op.results}))
