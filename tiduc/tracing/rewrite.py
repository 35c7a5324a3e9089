"""rewrite: makes a graph return the values of some ops, and adds an input to each of some values.

    y = sine x           ->   the graph returns y

    while (i, x)         ->   while (i, x, n = 0, stack = 0)        the graph returns the stack of all y
      y = sine x                y = sine x
                                stack[n] = y, n = n + 1

    y = sine x           ->   y = probe(sine x, e)                  e is an input. probe(y, e) returns y, and its
                                                                    tangent is dy + de

In a loop, the graph returns a stack, which has a row for each iteration, and the input e is also such a stack. The
tangent of the stack of y contains the tangents of y, and the cotangent of e is the cotangent of y. If the stacks of an
outermost loop do not fit into memory, they have rows only for a window of consecutive iterations and one more row,
which all other iterations overwrite. The number of the first iteration of the window is an input of the graph.
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
"""The key of the graph input that has the number of the first iteration of the window."""

PROBE = "trace.probe."
"""The prefix of the names of the functions `probe`. There is one function for each type."""

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
    """Requests the iterations in which a region ran: the graph returns a boolean for each iteration."""

    region: int


@dataclass(frozen=True)
class Trips:
    """Requests the largest trip count among all runs of a loop. `region` is the number of the loop's body."""

    region: int


Wanted = int | Ran | Trips
"""A value that the graph shall return. An int is the number of a site."""


@dataclass(frozen=True)
class Stacks:
    """The sizes of stacks. A loop is identified by the region number of its body.

    `sizes` maps each loop to the number of its iterations that the stacks of its values hold. `cut` is the outermost
    loop whose stacks hold only a window of iterations. It is 0 if the stacks of all loops hold all iterations.
    """

    sizes: Mapping[int, int]
    cut: int = 0

    def shape(self, found: Survey, path: tuple[int, ...]) -> tuple[int, ...]:
        """Returns the leading dimensions of the stack of a value in the regions `path`.

        There is one dimension for each loop around the value.
        """
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
    """Rewrites the graph `name` of the module in place, so that it returns `values` instead of its outputs.

    If `values` is empty, the graph returns its outputs as before. The graph gets an input for each site in `probes`,
    and a last input `START`. A loop remains unchanged if it contains none of the `values` and `probes`.
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
        self.probed: dict[ir.Type, str] = {}  # type -> the name of the function `probe` for this type
        for n in probes:
            shape = stacks.shape(found, found.sites[n].regions)
            self.probes[n] = self.input(f"trace.{n}", _stacked(found.values[n].type, shape))
        self.start = self.input(START, ir.RankedTensorType.get([], ir.IntegerType.get_signless(32)))

    def path_of(self, key: Wanted) -> tuple[int, ...]:
        """Returns the regions around a wanted value, the outermost first.

        For `Ran` and `Trips`, the last is their region.
        """
        return self.found.sites[key].regions if isinstance(key, int) else self.found.path[key.region]

    def input(self, key: str, type_: ir.Type) -> IrValue:
        """Adds an input to the graph and returns its block argument."""
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
        """Returns the initial value of a stack or trip count: zeros of the type that the graph returns for `key`."""
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
        """Rewrites the ops of a block, and updates `current` to what the block must return for each wanted value.

        This is the value itself, its stack if it is in a loop, or a trip count.
        """
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
        """Emits an op that writes the value of this iteration to its stack, and returns the new stack.

        Outside of loops, returns the value itself.
        """
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
        """Adds an iteration counter and the stacks of wanted values to the values that a loop carries.

        Returns the results of the new loop that replace the results of `op`.
        """
        (region,) = numbers
        inside = [key for key in current if region in self.path_of(key) and key != Trips(region)]
        b = IrEmitter(ir.InsertionPoint(op), op.location)
        more = [b.constant(0, self.start.type), *[current[key] for key in inside]]
        count = len(op.operands)
        new = _replacement(op, more)
        if region in self.stacks.sizes and region != self.stacks.cut:
            # With a bound on the trip count, reverse mode stores residuals in stacks of this size.
            i64 = ir.IntegerType.get_signless(64)
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
            b = IrEmitter(ir.InsertionPoint(op), op.location)  # `new` precedes `op`
            current[trips] = b.maximum(current[trips], results[count])
        return self.replace(op, results[:count])

    def windowed(self, b: IrEmitter, counter: IrValue, region: int) -> IrValue:
        """Returns the row of the stacks for iteration `counter`. If it is outside the window, this is the last row."""
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
        """Makes branches return the wanted values that they contain.

        Returns the results of the new op that replace the results of `op`.
        """
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
        """Replaces all uses of the results of `op` by `results`.

        `run` erases the op later. Otherwise a new value could get the address of a result of `op`, and they would be
        equal as keys of dictionaries.
        """
        for old, y in zip(op.results, results, strict=True):
            old.replace_all_uses_with(y)
        self.replaced.append(op)
        return results

    def probe(self, n: int, y: IrValue, indices: tuple[IrValue, ...], ip: ir.InsertionPoint) -> IrValue:
        """Replaces the uses of the value `y` of site `n` by a call of the function `probe`, and returns its result."""
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
        """Returns the name of the function `probe` for a type.

        The first call for a type adds the function to the module.
        """
        if type_ not in self.probed:
            name = self.probed[type_] = f"{PROBE}{len(self.probed)}"
            graphs = import_stablehlo(parse(_PROBE.format(type_, name)))
            ip = ir.InsertionPoint(self.module.body)
            for each in list(operations(graphs.body))[1:]:
                each.clone(ip)
        return self.probed[type_]


def _stacked(type_: ir.RankedTensorType, shape: Sequence[int]) -> ir.RankedTensorType:
    """Returns the type with the leading dimensions `shape`.

    If `shape` is empty, returns the type, which may be dynamic.
    """
    return ir.RankedTensorType.get([*shape, *type_.shape], type_.element_type) if shape else type_


def _replacement(op: IrOp, operands: Sequence[IrValue], results: Sequence[IrValue] = ()) -> ir.Operation:
    """Creates an op like `op` in front of `op`, and moves the regions of `op` to it.

    The new op has the additional operands `operands`. It has an additional result of the type of each value in
    `operands` and `results`.
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
    """Replaces the terminator of a block by a terminator that returns `returned`."""
    old = terminator(block)
    ir.Operation.create(TERMINATOR, operands=returned, loc=old.location, ip=ir.InsertionPoint(old))
    old.erase()
