"""rewrite: makes a graph return the values of some ops, and adds inputs to the values of others.

    y = sine x           ->   the graph returns y

    while (i, x)         ->   while (i, x, n = 0, stack = 0)        the graph returns the stack: y of each iteration
      y = sine x                y = sine x
                                stack[n] = y, n = n + 1

    y = sine x           ->   y = probe(sine x, e)                  e is an input, and probe(y, e) = y; the tangent
                                                                    of probe is dy + de

In a loop, values and inputs are stacks, with a row for each iteration. The tangent of a stack has the tangents of y,
and the cotangent of e is that of y. If an outermost loop has too many iterations for memory, it is cut: its stacks have
rows only for a window of iterations, and a last row, which all other iterations overwrite. The first iteration of the
window is an input of the graph.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch_mlir import ir

from tiduc.dialect.emitters.bodies import IrEmitter
from tiduc.dialect.graph.graph import operations, terminator
from tiduc.dialect.mlir.context import parse, stage
from tiduc.dialect.ops.control_ops import BOUND, CALL, CUSTOM_CALL, GRAPHS, TARGET
from tiduc.dialect.ops.ir_types import AnyModule, IrOp, IrValue
from tiduc.dialect.ops.verify import TERMINATOR
from tiduc.passes.importing.import_stablehlo import import_stablehlo
from tiduc.tracing.survey import WHILE, Survey, graph_in, survey

START = "trace.start"
"""The key of the input that is the first iteration of the window."""

PROBE = "trace.probe."
"""The beginning of the names of functions that probe values."""

_PROBE = """
func.func @main(%y: {0}, %e: {0}) -> {0} {{
  %0 = call @{1}(%y, %e) : ({0}, {0}) -> {0}
  return %0 : {0}
}}
func.func private @{1}(%y: {0}, %e: {0}) -> {0} attributes {{tidu.jvp = @{1}.jvp}} {{
  return %y : {0}
}}
func.func private @{1}.jvp(%y: {0}, %e: {0}, %dy: {0}, %de: {0}) -> ({0}, {0}) {{
  %0 = stablehlo.add %dy, %de : {0}
  return %y, %0 : {0}, {0}
}}
"""


@dataclass(frozen=True)
class Ran:
    """Asks for the iterations in which a region ran."""

    region: int


@dataclass(frozen=True)
class Trips:
    """Asks for the largest number of iterations of a loop, over all its runs."""

    region: int


Wanted = int | Ran | Trips
"""A value to return: the number of a site, or a fact about a region."""


@dataclass(frozen=True)
class Stacks:
    """For each loop, the size of the stacks of the values inside: its number of iterations, or the size of a window.

    `cut` is the loop, an outermost one, whose stacks hold a window; 0 for none.
    """

    sizes: Mapping[int, int]
    cut: int = 0

    def shape(self, found: Survey, path: tuple[int, ...]) -> tuple[int, ...]:
        """The leading dimensions of the stack of a value in these regions: one for each loop around it."""
        loops = found.loops[path[-1]] if path else ()
        return tuple(self.sizes[loop] + (loop == self.cut) for loop in loops)


@stage
def rewrite(
    module: AnyModule,
    name: str,
    stacks: Stacks,
    values: Sequence[Wanted] = (),
    probes: Sequence[int] = (),
) -> None:
    """Rewrites a graph of the module in place, so that it returns `values`; or its own outputs, if there are none.

    The graph gets an input for each site in `probes`, and then `START`. A loop is left alone if neither `values` nor
    `probes` needs it.
    """
    graph = graph_in(module, name)
    _Rewriter(module, graph, survey(graph), stacks, values, probes).run()


class _Rewriter:
    def __init__(
        self,
        module: AnyModule,
        graph: IrOp,
        found: Survey,
        stacks: Stacks,
        values: Sequence[Wanted],
        probes: Sequence[int],
    ) -> None:
        self.module, self.graph, self.found, self.stacks = module, graph, found, stacks
        self.wanted = values
        self.block: Any = graph.regions[0].blocks[0]
        self.value = list(found.values)
        self.entered = {region for key in (*values, *probes) for region in self.path_of(key)}
        self.replaced: list[IrOp] = []
        self.probes: dict[int, IrValue] = {}
        self.probed: dict[ir.Type, str] = {}  # type -> the function that probes a value of the type
        for n in probes:
            shape = stacks.shape(found, found.sites[n].regions)
            self.probes[n] = self.input(f"trace.{n}", _stacked(found.values[n].type, shape))
        self.start = self.input(START, ir.RankedTensorType.get([], ir.IntegerType.get_signless(32)))

    def path_of(self, key: Wanted) -> tuple[int, ...]:
        """The regions that a wanted value must leave to be returned; for `Trips`, its loop is one of them."""
        return self.found.sites[key].regions if isinstance(key, int) else self.found.path[key.region]

    def input(self, key: str, type_: ir.Type) -> IrValue:
        """A further input of the graph."""
        attributes = self.graph.attributes
        attributes["inputs"] = ir.ArrayAttr.get([*attributes["inputs"], ir.FlatSymbolRefAttr.get(key)])
        if "arg_attrs" in attributes:
            attributes["arg_attrs"] = ir.ArrayAttr.get([*attributes["arg_attrs"], ir.DictAttr.get({})])
        return self.block.add_argument(type_, self.graph.location)  # type: ignore[no-any-return]

    def run(self) -> None:
        first = IrEmitter(ir.InsertionPoint.at_block_begin(self.block), self.graph.location)
        current = {key: self.initial(first, key) for key in self.wanted if self.path_of(key)}
        self.visit(self.block, (), (), current)
        for op in self.replaced:
            op.operation.erase()
        if self.wanted:
            _end(self.block, [current[key] for key in self.wanted])
            if "res_attrs" in self.graph.attributes:
                del self.graph.attributes["res_attrs"]

    def initial(self, b: IrEmitter, key: Wanted) -> IrValue:
        """Zeros, in the type in which a value is returned."""
        if isinstance(key, Trips):
            return b.constant(0, self.start.type)
        shape = self.stacks.shape(self.found, self.path_of(key))
        if isinstance(key, Ran):
            return b.zero(ir.RankedTensorType.get(shape, ir.IntegerType.get_signless(1)))
        return b.zero(_stacked(self.value[key].type, shape))

    def visit(
        self,
        block: ir.Block,
        path: tuple[int, ...],
        indices: tuple[IrValue, ...],
        current: dict[Wanted, IrValue],
    ) -> None:
        """Rewrites a block. Afterwards `current` has the wanted values, or their stacks, at the end of the block."""
        *ops, end = operations(block)
        for op, following in zip(ops, [*ops[1:], end], strict=True):
            results = list(op.results)
            if not results:
                continue
            sites = [self.found.number[y] for y in results if y in self.found.number]
            numbers = self.found.controls.get(results[0], ())
            if not self.entered.isdisjoint(numbers):
                change = self.loop if op.name == WHILE else self.branches
                results = change(op, numbers, indices, current)
            for n in sites:
                y = self.value[n] = results[self.found.sites[n].result]
                if n in self.probes:
                    self.value[n] = self.probe(n, y, indices, ir.InsertionPoint(following))
        b = IrEmitter(ir.InsertionPoint(end), end.location)
        for key in self.wanted:
            if not isinstance(key, Trips) and self.path_of(key) == path:
                current[key] = self.written(b, key, current.get(key), indices)

    def written(
        self, b: IrEmitter, key: int | Ran, stack: IrValue | None, indices: tuple[IrValue, ...]
    ) -> IrValue:
        """The stack of a value, with the value of this iteration; the value itself outside of loops."""
        y = b.constant(1, ir.RankedTensorType.get([], ir.IntegerType.get_signless(1)))
        y = y if isinstance(key, Ran) else self.value[key]
        if not indices:
            return y
        sizes = [*[1] * len(indices), *y.type.shape]
        zero = b.constant(0, self.start.type)
        start = [*indices, *[zero] * y.type.rank]
        assert stack is not None, "a value in a loop has a stack"
        return b.dynamic_update_slice(stack, b.reshape(y, sizes), start)

    def loop(
        self,
        op: IrOp,
        numbers: tuple[int, ...],
        indices: tuple[IrValue, ...],
        current: dict[Wanted, IrValue],
    ) -> list[IrValue]:
        """Gives a loop a counter and the stacks of the values inside. Returns the results that stand for its own."""
        (region,) = numbers
        inside = [key for key in current if region in self.path_of(key) and key != Trips(region)]
        b = IrEmitter(ir.InsertionPoint(op), op.location)
        more = [b.constant(0, self.start.type), *[current[key] for key in inside]]
        count = len(op.operands)
        new = _replacement(op, more)
        if region in self.stacks.sizes and region != self.stacks.cut:
            i64 = ir.IntegerType.get_signless(64)  # with a bound, reverse mode keeps stacks
            new.attributes[BOUND] = ir.IntegerAttr.get(i64, self.stacks.sizes[region])
        for at in new.regions:
            for x in more:
                at.blocks[0].add_argument(x.type, op.location)
        body = new.regions[1].blocks[0]
        counter, *stacks = list(body.arguments)[count:]
        b = IrEmitter(ir.InsertionPoint.at_block_begin(body), op.location)
        index = self.windowed(b, counter, region) if region == self.stacks.cut else counter
        kept = dict(zip(inside, stacks, strict=True))
        self.visit(body, self.found.path[region], (*indices, index), kept)
        b = IrEmitter(ir.InsertionPoint(terminator(body)), op.location)
        _end(body, [*terminator(body).operands, b.add(counter, 1), *kept.values()])
        results: list[IrValue] = list(new.results)
        current.update(zip(inside, results[count + 1 :], strict=True))
        if (trips := Trips(region)) in current:
            b = IrEmitter(ir.InsertionPoint(op), op.location)  # after `new`
            current[trips] = b.maximum(current[trips], results[count])
        return self.replace(op, results[:count])

    def windowed(self, b: IrEmitter, counter: IrValue, region: int) -> IrValue:
        """The row of the stacks for an iteration of an outermost loop."""
        size = b.constant(self.stacks.sizes[region], counter.type)
        row = b.emit("stablehlo.subtract", [counter, self.start], counter.type)
        is_before = b.compare(row, b.constant(0, counter.type), "LT")
        return b.minimum(b.select(is_before, size, row), size)

    def branches(
        self,
        op: IrOp,
        numbers: tuple[int, ...],
        indices: tuple[IrValue, ...],
        current: dict[Wanted, IrValue],
    ) -> list[IrValue]:
        """Makes branches return the values inside. Returns the results that stand for the op's own."""
        inside = [key for key in current if not set(numbers).isdisjoint(self.path_of(key))]
        more = [current[key] for key in inside]
        count = len(op.results)
        new = _replacement(op, [], more)
        for region, number in zip(new.regions, numbers, strict=True):
            kept, block = {key: current[key] for key in inside}, region.blocks[0]
            self.visit(block, self.found.path[number], indices, kept)
            _end(block, [*terminator(block).operands, *kept.values()])
        results: list[IrValue] = list(new.results)
        current.update(zip(inside, results[count:], strict=True))
        return self.replace(op, results[:count])

    def replace(self, op: IrOp, results: list[IrValue]) -> list[IrValue]:
        """Replaces the results of an op. The op is erased only at the end, so that no new value gets its address."""
        for old, y in zip(op.results, results, strict=True):
            old.replace_all_uses_with(y)
        self.replaced.append(op)
        return results

    def probe(self, n: int, y: IrValue, indices: tuple[IrValue, ...], ip: ir.InsertionPoint) -> IrValue:
        """Replaces a value by a call of the function that probes it."""
        b, e = IrEmitter(ip, y.location), self.probes[n]
        if indices:
            zero = b.constant(0, self.start.type)
            sizes = [*[1] * len(indices), *y.type.shape]
            part = b.dynamic_slice(e, [*indices, *[zero] * y.type.rank], sizes)
            e = b.reshape(part, list(y.type.shape))
        attributes = {
            TARGET: ir.StringAttr.get(CALL),
            GRAPHS: ir.ArrayAttr.get([ir.FlatSymbolRefAttr.get(self.function(y.type))]),
        }
        call = ir.Operation.create(CUSTOM_CALL, [y.type], [e, e], attributes, loc=y.location, ip=ip)
        y.replace_all_uses_with(call.result)
        call.operands[0] = y
        return call.result

    def function(self, type_: ir.Type) -> str:
        """The name of the private graph that probes values of a type."""
        if type_ not in self.probed:
            name = self.probed[type_] = f"{PROBE}{len(self.probed)}"
            graphs = import_stablehlo(parse(_PROBE.format(type_, name)))
            ip = ir.InsertionPoint(self.module.body)
            for each in list(operations(graphs.body))[1:]:
                each.clone(ip)
        return self.probed[type_]


