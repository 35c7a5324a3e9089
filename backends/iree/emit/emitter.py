"""The table of patterns by op name, and the emitter with which patterns emit ops."""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from torch_mlir import ir

from tiduc.backends.iree.fault import FAULTS
from tiduc.backends.iree.settings import Settings
from tiduc.dialect.emitters.bodies import IrEmitter
from tiduc.dialect.emitters.protocol import Fill
from tiduc.dialect.errors import TiducError
from tiduc.dialect.graph.functions import outer_first, replace
from tiduc.dialect.graph.graph import operations
from tiduc.dialect.ops.ir_types import Attributes, IrOp, IrValue
from tiduc.dialect.shapes.types import dims, element, i64, is_dynamic, is_empty, with_element, with_shape

Pattern = Callable[["Emitter", ir.Operation], Sequence[IrValue] | None]
"""A function that returns new results for an op, or None to keep the op. It may change a kept op in place."""

EVERYWHERE, ON_CPUS, ON_OTHERS, ON_SPIRV = "everywhere", "on CPUs", "on other targets", "on SPIR-V"
DYNAMIC = "dynamic shapes"
"""The values of `where` in `legalize`, which say when a pattern applies.

`ON_OTHERS` means targets other than CPUs. `DYNAMIC` means ops that have dynamic dimensions, on any target.
"""

STORED, HIDDEN, NUMBERS = "tidu.stored", "tidu.hidden", "tidu.numbers"
"""The attributes that distinguish three kinds of `optimization_barrier` ops:

- `STORED`: the barrier only prevents the fusion of ops.
- `HIDDEN`: the barrier hides one constant from constant folding.
- `NUMBERS`: the barrier hides several constants. The pass `number_marks` merges the `HIDDEN` barriers into it.
"""

NEVER_INLINED = "no_inline"
"""The attribute that forbids MLIR to inline a function. IREE reads another attribute, `noinline`."""

EXECUTABLE = "flow.executable"
"""The op that holds the code of a dispatch."""

DEFAULT = Settings()


@dataclass(frozen=True)
class Registered:
    """A pattern, and where it applies (see `legalize`).

    `is_fast` says that the pattern only makes programs faster, so that --no-fast omits it.
    """

    pattern: Pattern
    where: str
    is_fast: bool

    @property
    def order(self) -> int:
        """The sort key of the patterns for an op: patterns with a lower key are tried first."""
        return 0 if self.where == DYNAMIC else 1 if self.where == ON_SPIRV else 2 if self.is_fast else 3


PATTERNS: dict[str, list[Registered]] = {}
"""Maps the name of an op to its patterns, in the order in which they are tried."""


def legalize(*names: str, where: str = EVERYWHERE) -> Callable[[Pattern], Pattern]:
    """Decorator: registers a pattern for ops of these names. `where` says when the pattern applies.

    The decorators of `fault.py`, which record the faults that the pattern avoids, must be below this decorator.
    """

    def register(pattern: Pattern) -> Pattern:
        is_fast = all(each.kind == "slow" for each in FAULTS[pattern])
        for name in names:
            PATTERNS.setdefault(name, []).append(Registered(pattern, where, is_fast))
            PATTERNS[name].sort(key=lambda entry: entry.order)
        return pattern

    return register


CALLS: dict[str, Pattern] = {}
"""Maps the target of a custom call to the pattern that replaces such calls."""


def legalize_call(*targets: str) -> Callable[[Pattern], Pattern]:
    """Decorator: registers a pattern for custom calls with these call targets."""

    def register(pattern: Pattern) -> Pattern:
        for target in targets:
            assert target not in CALLS, target
            CALLS[target] = pattern
        return pattern

    return register


