"""Reads, builds and copies regions that compute with scalars, such as the bodies of reductions and comparators."""

from collections.abc import Sequence

from torch_mlir import ir

from tiduc.dialect.emitters.protocol import Fill
from tiduc.dialect.emitters.stablehlo_ops import StablehloOps
from tiduc.dialect.errors import UnknownSize
from tiduc.dialect.graph.graph import Definition, captured, operations, replace_captured, terminator
from tiduc.dialect.ops.control_ops import call_target
from tiduc.dialect.ops.ir_types import Attributes, IrOp, IrValue
from tiduc.dialect.ops.shardy import CONSTRAINTS
from tiduc.dialect.shapes.sizes import Extent

_NUMBERS = int, float
"""`IrEmitter` accepts operands of these Python types, and converts them to constants."""


class IrEmitter(StablehloOps[IrValue, float]):
    """Emits MLIR operations at an insertion point. An operand may be a Python number."""

    def __init__(self, ip: ir.InsertionPoint, location: ir.Location) -> None:
        self.constants = {}
        self.location = location
        self._ip = ip

    def emit_all(
        self,
        name: str,
        operands: Sequence[IrValue | float],
        types: Sequence[ir.Type],
        attributes: Attributes | None = None,
        regions: Sequence[Fill] = (),
    ) -> tuple[IrValue, ...]:
        """Emits an op and returns its results.

        A number among the operands becomes a splat constant with the type of the last operand that is not a number.
        """
        values = [x for x in operands if not isinstance(x, _NUMBERS)]
        if len(values) < len(operands):
            values = [self.constant(x, values[-1]) if isinstance(x, _NUMBERS) else x for x in operands]
        op = ir.Operation.create(name, types, values, attributes, None, len(regions), self.location, self._ip)
        for fill, region in zip(regions, op.regions, strict=True):
            fill(region)
        return tuple(op.results)

    def emit(
        self,
        name: str,
        operands: Sequence[IrValue | float],
        type_: ir.Type,
        attributes: Attributes | None = None,
    ) -> IrValue:
        return self.emit_all(name, operands, (type_,), attributes)[0]

    def size(self, n: Extent) -> IrValue:
        """Raises `UnknownSize`, because only graphs record how the size of a dynamic dimension can be computed."""
        raise UnknownSize("its region would need the size of a dynamic dimension")

    def inlined(self, region: ir.Region, arguments: Sequence[IrValue]) -> list[IrValue]:
        """Emits copies of the ops in a region, with `arguments` in place of the region's arguments.

        Returns the values that correspond to the operands of the region's terminator.
        """
        values: dict[IrValue, IrValue] = dict(zip(region.blocks[0].arguments, arguments, strict=True))
        *inside, last = operations(region.blocks[0])
        for inner in inside:
            self.copied(inner, values)
        return [values.get(x, x) for x in last.operands]

    def copied(self, op: ir.Operation, values: dict[IrValue, IrValue]) -> IrOp:
        """Emits a copy of an op, and returns the copy.

        The map `values` gives the values that replace the op's operands and captured values; other values
        stay. Adds the results of the copy to the map.
        """
        copy = op.clone(self._ip)
        for i, x in enumerate(op.operands):
            if x in values:
                copy.operands[i] = values[x]
        replace_captured(copy, [values.get(x, x) for x in captured(op)])
        values.update(zip(op.results, copy.results, strict=True))
        return copy


class RegionBuilder(IrEmitter):
    """Adds a block with arguments of the types `types` to an empty region, and emits ops into this block.

    The ops read no values from outside of the region.
    """

    def __init__(self, region: ir.Region, types: Sequence[ir.Type], location: ir.Location) -> None:
        self.block = region.blocks.append(*types, arg_locs=[location] * len(types))
        self.arguments: list[IrValue] = list(self.block.arguments)
        super().__init__(ir.InsertionPoint(self.block), location)

    def returns(self, *values: IrValue) -> None:
        """Ends the region with a `stablehlo.return` of `values`."""
        self.emit_all("stablehlo.return", values, ())

    def copy_of(self, op: Definition, region: int, arguments: Sequence[IrValue]) -> dict[IrValue, IrValue]:
        """Copies the ops of a region of `op`, except `stablehlo.return`, with `arguments` as the region's arguments.

        Returns a map from the values in the region to their copies. Requires `self_contained(op)`, so the region
        captures only constants. They are copied, too: MLIR's folder may have moved them out of the region.
        """
        block = op.regions[region].blocks[0]
        values: dict[IrValue, IrValue] = dict(zip(block.arguments, arguments, strict=True))
        for inside, outside in zip(captured(op.source), op.captures, strict=True):
            assert outside.definition is not None  # `outside` is a constant, because the op is self-contained
            values[inside] = outside.definition.create((), (), self._ip).result
        for inner in operations(block):
            if inner.name != "stablehlo.return":
                self.copied(inner, values)
        return values


def self_contained(op: Definition) -> bool:
    """Whether the op's regions capture only constants."""
    definitions = [x.definition for x in op.captures]
    return all(d is not None and d.name == "stablehlo.constant" for d in definitions)


def returned(op: Definition | IrOp, region: int = 0) -> tuple[IrValue, ...]:
    """The operands of a region's terminator."""
    block = op.regions[region].blocks[0]
    return tuple(terminator(block).operands)


def reducer(op: Definition | IrOp, result: int = 0, region: int = 0) -> str | None:
    """The name of the binary op by which a reducer's body computes result number `result`, such as `stablehlo.add`.

    None unless the op's two operands are the two arguments for this result, in any order. Ignores sharding constraints,
    which JAX may put on the result, because they have no effect on a scalar.
    """
    block = op.regions[region].blocks[0]
    value, arguments = returned(op, region)[result], list(block.arguments)
    while not isinstance(value.owner, ir.Block) and call_target(value.owner.operation) in CONSTRAINTS:
        value = value.owner.operation.operands[0]
    of = [arguments[result], arguments[len(arguments) // 2 + result]]
    for inner in operations(block):
        if value in inner.results and list(inner.operands) in (of, of[::-1]) and not len(inner.regions):
            return inner.name  # type: ignore[no-any-return]
    return None
