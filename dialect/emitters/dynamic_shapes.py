"""Emitters of ops with dynamic result shapes. Such ops take the shape of the result as an operand."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Never

import numpy as np
from numpy.typing import ArrayLike
from torch_mlir import ir

from tiduc.dialect.dynamic.known import carry_sizes
from tiduc.dialect.emitters.builder import Builder
from tiduc.dialect.emitters.protocol import Dims, Emits, N, V
from tiduc.dialect.errors import UnknownSize
from tiduc.dialect.graph.graph import Definition, Graph, Value, operations
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.shapes.sizes import Atom, Extent, Key, Size, known_equal
from tiduc.dialect.shapes.types import dims, element, i64, is_dynamic, shape, with_element, with_shape

BROADCAST = "stablehlo.dynamic_broadcast_in_dim"


class DynamicShapes(Emits[V, N]):
    """Emits lists of sizes, and ops that take sizes as operands. Sizes are i32, the type of `get_dimension_size`."""

    @abstractmethod
    def constant(self, value: ArrayLike | complex, like: V | ir.Type) -> V:
        """A constant with the type and sizes of `like`; see `StablehloOps.constant`."""

    @abstractmethod
    def concatenate(self, parts: Sequence[V], dimension: int) -> V:
        """The parts concatenated along a dimension."""

    def sizes(self, shape_: Sequence[Extent]) -> V:
        """Emits a list of sizes as an i32 vector. Such vectors are the shape operands of the ops below."""
        parts: list[V] = []
        known: list[int] = []
        for n in [*shape_, None]:
            if n is not None and not isinstance(n, Size):
                known.append(int(n))
                continue
            if known or not shape_:
                parts.append(self.constant(np.array(known, np.int64), _vector(len(known))))
                known = []
            if n is not None:
                parts.append(self.emit("stablehlo.reshape", (self.size(n),), _vector(1)))
        return self.concatenate(parts, 0)

    def repeated(self, value: ArrayLike | complex, element_type: ir.Type, like: V) -> V:
        """`value` as an array of this element type and of the shape of `like`."""
        type_ = with_element(like.type, element_type)
        if is_dynamic(type_):
            scalar = self.constant(value, with_shape(type_, []))
            return self.dynamic_broadcast_in_dim(scalar, [], type_, shape(like))
        return self.constant(value, type_)

    def dynamic_broadcast_in_dim(self, x: V, dimensions: Dims, type_: ir.Type, sizes: Sequence[Extent]) -> V:
        """x broadcast to these sizes; dimension i of x becomes dimension `dimensions[i]` of the result.

        Sets `known_expanding_dimensions` and `known_nonexpanding_dimensions`, because some targets require these
        attributes.
        """
        attributes = {
            "broadcast_dimensions": dims(dimensions),
            **expanding(shape(x), [sizes[int(d)] for d in dimensions]),
        }
        return self.emit(BROADCAST, (x, self.sizes(sizes)), type_, attributes)

    def dynamic_iota(self, dimension: int, type_: ir.Type, sizes: Sequence[Extent]) -> V:
        """An array of these sizes with the values 0, 1, 2, ... along a dimension."""
        attributes = {"iota_dimension": i64(dimension)}
        return self.emit("stablehlo.dynamic_iota", (self.sizes(sizes),), type_, attributes)

    def dynamic_pad(self, x: V, value: V, paddings: Sequence[Sequence[Extent]], type_: ir.Type) -> V:
        """x padded with `value`. `paddings` are three lists: the low, the high and the interior paddings."""
        operands = (x, value, *(self.sizes(list(p)) for p in paddings))
        return self.emit("stablehlo.dynamic_pad", operands, type_)

    def dynamic_reshape(self, x: V, type_: ir.Type, sizes: Sequence[Extent]) -> V:
        """x reshaped to these sizes.

        If the reshape only adds dimensions of size 1, emits a broadcast, because more targets support broadcasts.
        """
        places = [d for d, n in enumerate(sizes) if not known_equal(n, 1)]
        own = shape(x)
        if len(places) == len(own) and all(map(known_equal, own, [sizes[d] for d in places])):
            return self.dynamic_broadcast_in_dim(x, places, type_, sizes)
        return self.emit("stablehlo.dynamic_reshape", (x, self.sizes(sizes)), type_)

    def real_dynamic_slice(self, x: V, bounds: Sequence[Sequence[Extent]], type_: ir.Type) -> V:
        """x sliced by `bounds`: starts, limits (exclusive) and strides, each a list of sizes."""
        operands = (x, *(self.sizes(list(bound)) for bound in bounds))
        return self.emit("stablehlo.real_dynamic_slice", operands, type_)


class Sizes(DynamicShapes[Value, Never], Builder):
    """Emits, into a graph, the ops that compute sizes."""

    def size(self, n: Extent) -> Value:
        """A size as an i32 scalar. Equal sizes are emitted only once per graph."""
        key = n.key if isinstance(n, Size) else ((), int(n))
        constant = self.constants.get(("size", key))
        if constant is None:
            constant = self.constants["size", key] = self._size(key)
        return constant

    def _size(self, key: Key) -> Value:
        terms, constant = key
        total = None
        for atom, factor in terms:
            term, minus = self._atom(atom), factor < 0 and total is not None
            if (times := -factor if minus else factor) != 1:
                term = self._on_sizes("multiply", self.size(times), term)
            if total is not None:
                term = self._on_sizes("subtract" if minus else "add", total, term)
            total = term
        if total is None:
            if not -(2**31) <= constant < 2**31:
                raise UnknownSize(f"a size is computed with {constant}, which does not fit 32 bits")
            return self.constant(constant, _scalar())
        return self._on_sizes("add", total, self.size(constant)) if constant else total

    def _atom(self, atom: Atom) -> Value:
        kind, of, where = atom
        if kind == "dimension":
            if of.definition is not None and of.definition.active is not None:
                name = of.definition.name
                raise UnknownSize(f"a tangent that {name} returns has a dynamic size")
            if of in self.tangents:
                raise UnknownSize(f"a tangent of type {of.type} has a dynamic size")
            return self.emit("stablehlo.get_dimension_size", (of,), _scalar(), {"dimension": i64(where)})
        if kind == "scalar":
            return self._as_i32(of)
        if kind == "entry":
            ends = {"start_indices": [where], "limit_indices": [where + 1], "strides": [1]}
            bounds = {name: dims(at) for name, at in ends.items()}
            one = self.emit("stablehlo.slice", (self._as_i32(of),), _vector(1), bounds)
            return self.emit("stablehlo.reshape", (one,), _scalar())
        a, by = self.size(Size(of)), self.size(Size(where))
        if kind == "quotient":
            return self._quotient(of, a, where, by)
        return self._on_sizes("multiply" if kind == "product" else kind, a, by)

    def _quotient(self, key: Key, a: Value, divisor: Key, by: Value) -> Value:
        """floor(a / by), where a dynamic `by` is clamped to at least 1. `key` is the key of a, `divisor` that of by.

        If a may be negative, first subtracts the remainder, because StableHLO's `divide` rounds toward zero.
        """
        if divisor[0]:
            by = self._on_sizes("maximum", by, self.size(1))
        if min([key[1], *(factor for _, factor in key[0])]) < 0:
            rest = self._on_sizes("add", self._on_sizes("remainder", a, by), by)
            a = self._on_sizes("subtract", a, self._on_sizes("remainder", rest, by))
        return self._on_sizes("divide", a, by)

    def _on_sizes(self, name: str, a: Value, b: Value) -> Value:
        return self.emit(f"stablehlo.{name}", (a, b), _scalar())

    def _as_i32(self, x: Value) -> Value:
        """Converts x to a tensor of i32. x is a tensor of integers or indices, or a scalar that is not a tensor."""
        integer = ir.IntegerType.get_signless(32)
        if not isinstance(x.type, ir.RankedTensorType):
            if isinstance(x.type, ir.IndexType):
                x = self.emit("arith.index_cast", (x,), integer)
            x = self.emit("tensor.from_elements", (x,), ir.RankedTensorType.get([], x.type))
        if element(x) == integer:
            return x
        name = "arith.index_cast" if isinstance(element(x), ir.IndexType) else "stablehlo.convert"
        return self.emit(name, (x,), with_element(x.type, integer))


def unknown_sizes(type_: ir.Type) -> UnknownSize:
    """Returns the error for a type with dynamic dimensions whose sizes no value provides."""
    return UnknownSize(
        f"the rule would need the sizes of {type_}, which are known only at run time; make shapes static "
        "with stablehlo-refine-shapes"
    )


def expanding(sizes: Sequence[Extent], into: Sequence[Extent]) -> dict[str, ir.DenseI64ArrayAttr]:
    """The attributes of a broadcast that list the dimensions known to expand, and those known not to expand.

    Dimension i of the operand has the size `sizes[i]`, and is broadcast to the size `into[i]`.
    """
    pairs = list(enumerate(zip(sizes, into, strict=True)))
    still = [i for i, (n, m) in pairs if known_equal(n, m)]
    more = [i for i, (n, m) in pairs if known_equal(n, 1) and i not in still]
    attributes = {"known_expanding_dimensions": more, "known_nonexpanding_dimensions": still}
    return {name: dims(which) for name, which in attributes.items() if which}


def say_expanding(function: IrOp, inputs: Sequence[Value]) -> None:
    """Sets the attributes of `expanding` on each `dynamic_broadcast_in_dim` in a function and its regions.

    `inputs` are the inputs of the graph from which the function was lowered. Known relations between their sizes
    decide, too, whether a dimension expands.
    """
    graph, values = Graph(""), dict[IrValue, Value]()

    def enter(block: ir.Block) -> None:
        for x in block.arguments:
            values[x] = Value(x.type, graph, key=str(len(values)))

    def visit(block: ir.Block) -> None:
        for op in operations(block):
            operands, given = tuple(values[x] for x in op.operands), op.attributes
            definition = Definition(op.name, operands, graph, given={name: given[name] for name in given})
            definition.results = tuple(Value(y.type, graph, definition) for y in op.results)
            values.update(zip(op.results, definition.results, strict=True))
            if op.name == BROADCAST:
                into = shape(definition.result)
                along = [into[d] for d in given["broadcast_dimensions"]]
                for name, which in expanding(shape(operands[0]), along).items():
                    said: Sequence[int] = given[name] if name in given else ()
                    given[name] = dims(sorted({*said, *which}))
            for inner in [inner for region in op.regions for inner in region.blocks]:
                enter(inner)
                visit(inner)

    body = function.regions[0].blocks[0]
    enter(body)
    carry_sizes(dict(zip(inputs, values.values(), strict=True)))
    visit(body)


def _scalar() -> ir.RankedTensorType:
    return ir.RankedTensorType.get([], ir.IntegerType.get_signless(32))


def _vector(length: int) -> ir.RankedTensorType:
    return ir.RankedTensorType.get([length], ir.IntegerType.get_signless(32))
