"""`dispatch` and `Kernel`: a dispatch written as loops over array elements, which IREE compiles to plain machine code.

    %0 = flow.dispatch.region -> (tensor<8xf32>) { scf.for ... tensor.extract ... tensor.insert ... }

A kernel replaces StableHLO ops for which IREE generates slow code or no code. Because a kernel runs in one thread,
kernels make programs faster on CPUs only. The ops of the dialect `flow` are emitted in generic form, because the MLIR
bindings do not define the dialect.
"""

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Self

from torch_mlir import ir

from tiduc.backends.iree.emit.emitter import Emitter, is_unsigned, signless
from tiduc.backends.iree.emit.sizes import IndexLike, RunTimeSize, SizeLike, read
from tiduc.dialect.emitters.protocol import Fill
from tiduc.dialect.graph.matching import defined_by, definition, traced
from tiduc.dialect.mlir.context import context
from tiduc.dialect.ops.ir_types import Attributes, IrOp, IrValue
from tiduc.dialect.shapes.types import element, i64

KERNEL = "flow.dispatch.region"
"""The op whose body is a kernel."""

_INTEGERS = {"eq": 0, "ne": 1, "sle": 3, "ult": 6}
_FLOATS = {"oeq": 1, "ogt": 2, "oge": 3, "olt": 4, "ole": 5}
"""The codes of predicates on integers and on floats in the dialect `arith`. Those on floats are false for NaN."""