class Emitter(IrEmitter):
    """Emits ops at an insertion point, and lists them in `emitted`, because patterns may have to rewrite them, too."""

    def __init__(self, ip: ir.InsertionPoint, location: ir.Location, settings: Settings = DEFAULT) -> None:
        super().__init__(ip, location)
        self.emitted: list[IrOp | None] = []
        self.settings = settings
        self.cpu, self.fused, self.lapack = settings.cpu, settings.fused, settings.calls_lapack
        self._ip = ip

    @property
    def place(self) -> ir.InsertionPoint:
        """The insertion point."""
        return self._ip

    def at(self, ip: ir.InsertionPoint) -> Self:
        """An emitter of this class at another insertion point, with the same settings.

        This emitter's `emitted` also receives the ops of the new emitter.
        """
        inner = type(self)(ip, self.location, self.settings)
        inner.emitted = self.emitted
        return inner

    def emit_all(
        self,
        name: str,
        operands: Sequence[IrValue | float],
        types: Sequence[ir.Type],
        attributes: Attributes | None = None,
        regions: Sequence[Fill] = (),
    ) -> tuple[IrValue, ...]:
        results = super().emit_all(name, operands, types, attributes, regions)
        owner = results[0].owner if results else None
        assert not isinstance(owner, ir.Block)
        self.emitted.append(owner)
        return results

    def clone(
        self,
        op: IrOp,
        replaced: Mapping[int, IrValue],
        types: Sequence[ir.RankedTensorType] | None = None,
        given: Attributes | None = None,
    ) -> tuple[IrValue, ...]:
        """Emits a copy of an op and its regions; returns its results.

        `replaced` maps operand indices to new operands. `types` are the result types, if they change. `given` has
        attributes to add or replace.
        """
        copy = op.clone(self._ip)
        for i, x in replaced.items():
            copy.operands[i] = x
        for y, type_ in zip(copy.results, types or (), strict=bool(types)):
            y.set_type(type_)
        for name, value in (given or {}).items():
            copy.attributes[name] = value
        self.emitted.append(copy)
        return tuple(copy.results)

    def copied(self, op: ir.Operation, values: dict[IrValue, IrValue]) -> IrOp:
        copy = super().copied(op, values)
        self.emitted.append(copy)
        return copy

    def region(
        self,
        types: Iterable[ir.Type],
        fill: Callable[..., Sequence[IrValue]],
        end: str = "stablehlo.return",
    ) -> Fill:
        """Returns a function that fills a region with one block (a `Fill`, see `emit_all`).

        The block has arguments of these types. `fill(emitter, *arguments)` emits its ops, and returns the operands of
        its last op, which is named `end`. The block may read values that are defined outside of the region.
        """
        arguments = list(types)

        def run(region: ir.Region) -> None:
            block = region.blocks.append(*arguments, arg_locs=[self.location] * len(arguments))
            inner = self.at(ir.InsertionPoint(block))
            inner.emit_all(end, tuple(fill(inner, *block.arguments)), ())

        return run

    def copied_region(self, region: ir.Region) -> Fill:
        """Returns a `Fill` that copies `region`, which must not read values that are defined outside of it."""
        types = [x.type for x in region.blocks[0].arguments]
        return self.region(types, lambda b, *xs: b.inlined(region, xs))

    def while_(
        self,
        initial: Sequence[IrValue],
        condition: Callable[..., IrValue],
        body: Callable[..., Sequence[IrValue]],
    ) -> tuple[IrValue, ...]:
        """Emits a while loop and returns the final loop-carried values."""
        types = [x.type for x in initial]
        regions = [self.region(types, lambda b, *xs: [condition(b, *xs)]), self.region(types, body)]
        return self.emit_all("stablehlo.while", initial, types, None, regions)

    def bitcast(self, x: IrValue, element_type: ir.Type) -> IrValue:
        """The bits of x as elements of another type of equal width."""
        return self.emit("stablehlo.bitcast_convert", (x,), with_element(x.type, element_type))

    def fma(self, x: IrValue, y: IrValue, z: float | IrValue) -> IrValue:
        """x y + z, rounded once."""
        return self.emit("math.fma", (x, y, z), x.type)

    def cut(self, x: IrValue, dimension: int, start: int, end: int) -> IrValue:
        """The elements of x from `start` to before `end` along one dimension."""
        starts, ends = [0] * x.type.rank, list(x.type.shape)
        starts[dimension], ends[dimension] = start, end
        return self.slice(x, starts, ends, [1] * x.type.rank)

    def table(self, values: ArrayLike, element_type: ir.Type) -> IrValue:
        """A constant with the elements and the shape of `values`."""
        return self.constant(values, ir.RankedTensorType.get(np.shape(values), element_type))

    def repeated(self, value: ArrayLike | complex, element_type: ir.Type, like: IrValue) -> IrValue:
        """An array with the shape of `like`, filled with `value`. Dynamic sizes are read at run time."""
        type_ = with_element(like.type, element_type)
        if not is_dynamic(type_):
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
            {"broadcast_dimensions": dims([])},
        )

    def size_of(self, x: IrValue, dimension: int) -> IrValue:
        """The size of a dynamic dimension, as tensor<1xi32>."""
        type_ = ir.RankedTensorType.get([], signless(32))
        size = self.emit("stablehlo.get_dimension_size", (x,), type_, {"dimension": i64(dimension)})
        return self.reshape(size, [1])

    def barrier(self, *xs: IrValue) -> tuple[IrValue, ...]:
        """Passes values through an `optimization_barrier`, across which the compiler does not fuse or fold ops."""
        return self.emit_all("stablehlo.optimization_barrier", xs, [x.type for x in xs])

    def stored(self, x: IrValue) -> IrValue:
        """Passes x through a barrier that only prevents fusion. The pass `stored_values` later replaces the barrier."""
        return self.emit("stablehlo.optimization_barrier", (x,), x.type, {STORED: ir.UnitAttr.get()})

    def hidden(self) -> IrValue:
        """The i32 scalar 0 behind a barrier. `number_marks` later keeps IREE from merging two such scalars."""
        value = self.table(0, signless(32))
        return self.emit("stablehlo.optimization_barrier", (value,), value.type, {HIDDEN: ir.UnitAttr.get()})