def _stacked(type_: ir.RankedTensorType, shape: Sequence[int]) -> ir.RankedTensorType:
    """The type with further leading dimensions; the type itself outside of loops, where it may be dynamic."""
    return ir.RankedTensorType.get([*shape, *type_.shape], type_.element_type) if shape else type_


def _replacement(op: IrOp, operands: Sequence[IrValue], results: Sequence[IrValue] = ()) -> ir.Operation:
    """An op in front of `op`, which takes its regions. It has further operands, and a result for each of these.

    It also has further results, of the types of `results`.
    """
    attributes = {name: op.attributes[name] for name in op.attributes}
    types = [*[y.type for y in op.results], *[x.type for x in (*operands, *results)]]
    ip = ir.InsertionPoint(op)
    given = [*op.operands, *operands]
    new = ir.Operation.create(op.name, types, given, attributes, None, len(op.regions), op.location, ip)
    for old, region in zip(op.regions, new.regions, strict=True):
        old.blocks[0].append_to(region)
    return new


def _end(block: ir.Block, returned: Sequence[IrValue]) -> None:
    """Gives a block another terminator, which returns these values."""
    old = terminator(block)
    ir.Operation.create(TERMINATOR, operands=returned, loc=old.location, ip=ir.InsertionPoint(old))
    old.erase()
