"""Patterns by the name of the op they replace, and the emitter that they are given."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from torch_mlir import ir

from tiduc.dialect.bodies import Body, Fill
from tiduc.dialect.graph import operations
from tiduc.dialect.types import element, is_open, with_element, with_shape

Pattern = Callable[["Emitter", Any], Sequence[Any] | None]

PATTERNS: dict[str, Pattern] = {}
"""What an op of that name is replaced by; None where it stays. The pattern may change the op in place."""


CPU_ONLY: set[Pattern] = set()
"""Patterns about IREE's code for CPUs, some of which want f64 and the C library."""


ON_SPIRV: dict[str, Pattern] = {}
"""What is tried before `PATTERNS` where code is SPIR-V."""


ON_OPEN_SIZES: dict[str, Pattern] = {}
"""What is tried before both where sizes of an operand, or of a result, are open."""


def legalize(
    *names: str, cpu: bool = False, spirv: bool = False, open_sizes: bool = False
) -> Callable[[Pattern], Pattern]:
    """Registers a pattern for ops of these names, on all targets or, with `cpu`, on CPUs; with `spirv`, there alone.

    With `open_sizes` it is for ops that have such.
    """
    patterns = ON_OPEN_SIZES if open_sizes else ON_SPIRV if spirv else PATTERNS

    def register(pattern: Pattern) -> Pattern:
        for name in names:
            assert name not in patterns, name
            patterns[name] = pattern
        if cpu:
            CPU_ONLY.add(pattern)
        return pattern

    return register


class Emitter(Body):
    """Emits ops at a place in a block; what it emits is kept, since it may need patterns in turn."""

    def __init__(
        self, ip: Any, location: Any, cpu: bool = True, lapack: bool = False, fused: bool = False
    ) -> None:
        self.constants = {}
        self.location = location
        self.emitted: list[Any] = []
        self.cpu = cpu
        self.lapack = lapack  # of the host, which a module may call back
        self.fused = fused  # the target multiplies and adds in one instruction
        self._ip = ip

    @property
    def place(self) -> Any:
        """Where it emits."""
        return self._ip

    def emit_all(
        self,
        name: str,
        operands: Sequence[Any],
        types: Sequence[Any],
        attributes: Mapping[str, Any] | None = None,
        regions: Sequence[Fill] = (),
    ) -> tuple[Any, ...]:
        results = super().emit_all(name, operands, types, attributes, regions)
        self.emitted.append(results[0].owner if results else None)
        return results

    def again(
        self, op: Any, replaced: Mapping[int, Any], types: Sequence[Any] | None = None
    ) -> tuple[Any, ...]:
        """A copy of the op, regions included, of other operands, or result types."""
        operands = [replaced.get(i, x) for i, x in enumerate(op.operands)]
        copies = [lambda region, source=region: _copy(source, region) for region in op.regions]
        attributes = {name: op.attributes[name] for name in op.attributes}
        return self.emit_all(op.name, operands, types or [y.type for y in op.results], attributes, copies)

    def copied(self, op: Any, values: dict[Any, Any]) -> None:
        """Emits a copy of an op that reads other values than these; its results stand for the op's from then on."""
        copy = op.clone(self._ip)
        _rename(copy, values)
        self.emitted.append(copy)
        values.update(zip(op.results, copy.results, strict=True))

    def inlined(self, region: Any, arguments: Sequence[Any]) -> list[Any]:
        """What a region returns for these arguments, its ops emitted here."""
        values = dict(zip(region.blocks[0].arguments, arguments, strict=True))
        for inner in operations(region.blocks[0]):
            if inner.name == "stablehlo.return":
                return [values.get(x, x) for x in inner.operands]
            self.copied(inner, values)
        raise AssertionError("a region without a return")

    def region(self, types: Sequence[Any], fill: Callable[..., Sequence[Any]]) -> Fill:
        """What fills a region with `fill(emitter, *arguments)`, which may read values from outside."""

        def run(region: Any) -> None:
            block = region.blocks.append(*types, arg_locs=[self.location] * len(types))
            inner = Emitter(ir.InsertionPoint(block), self.location, self.cpu, self.lapack, self.fused)
            inner.returns(*fill(inner, *block.arguments))
            self.emitted += inner.emitted

        return run

    def while_(
        self,
        initial: Sequence[Any],
        condition: Callable[..., Any],
        body: Callable[..., Sequence[Any]],
    ) -> tuple[Any, ...]:
        """The carries when the condition ceases to hold."""
        types = [x.type for x in initial]
        regions = [self.region(types, lambda b, *xs: [condition(b, *xs)]), self.region(types, body)]
        return self.emit_all("stablehlo.while", initial, types, None, regions)

    def for_(self, count: int, initial: Sequence[Any], body: Callable[..., Sequence[Any]]) -> tuple[Any, ...]:
        """The carries after `body(emitter, i, *carries)` for i from 0 to below `count`."""
        i32 = ir.RankedTensorType.get([], ir.IntegerType.get_signless(32))
        return self.while_(
            [self.constant(0, i32), *initial],
            lambda b, i, *_: b.compare(i, b.constant(count, i32), "LT"),
            lambda b, i, *xs: [b.add(i, b.constant(1, i32)), *body(b, i, *xs)],
        )[1:]

    def bitcast(self, x: Any, element_type: Any) -> Any:
        """The same bits as elements of another type of the same width."""
        return self.emit("stablehlo.bitcast_convert", (x,), with_element(x.type, element_type))

    def table(self, values: ArrayLike, element_type: Any) -> Any:
        """A constant of the array's shape."""
        return self.constant(values, ir.RankedTensorType.get(np.shape(values), element_type))

    def like(self, value: complex, x: Any) -> Any:
        """A number everywhere, of the type of x, whose sizes may be open."""
        return self.constant(value, x)

    def repeated(self, value: Any, element_type: Any, like: Any) -> Any:
        """A number everywhere, in the shape of a value; what is open of that is read when the program runs."""
        type_ = with_element(like.type, element_type)
        if not is_open(type_):
            return self.constant(value, type_)
        scalar, i32 = self.constant(value, with_shape(type_, [])), signless(32)
        sizes = [
            self.constant([n], ir.RankedTensorType.get([1], i32)) if n >= 0 else self.size_of(like, d)
            for d, n in enumerate(type_.shape)
        ]
        return self.emit(
            "stablehlo.dynamic_broadcast_in_dim",
            (scalar, self.concatenate(sizes, 0)),
            type_,
            {"broadcast_dimensions": _i64s([])},
        )

    def size_of(self, x: Any, dimension: int) -> Any:
        """The size of an open dimension, as an array of one."""
        type_, i64 = ir.RankedTensorType.get([], signless(32)), signless(64)
        attributes = {"dimension": ir.IntegerAttr.get(i64, dimension)}
        return self.reshape(self.emit("stablehlo.get_dimension_size", (x,), type_, attributes), [1])

    def barrier(self, *xs: Any) -> tuple[Any, ...]:
        """The same values, through which the compiler sees nothing."""
        return self.emit_all("stablehlo.optimization_barrier", xs, [x.type for x in xs])