class Kernel(Emitter):
    """Emits the body of a dispatch: ops on scalars and on elements of arrays. Indices may be Python integers."""

    def index(self, n: IndexLike) -> IrValue:
        """Emits an integer or a `RunTimeSize` as a value of type index. An `ir.Value` is returned unchanged."""
        if isinstance(n, RunTimeSize):
            return n.at(self)
        return self.number(n, ir.IndexType.get()) if isinstance(n, int) else n

    def number(self, value: float, type_: ir.Type) -> IrValue:
        """A constant of a scalar type. For a complex type, `value` is ignored and the constant is 0."""
        if isinstance(type_, ir.ComplexType):
            parts = ir.ArrayAttr.get([ir.FloatAttr.get(type_.element_type, 0.0)] * 2)
            return self.emit("complex.constant", (), type_, {"value": parts})
        of_float = isinstance(type_, ir.FloatType)
        attribute = ir.FloatAttr.get(type_, value) if of_float else ir.IntegerAttr.get(type_, value)
        return self.emit("arith.constant", (), type_, {"value": attribute})

    def dynamic(self, sizes: Sequence[SizeLike]) -> list[IrValue]:
        """The entries of `sizes` that are known only at run time, as values. Integers are omitted."""
        return [self.index(n) for n in sizes if not isinstance(n, int)]

    def arith(self, name: str, *xs: IndexLike) -> IrValue:
        """An `arith` op on scalars of one type: `addi`, `minui`, ..."""
        scalars = [self.index(x) for x in xs]
        return self.emit(f"arith.{name}", scalars, scalars[0].type)

    def compared(self, predicate: str, x: IndexLike, y: IndexLike) -> IrValue:
        """The comparison of two scalars of one type, by a predicate of `arith`: `ult`, `oge`, ..."""
        name, numbers = ("cmpi", _INTEGERS) if predicate in _INTEGERS else ("cmpf", _FLOATS)
        number = i64(numbers[predicate])
        pair = self.index(x), self.index(y)
        return self.emit(f"arith.{name}", pair, signless(1), {"predicate": number})

    def below(self, x: IndexLike, y: IndexLike) -> IrValue:
        """x < y as unsigned integers: a negative x is never below a size y."""
        return self.compared("ult", x, y)

    def at_most(self, x: IndexLike, y: IndexLike) -> IrValue:
        """x <= y, for signed integers of one type."""
        return self.compared("sle", x, y)

    def equal(self, x: IndexLike, y: IndexLike) -> IrValue:
        """x = y, for integers of one type."""
        return self.compared("eq", x, y)

    def select_scalar(self, condition: IrValue, x: IndexLike, y: IndexLike) -> IrValue:
        """x if the condition holds, else y. Both are scalars of one type."""
        pair = self.index(x), self.index(y)
        return self.emit("arith.select", (condition, *pair), pair[0].type)

    def all(self, conditions: Iterable[IrValue]) -> IrValue:
        """Whether all conditions hold."""
        return functools.reduce(
            lambda p, q: self.arith("andi", p, q), conditions, self.number(1, signless(1))
        )

    def any(self, conditions: Iterable[IrValue]) -> IrValue:
        """Whether at least one of the conditions holds."""
        return functools.reduce(lambda p, q: self.arith("ori", p, q), conditions, self.number(0, signless(1)))

    def not_(self, condition: IrValue) -> IrValue:
        """Whether a condition does not hold."""
        return self.arith("xori", condition, self.number(1, signless(1)))

    def cast(self, x: IndexLike, type_: ir.Type) -> IrValue:
        """Converts an index to another integer type, or an integer to the type index."""
        return self.emit("arith.index_cast", (self.index(x),), type_)

    def element(self, x: IrValue, *place: IndexLike) -> IrValue:
        """The element of array x at indices `place`."""
        return self.emit("tensor.extract", (x, *map(self.index, place)), x.type.element_type)

    def index_at(self, x: IrValue, *place: IndexLike) -> IrValue:
        """The element of an array of integers at indices `place`, as an index."""
        return self.cast(self.element(x, *place), ir.IndexType.get())

    def put(self, v: IrValue, x: IrValue, *place: IndexLike) -> IrValue:
        """Writes element v to array x at indices `place`. Returns the new array."""
        return self.emit("tensor.insert", (v, x, *map(self.index, place)), x.type)

    def scalar(self, v: IrValue) -> IrValue:
        """Converts a scalar value to a tensor of rank 0."""
        return self.emit("tensor.from_elements", (v,), ir.RankedTensorType.get([], v.type))

    def fma(self, x: IrValue, y: IrValue, z: float | IrValue) -> IrValue:
        """x y + z, rounded once, for tensors of rank 0.

        The op is emitted on scalars, because IREE requires scalars in a kernel.
        """
        scalars = [self.element(v if isinstance(v, ir.Value) else self.constant(v, x)) for v in (x, y, z)]
        return self.scalar(self.emit("math.fma", scalars, element(x)))

    def empty(self, type_: ir.RankedTensorType, sizes: Sequence[SizeLike] = ()) -> IrValue:
        """An uninitialized array. `sizes` are required only for a type with dynamic dimensions."""
        return self.emit("tensor.empty", self.dynamic(sizes), type_)

    def zero_array(self, type_: ir.RankedTensorType) -> IrValue:
        """An array of zeros (`linalg.fill`). IREE fuses the fill with the ops that then add to the array."""
        zero, to = self.number(0, type_.element_type), self.empty(type_)
        fill = self.region([type_.element_type] * 2, lambda k, v, _: [v], "linalg.yield")
        segments = {"operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 1])}
        return self.emit_all("linalg.fill", (zero, to), [type_], segments, [fill])[0]

    def linear_index(self, sizes: Sequence[SizeLike], place: Sequence[SizeLike]) -> SizeLike:
        """The row-major index of `place` in an array of these sizes."""
        at: SizeLike = 0
        for n, i in zip(sizes, place, strict=True):
            at = at * n + i
        return at

    def inlined_on_scalars(self, region: ir.Region, scalars: Sequence[IrValue]) -> list[IrValue]:
        """Inlines a StableHLO region, applied to scalars. Returns its results, as scalars."""
        return [self.element(v) for v in self.inlined(region, [self.scalar(v) for v in scalars])]

    def if_(
        self,
        condition: IrValue,
        types: Sequence[ir.Type],
        then: Callable[[Self], Sequence[IrValue]],
        otherwise: Callable[[Self], Sequence[IrValue]],
    ) -> tuple[IrValue, ...]:
        """Emits an `scf.if` and returns its results, which have the given types. Only the chosen branch runs."""
        regions = [self.region((), fill, "scf.yield") for fill in (then, otherwise)]
        return self.emit_all("scf.if", (condition,), types, None, regions)

    def loop(
        self,
        start: SizeLike,
        end: IndexLike,
        step: SizeLike,
        initial: Sequence[IrValue],
        body: Callable[..., Sequence[IrValue]],
    ) -> tuple[IrValue, ...]:
        """Emits an `scf.for` from `start` to below `end`. Returns the final loop-carried values (the carries).

        `body(kernel, i, *carries)` emits an iteration and returns its new carries. The index i is a `RunTimeSize`.
        """
        types = [x.type for x in initial]
        arguments = ir.IndexType.get(), *types
        fill = self.region(arguments, lambda k, i, *carries: body(k, read(i), *carries), "scf.yield")
        bounds = map(self.index, (start, end, step))
        return self.emit_all("scf.for", (*bounds, *initial), types, None, [fill])

    def nest(
        self,
        sizes: Sequence[SizeLike],
        initial: Sequence[IrValue],
        body: Callable[..., Sequence[IrValue]],
    ) -> Sequence[IrValue]:
        """Emits a loop nest over the indices of an array of these sizes. Returns the final loop-carried values.

        `body(kernel, indices, *carries)` emits an iteration: it takes the loop-carried values, and returns their new
        values. No loop is emitted for a dimension of size 1.
        """
        if not sizes:
            return body(self, [], *initial)

        def inner(k: Self, i: SizeLike, *carries: IrValue) -> Sequence[IrValue]:
            return k.nest(sizes[1:], carries, lambda k, place, *carries: body(k, [i, *place], *carries))

        return inner(self, 0, *initial) if sizes[0] == 1 else self.loop(0, sizes[0], 1, initial, inner)

    def generic(
        self,
        xs: Sequence[IrValue],
        output: IrValue,
        body: Callable[..., IrValue],
        places: ir.AffineMap | None = None,
    ) -> IrValue:
        """Replaces each element of the array `output` by `body(kernel, *elements)` (`linalg.generic`).

        `elements` holds one element of each array in `xs`, then the old element of `output`. `places` maps the indices
        of an element of the output to the indices of the element read in each of `xs`; the default is the identity.
        """
        same = ir.AffineMap.get_identity(output.type.rank)
        maps = [same if places is None else places] * len(xs) + [same]
        return self._loops(xs, output, body, maps, ["parallel"] * output.type.rank, {})

    def contraction(
        self, x: IrValue, y: IrValue, output: IrValue, maps: Sequence[ir.AffineMap], tiles: ir.Attribute
    ) -> IrValue:
        """Multiplies elements of x and y, and adds the products to `output`, as a loop nest (`linalg.generic`).

        The innermost loop runs over the terms of a sum. `maps` has three maps from the loop indices to the indices of
        an element of x, y and the output. `tiles` is a `compilation_info` with tile sizes. The floats of x and y may
        have fewer bits than those of the output.
        """
        kinds = ["parallel"] * output.type.rank + ["reduction"]

        def added(k: Self, u: IrValue, v: IrValue, z: IrValue) -> IrValue:
            wide = [w if w.type == z.type else k.emit("arith.extf", [w], z.type) for w in (u, v)]
            return k.arith("addf", z, k.arith("mulf", *wide))

        return self._loops([x, y], output, added, maps, kinds, {"compilation_info": tiles})

    def _loops(
        self,
        xs: Sequence[IrValue],
        output: IrValue,
        body: Callable[..., IrValue],
        maps: Sequence[ir.AffineMap],
        kinds: Sequence[str],
        more: Attributes,
    ) -> IrValue:
        arrays = [*xs, output]
        attributes = {
            "indexing_maps": ir.ArrayAttr.get([ir.AffineMapAttr.get(each) for each in maps]),
            "iterator_types": ir.ArrayAttr.get(
                [ir.Attribute.parse(f"#linalg.iterator_type<{kind}>") for kind in kinds]
            ),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(xs), 1]),
            **more,
        }
        fill = self.region(map(element, arrays), lambda k, *vs: [body(k, *vs)], "linalg.yield")
        return self.emit_all("linalg.generic", arrays, [output.type], attributes, [fill])[0]

    def filled(self, to: IrValue, x: IrValue) -> IrValue:
        """Copies the elements of x to the array `to`, by a loop that IREE does not optimize away."""
        sizes = x.type.shape
        return self.nest(sizes, [to], lambda k, place, out: [k.put(k.element(x, *place), out, *place)])[0]


