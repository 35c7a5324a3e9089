"""Replaces a region by a loop over chunks of its dimension.

    region over rows of %q : 4096x64       ->   %c = reshape %q : 16x256x64
                                                %o = tidu.loop @body(sequence %c, invariants %k, %v) : 16x256x64
                                                %r = reshape %o : 4096x64

If the size is not a multiple of the size of a chunk, the ops for the rest follow the loop.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from math import prod

from torch_mlir import ir

from tiduc.dialect.emitters.bodies import IrEmitter
from tiduc.dialect.graph.functions import new_function, unused_symbol
from tiduc.dialect.graph.graph import terminator
from tiduc.dialect.graph.matching import defined_by
from tiduc.dialect.mlir.constants import is_splat
from tiduc.dialect.ops.control_ops import (
    CARRIES,
    CUSTOM_CALL,
    GRAPHS,
    LOOP,
    MEMORY,
    SEQUENCES,
    TARGET,
    sequence_type,
)
from tiduc.dialect.ops.ir_types import AnyModule, IrOp, IrValue
from tiduc.dialect.ops.verify import TERMINATOR
from tiduc.dialect.shapes.types import i64, shape, with_shape
from tiduc.passes.chunking.regions import COMPOSITE, CONSTANT, IOTA, Region, dependents

Inputs = Mapping[tuple[IrValue, int | None], IrValue]
"""Maps each input of a region, with its chunked dimension, to a chunk of the input or, without one, to all of it."""


@dataclass(frozen=True)
class _Given:
    """The values that a loop reads: those that it reads in `chunks`, each along a dimension, and the `invariants`.

    `ramps` maps an element type to the numbers 0, 1, ... along the chunked dimension. The loop reads chunks of them in
    place of iotas.
    """

    chunks: list[tuple[IrValue, int]]
    invariants: list[IrValue]
    ramps: dict[ir.Type, IrValue]

    @staticmethod
    def of(b: IrEmitter, region: Region) -> "_Given":
        """The values that a region reads. Emits the ramps."""
        chunks = [(x, d) for x, d in region.inputs if d is not None]
        invariants = [x for x, d in region.inputs if d is None and not _is_splat(x)]
        ramps: dict[ir.Type, IrValue] = {}
        for op in region.ordered:
            kind = op.results[0].type.element_type
            if op.name == IOTA and _along(op) == region.ops[op] and kind not in ramps:
                ramps[kind] = b.iota(0, ir.RankedTensorType.get([region.size], kind))
        return _Given([*chunks, *((x, 0) for x in ramps.values())], invariants, ramps)

    def values(self, chunks: Sequence[IrValue], invariants: Sequence[IrValue]) -> Inputs:
        """Maps the inputs to these values."""
        whole = [(x, None) for x in self.invariants]
        return dict(zip([*self.chunks, *whole], [*chunks, *invariants], strict=True))


def replace_by_loop(module: AnyModule, graph: IrOp, region: Region, size: int) -> None:
    """Replaces a region of a graph by a loop over chunks of `size` elements."""
    order, moved, outputs = region.ordered, dependents(region), region.outputs
    last, trips = order[-1], region.size // size
    b = IrEmitter(ir.InsertionPoint(last), last.location)
    given = _Given.of(b, region)
    body = _body(module, graph, region, size, given)
    sequences = [_sequence(b, x, d, trips, size) for x, d in given.chunks]
    results = _loop(b, body, sequences, given.invariants, trips)
    new = [_joined(b, y, region.of[old], size) for y, old in zip(results, outputs, strict=True)]
    if trips * size < region.size:
        chunks = [_part(b, x, d, trips * size, region.size) for x, d in given.chunks]
        values = given.values(chunks, given.invariants)
        rest = _copies(b, module, region, region.size - trips * size, values, given.ramps)
        new = [b.concatenate([y, rest[old]], region.of[old]) for y, old in zip(new, outputs, strict=True)]
    for op in moved:
        op.operation.move_before(last.operation)
    for old, y in zip(outputs, new, strict=True):
        old.replace_all_uses_with(y)
    for op in reversed(order):
        if not any(len(list(y.uses)) for y in op.results):
            op.operation.erase()


def _along(iota: IrOp) -> int:
    """The dimension along which an iota counts."""
    return int(iota.attributes["iota_dimension"].value)


def _body(module: AnyModule, graph: IrOp, region: Region, size: int, given: _Given) -> ir.Operation:
    """Creates the graph that computes a chunk of `size` elements of each output, and returns it."""
    name = unused_symbol(module.body, (f"{graph.attributes['sym_name'].value}.chunk{i}" for i in count()))
    types = [_of_size(x.type, d, size) for x, d in given.chunks] + [x.type for x in given.invariants]
    keys = [ir.FlatSymbolRefAttr.get(f"{name}.{i}") for i in range(len(types))]
    attributes = {
        "sym_name": ir.StringAttr.get(name),
        "sym_visibility": ir.StringAttr.get("private"),
        "inputs": ir.ArrayAttr.get(keys),
    }
    ip = ir.InsertionPoint(graph)
    body = ir.Operation.create("tidu.graph", attributes=attributes, regions=1, loc=graph.location, ip=ip)
    block = body.regions[0].blocks.append(*types)
    arguments, n = list(block.arguments), len(given.chunks)
    b = IrEmitter(ir.InsertionPoint(block), graph.location)
    values = given.values(arguments[:n], arguments[n:])
    copies = _copies(b, module, region, size, values, given.ramps)
    b.emit_all(TERMINATOR, [copies[y] for y in region.outputs], ())
    return body


def _loop(
    b: IrEmitter, body: IrOp, sequences: Sequence[IrValue], invariants: Sequence[IrValue], trips: int
) -> tuple[IrValue, ...]:
    """Emits a loop that runs the graph `body` for each element of the sequences. Returns its results."""
    returned = terminator(body.regions[0].blocks[0]).operands
    attributes = {
        TARGET: ir.StringAttr.get(LOOP),
        GRAPHS: ir.ArrayAttr.get([ir.FlatSymbolRefAttr.get(body.attributes["sym_name"].value)]),
        CARRIES: i64(0),
        SEQUENCES: i64(len(sequences)),
        MEMORY: ir.StringAttr.get("sqrt"),  # reverse mode recomputes the large arrays
    }
    types = [sequence_type(y.type, trips) for y in returned]
    return b.emit_all(CUSTOM_CALL, [*sequences, *invariants], types, attributes)


def _copies(
    b: IrEmitter,
    module: AnyModule,
    region: Region,
    size: int,
    inputs: Inputs,
    ramps: Mapping[ir.Type, IrValue],
) -> dict[IrValue, IrValue]:
    """Emits copies of a region's ops for a chunk of `size` elements. Maps each result to its copy."""
    copies: dict[IrValue, IrValue] = {}
    for op in region.ordered:
        e = region.ops[op]
        b.location = op.location
        types = [_of_size(y.type, e, size) for y in op.results]
        if op.name == CONSTANT:
            value = op.attributes["value"]
            splat = ir.DenseElementsAttr.get_splat(types[0], value.get_splat_value())
            made: Sequence[IrValue] = [b.emit(CONSTANT, (), types[0], {"value": splat})]
        elif op.name == IOTA and _along(op) == e:
            ramp = inputs[ramps[types[0].element_type], 0]
            made = [b.broadcast_in_dim(ramp, [e], types[0])]
        else:
            for x, d in region.reads(op):
                if x not in copies and (x, d) not in inputs:
                    copies[x] = _constant(b, x)
            operands = [inputs[x, d] if (x, d) in inputs else copies[x] for x, d in region.reads(op)]
            made = _copy(b, module, op, operands, types)
        copies.update(zip(op.results, made, strict=True))
    return copies