def signless(width: int) -> Any:
    """The integer type of that width, as MLIR has those with a sign."""
    return ir.IntegerType.get_signless(width)


def is_unsigned(x: Any) -> bool:
    """The elements of a value are integers without sign."""
    type_ = element(x)
    return isinstance(type_, ir.IntegerType) and type_.is_unsigned


def is_boolean(x: Any) -> bool:
    """The elements of a value are predicates."""
    return bool(element(x) == signless(1))


def within(op: Any) -> list[Any]:
    """The ops in an op and itself, in order of the text."""
    found: list[Any] = []

    def note(inner: Any) -> Any:
        found.append(inner.operation)
        return ir.WalkResult.ADVANCE

    op.walk(note, ir.WalkOrder.PRE_ORDER)
    return found


def is_in_loop(op: Any) -> bool:
    """The op is in the region of a `stablehlo.while`, at any depth."""
    at = op.operation
    while at is not None and at.name != "stablehlo.while":
        at = at.parent
    return at is not None


def _i64s(values: Any) -> Any:
    return ir.DenseI64ArrayAttr.get([int(v) for v in values])


def _copy(source: Any, region: Any) -> None:
    """Fills a region with the ops of another one."""
    old = source.blocks[0]
    block = region.blocks.append(
        *[x.type for x in old.arguments], arg_locs=[x.location for x in old.arguments]
    )
    values, ip = dict(zip(old.arguments, block.arguments, strict=True)), ir.InsertionPoint(block)
    for inner in operations(old):
        copy = inner.clone(ip)
        _rename(copy, values)
        values.update(zip(inner.results, copy.results, strict=True))


def _rename(op: Any, values: Mapping[Any, Any]) -> None:
    """Puts values in the place of others in an op and what is inside it."""

    def rename(inner: Any) -> Any:
        for i, x in enumerate(inner.operation.operands):
            if x in values:
                inner.operation.operands[i] = values[x]
        return ir.WalkResult.ADVANCE

    op.walk(rename)