def signless(width: int) -> ir.Type:
    """The signless integer type of this width; StableHLO uses signless types for signed integers."""
    return ir.IntegerType.get_signless(width)


def is_unsigned(x: IrValue | ir.RankedTensorType) -> bool:
    """Whether the elements of a value are unsigned integers."""
    type_ = element(x)
    return isinstance(type_, ir.IntegerType) and type_.is_unsigned


@functools.cache
def is_static(type_: ir.Type) -> bool:
    """Whether a type is a ranked tensor type without dynamic dimensions."""
    return isinstance(type_, ir.RankedTensorType) and type_.has_static_shape


def are_floats(arrays: Sequence[IrValue], *kinds: type[ir.Type]) -> bool:
    """Whether all arrays have one element type, which is among `kinds`, and static shapes without a size of 0."""
    are_full = all(is_static(x.type) and not is_empty(x) for x in arrays)
    return are_full and len({element(x) for x in arrays}) == 1 and isinstance(element(arrays[0]), kinds)


def is_boolean(x: IrValue | ir.RankedTensorType) -> bool:
    """Whether the elements of a value are predicates (i1)."""
    return bool(element(x) == signless(1))


@contextmanager
def rewriting(op: IrOp, settings: Settings = DEFAULT) -> Iterator[Emitter]:
    """Context manager: yields an emitter that emits before an op.

    A `TiducError` that is raised in the body gets the op's location, if it has no location.
    """
    try:
        yield Emitter(ir.InsertionPoint(op), op.location, settings)
    except TiducError as error:
        raise error.at(op.location) from None


def rewrite(
    root: ir.Module | IrOp,
    patterns: Mapping[str, Pattern],
    settings: Settings = DEFAULT,
    follow: Literal["none", "others", "all"] = "none",
) -> int:
    """Rewrites the ops inside `root`, in place. Returns the number of replaced ops.

    `patterns` maps op names to patterns. If `root` is a module, the code of its dispatches (`EXECUTABLE`) is skipped,
    because it may be large. `follow` selects the emitted ops that are rewritten, too: "none", "others" (those whose
    name differs from the replaced op's), or "all".
    """
    whole, count = root.operation, 0
    searched = [whole]
    if whole.name == "builtin.module":
        searched = [op for op in operations(whole.regions[0].blocks[0]) if op.name != EXECUTABLE]
    waiting = [inner for each in searched for inner in outer_first(each, patterns)][::-1]
    while waiting:
        op = waiting.pop()
        name = op.name
        with rewriting(op, settings) as b:
            results = patterns[name](b, op)
        if follow != "none":
            emitted = [
                inner for outer in b.emitted if outer is not None for inner in outer_first(outer, patterns)
            ]
            following = [inner for inner in dict.fromkeys(emitted) if follow == "all" or inner.name != name]
            waiting += following[::-1]
        if results is not None:
            if len(op.regions) and (inside := set(outer_first(op, patterns)) - {op}):
                waiting = [inner for inner in waiting if inner not in inside]
            replace(op, results)
            count += 1
    return count


def module_of(b: Emitter) -> IrOp:
    """Returns the module that contains the emitter's insertion point."""
    op: IrOp = b.place.block.owner
    while op.name != "builtin.module":
        assert op.parent is not None, "the emitter emits in a module"
        op = op.parent
    return op


def replace_uses(uses: Iterable[ir.OpOperand], y: IrValue) -> None:
    """Makes the given uses of a value read y instead of the value."""
    for use in list(uses):
        use.owner.operands[use.operand_number] = y


def is_directly_in(op: IrOp, name: str) -> bool:
    """Whether the parent of an op is an op of that name."""
    parent = op.operation.parent
    return parent is not None and parent.name == name


def is_in_loop(op: IrOp) -> bool:
    """Whether the op is a `stablehlo.while`, or is in a region of one, at any depth."""
    at: ir.Operation | None = op.operation
    while at is not None and at.name != "stablehlo.while":
        at = at.parent
    return at is not None