def _is_splat(x: IrValue) -> bool:
    """Whether x is a splat, which the loop's body computes."""
    constant = defined_by(x, CONSTANT)
    return constant is not None and is_splat(constant.attributes["value"])


def _constant(b: IrEmitter, x: IrValue) -> IrValue:
    """Emits a copy of a constant."""
    constant = defined_by(x, CONSTANT)
    assert constant is not None, "all chunks read all of the constant x"
    return b.emit(CONSTANT, (), x.type, {"value": constant.attributes["value"]})


def _copy(
    b: IrEmitter,
    module: AnyModule,
    op: IrOp,
    operands: Sequence[IrValue],
    types: Sequence[ir.RankedTensorType],
) -> list[IrValue]:
    copy = b.copied(op.operation, dict(zip(op.operands, operands, strict=True)))
    for i, x in enumerate(operands):
        copy.operands[i] = x
    for y, type_ in zip(copy.results, types, strict=True):
        y.set_type(type_)
    if op.name == COMPOSITE:
        copy.attributes["decomposition"] = ir.FlatSymbolRefAttr.get(_identity(module, op, types[0]))
    return list(copy.results)


def _identity(module: AnyModule, op: IrOp, type_: ir.RankedTensorType) -> str:
    """Adds an identity function, the decomposition of a copied composite, to the module. Returns its name."""
    stem = op.attributes["name"].value
    name = unused_symbol(module.body, (f"{stem}.chunk{i}" for i in count()))
    _, block = new_function(
        name, ([type_], [type_]), ir.InsertionPoint.at_block_begin(module.body), op.location
    )
    ir.Operation.create("func.return", operands=list(block.arguments), ip=ir.InsertionPoint(block))
    return name


def _of_size(type_: ir.RankedTensorType, d: int, size: int) -> ir.RankedTensorType:
    """The type with `size` elements along dimension d."""
    sizes = list(type_.shape)
    sizes[d] = size
    return with_shape(type_, sizes)


def _part(b: IrEmitter, x: IrValue, d: int, start: int, stop: int) -> IrValue:
    """The elements of x from `start` to `stop` along dimension d."""
    sizes = shape(x)
    if (start, stop) == (0, sizes[d]):
        return x
    first, limit = [0] * len(sizes), list(sizes)
    first[d], limit[d] = start, stop
    return b.slice(x, first, limit, [1] * len(sizes))


def _sequence(b: IrEmitter, x: IrValue, d: int, trips: int, size: int) -> IrValue:
    """The chunks of x along dimension d, along a new first dimension."""
    x = _part(b, x, d, 0, trips * size)
    sizes = shape(x)
    if prod(sizes[:d]) == 1:
        return b.reshape(x, [trips, *sizes[:d], size, *sizes[d + 1 :]])
    split = b.reshape(x, [*sizes[:d], trips, size, *sizes[d + 1 :]])
    return b.transpose(split, [d, *(i for i in range(len(sizes) + 1) if i != d)])


def _joined(b: IrEmitter, y: IrValue, d: int, size: int) -> IrValue:
    """The array whose chunks along dimension d are the elements of the sequence y."""
    trips, *sizes = shape(y)
    whole = [*sizes[:d], trips * size, *sizes[d + 1 :]]
    if prod(sizes[:d]) == 1:
        return b.reshape(y, whole)
    order = [*range(1, d + 1), 0, *range(d + 1, len(sizes) + 1)]
    return b.reshape(b.transpose(y, order), whole)
