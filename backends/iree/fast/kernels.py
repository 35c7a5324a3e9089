"""Kernels: loops over array elements that IREE compiles, as one dispatch, to plain machine code.

    %0 = flow.dispatch.region -> (tensor<8xf32>) { scf.for ... tensor.extract ... tensor.insert ... }

Kernels replace StableHLO for which IREE generates slow code. A kernel runs in one thread, so it is for CPUs only. The
MLIR bindings do not define the dialect `flow`, so its ops are written in generic form.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.emitter import Emitter, signless
from tiduc.backends.iree.missing.dynamic.sizes import Size
from tiduc.dialect.context import context

KERNEL = "flow.dispatch.region"
"""The op whose body is a kernel."""


class Kernel(Emitter):
    """Emits the body of a dispatch: ops on scalars and on elements of arrays."""

    def index(self, n: Any) -> Any:
        """An integer or a `Size` as a value of type index; a value as it is."""
        if isinstance(n, Size):
            return n.at(self)
        return self._number(n, ir.IndexType.get()) if isinstance(n, int) else n

    def dynamic(self, sizes: Sequence[Any]) -> list[Any]:
        """The sizes that are known at run time only, as values."""
        return [self.index(n) for n in sizes if not isinstance(n, int)]

    def zero(self, type_: Any) -> Any:
        """0 of a scalar type."""
        if isinstance(type_, ir.ComplexType):
            parts = ir.ArrayAttr.get([ir.FloatAttr.get(type_.element_type, 0.0)] * 2)
            return self.emit("complex.constant", (), type_, {"value": parts})
        return self._number(0, type_)

    def arith(self, name: str, *xs: Any) -> Any:
        """An `arith` op on scalars of one type: `addi`, `minui`, ..."""
        return self.emit(f"arith.{name}", xs, xs[0].type)

    def below(self, x: Any, y: Any) -> Any:
        """x < y as unsigned integers, so that a negative x is never below a size y."""
        return self._compared(6, x, y)  # arith's number for `ult`

    def at_most(self, x: Any, y: Any) -> Any:
        """x <= y, of integers of one type with a sign."""
        return self._compared(3, x, y)  # arith's number for `sle`

    def equal(self, x: Any, y: Any) -> Any:
        """x = y, for integers of one type."""
        return self._compared(0, x, y)

    def above(self, x: Any, y: Any) -> Any:
        """x > y, for floats; false if either is NaN."""
        return self._floats_compared(2, x, y)  # arith's number for `ogt`

    def not_below(self, x: Any, y: Any) -> Any:
        """x >= y, for floats; false if either is NaN."""
        return self._floats_compared(3, x, y)  # arith's number for `oge`

    def is_zero(self, x: Any) -> Any:
        """x = 0, for a float."""
        return self._floats_compared(1, x, self._number(0, x.type))  # arith's number for `oeq`

    def one(self, type_: Any) -> Any:
        """1 of a float type."""
        return self._number(1, type_)

    def _floats_compared(self, predicate: int, x: Any, y: Any) -> Any:
        number = ir.IntegerAttr.get(signless(64), predicate)
        return self.emit("arith.cmpf", (x, y), signless(1), {"predicate": number})

    def _compared(self, predicate: int, x: Any, y: Any) -> Any:
        number = ir.IntegerAttr.get(signless(64), predicate)
        return self.emit("arith.cmpi", (x, y), signless(1), {"predicate": number})

    def either(self, condition: Any, x: Any, y: Any) -> Any:
        """x if the condition holds, else y; scalars of one type."""
        return self.emit("arith.select", (condition, x, y), x.type)

    def all(self, conditions: Sequence[Any]) -> Any:
        """Whether all of one or more conditions hold."""
        return functools.reduce(lambda p, q: self.arith("andi", p, q), conditions)

    def cast(self, x: Any, type_: Any) -> Any:
        """A number of type index converted to another integer type, or the reverse."""
        return self.emit("arith.index_cast", (self.index(x),), type_)

    def element(self, x: Any, *place: Any) -> Any:
        """The element of array x at indices `place`."""
        return self.emit("tensor.extract", (x, *map(self.index, place)), x.type.element_type)

    def put(self, v: Any, x: Any, *place: Any) -> Any:
        """Array x with v at indices `place`."""
        return self.emit("tensor.insert", (v, x, *map(self.index, place)), x.type)

    def scalar(self, v: Any) -> Any:
        """A scalar as an array without dimensions."""
        return self.emit("tensor.from_elements", (v,), ir.RankedTensorType.get([], v.type))

    def empty(self, type_: Any, sizes: Sequence[Any] = ()) -> Any:
        """An uninitialized array; `sizes` are needed only for a type with dynamic dimensions."""
        return self.emit("tensor.empty", self.dynamic(sizes), type_)

    def differs_from_zero(self, x: Any) -> Any:
        """x != 0, for an integer."""
        return self._compared(1, x, self._number(0, x.type))  # arith's number for `ne`

    def written_if(self, condition: Any, x: Any) -> Any:
        """The array x, with its first element set to 0 if the condition holds."""

        def zeroed(k: Kernel) -> Any:
            place = [k.index(0)] * len(x.type.shape)
            return [k.put(k._number(0, x.type.element_type), x, *place)]

        return self.choice(condition, x.type, zeroed, lambda k: [x])

    def choice(
        self,
        condition: Any,
        type_: Any,
        then: Callable[["Kernel"], Sequence[Any]],
        otherwise: Callable[["Kernel"], Sequence[Any]],
    ) -> Any:
        """The result of one of two branches (`scf.if`); only that branch runs."""
        regions = [self._filled((), fill, "scf.yield") for fill in (then, otherwise)]
        return self.emit_all("scf.if", (condition,), (type_,), None, regions)[0]

    def _number(self, value: int, type_: Any) -> Any:
        of_float = isinstance(type_, ir.FloatType)
        attribute = ir.FloatAttr.get(type_, value) if of_float else ir.IntegerAttr.get(type_, value)
        return self.emit("arith.constant", (), type_, {"value": attribute})

    def loop(
        self, start: Any, end: Any, step: Any, initial: Sequence[Any], body: Callable[..., Sequence[Any]]
    ) -> tuple[Any, ...]:
        """Emits an `scf.for` with `body(kernel, i, *carries)` from `start` to below `end`; gives the final carries."""
        types = [x.type for x in initial]
        fill = self._filled((ir.IndexType.get(), *types), body, "scf.yield")
        return self.emit_all("scf.for", (start, end, step, *initial), types, None, [fill])

    def _filled(
        self, types: Sequence[Any], fill: Callable[..., Sequence[Any]], end: str
    ) -> Callable[[Any], None]:
        """A function that fills a region with `fill(kernel, *arguments)`; an op named `end` returns the results."""

        def run(region: Any) -> None:
            block = region.blocks.append(*types, arg_locs=[self.location] * len(types))
            inner = Kernel(ir.InsertionPoint(block), self.location)
            inner.emit_all(end, tuple(fill(inner, *block.arguments)), ())
            self.emitted += inner.emitted

        return run


def dispatch(
    b: Emitter, types: Sequence[Any], fill: Callable[[Kernel], Sequence[Any]], sizes: Sequence[Any] = ()
) -> tuple[Any, ...]:
    """The arrays, of the given types, that `fill` computes in one dispatch; it may read values from outside.

    If the types have dynamic dimensions, all arrays have the given `sizes`.
    """
    context().allow_unregistered_dialects = True  # stays set, since other code copies and prints the op
    kernel = Kernel(b.place, b.location)
    once = kernel._filled((), lambda k: [k.index(1)] * 3, "flow.return")
    body = kernel._filled((), fill, "flow.return")
    of_results = kernel.dynamic(sizes) * len(types)
    segments = ir.DenseI32ArrayAttr.get([len(of_results), 0])  # result sizes, and the workload
    results = kernel.emit_all(KERNEL, of_results, types, {"operandSegmentSizes": segments}, [body, once])
    b.emitted += kernel.emitted
    return results