def dispatch(
    b: Emitter,
    types: Sequence[ir.RankedTensorType],
    fill: Callable[[Kernel], Sequence[IrValue]],
    sizes: Sequence[SizeLike] = (),
    divided: bool = False,
) -> tuple[IrValue, ...]:
    """Emits a dispatch whose results have these types. `fill(kernel)` emits its body and returns the results.

    The body may read values that are defined outside of the dispatch. If the types have dynamic dimensions, `sizes` has
    the sizes that all results have. One thread runs the dispatch; with `divided`, IREE divides the work among threads.
    """
    context().allow_unregistered_dialects = True  # not reset later, since other code copies and prints the op
    kernel = Kernel(b.place, b.location)
    once = kernel.region((), lambda k: [k.index(1)] * 3, "flow.return")
    body = kernel.region((), fill, "flow.return")
    of_results = kernel.dynamic(sizes) * len(types)
    segments = ir.DenseI32ArrayAttr.get([len(of_results), 0])  # the op has sizes of results, but no workload
    count: Fill = (lambda region: None) if divided else once
    results = kernel.emit_all(KERNEL, of_results, types, {"operandSegmentSizes": segments}, [body, count])
    b.emitted += kernel.emitted
    return results


def in_own_dispatch(b: Emitter, type_: ir.RankedTensorType, fill: Callable[[Kernel], IrValue]) -> IrValue:
    """Computes an array with `fill` in a dispatch with no other ops. IREE divides the dispatch among threads.

    Barriers around the ops would also keep other ops out of the dispatch, but barriers compile slowly: each pair adds a
    command buffer, which takes as long to compile as a small dispatch.
    """
    return dispatch(b, [type_], lambda k: [fill(k)], divided=True)[0]


LARGEST = 2**20
"""The most elements of an array that a kernel, which has one thread, should process."""


def is_kernel_array(type_: ir.RankedTensorType, least: int) -> bool:
    """Whether a kernel accepts arrays of this type.

    The shape must be static, with `least` to `LARGEST` elements. The elements must be signed integers of 8 bits or
    more, or real floats.
    """
    if not type_.has_static_shape or is_unsigned(type_):
        return False
    kinds = ir.IntegerType, ir.F16Type, ir.BF16Type, ir.F32Type, ir.F64Type
    if not isinstance(element(type_), kinds) or element(type_).width < 8:
        return False
    return bool(least <= math.prod(type_.shape) <= LARGEST)


def can_apply_body(op: IrOp, least: int = 1) -> bool:
    """Whether a kernel can apply the body of a window reduction or scatter to elements of the op's operands.

    Operands must have at least `least` elements. The types of the results must differ from each other, because MLIR
    merges two `tensor.empty` ops of equal type.
    """
    operands, count = list(op.operands), len(op.results)
    pairs = zip((*operands[:count], *operands[-count:]), op.regions[0].blocks[0].arguments, strict=True)
    alike = all(is_kernel_array(x.type, least) and element(x) == element(y) for x, y in pairs)
    return alike and len({y.type for y in op.results}) == count


def computed_outside(b: Emitter, x: IrValue) -> IrValue:
    """Passes x through a barrier, so that IREE does not fuse the op that computes x into the dispatch that reads x.

    Constants and block arguments are returned unchanged.
    """
    *_, of = traced(x, ["stablehlo.reshape"])
    return x if definition(of) is None or defined_by(of, "stablehlo.constant") else b.stored(x)
