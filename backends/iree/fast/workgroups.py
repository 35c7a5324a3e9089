"""`Vectors` and `in_workgroups`: a dispatch written as loops over vectors, in parts that IREE divides among threads.

    %0 = flow.dispatch @name::@name(%x)
    flow.executable @name { func.func @name(%x, %out) { %i = flow.dispatch.workgroup.id[0] ... } }

IREE vectorizes and tiles the ops that it knows. A dispatch of vectors chooses registers itself: a vector that a loop
carries stays in registers, if there are enough. The MLIR bindings do not define the dialect `flow`, so its ops are
written in generic form.
"""

from collections.abc import Callable, Sequence
from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.emitter import Emitter
from tiduc.backends.iree.fast.kernels import Kernel
from tiduc.backends.iree.fast.vectors import VectorKernel
from tiduc.backends.iree.missing.dynamic.sizes import Size, read
from tiduc.dialect.context import context
from tiduc.dialect.types import element

_DYNAMIC = ir.ShapedType.get_dynamic_size()
_TENSOR = "iree_tensor_ext.dispatch.tensor"
EXECUTABLE = "flow.executable"
"""The op that holds the code of dispatches."""


class Vectors(VectorKernel):
    """Emits the body of a dispatch: ops on vectors."""

    def settled(self, n: Any) -> Any:
        """A size whose ops are emitted here; integers stay integers."""
        return read(n.at(self)) if isinstance(n, Size) else n

    def count_up(
        self, start: Any, end: Any, step: int, carried: Any, body: Callable[["Vectors", Any, Any], Any]
    ) -> Any:
        """A loop with one loop-carried value: `body(kernel, i, value)` gives its next value."""
        return self.loop(start, end, step, [carried], lambda k, i, x: [body(k, i, x)])[0]

    def matrix(self, type_: Any, sizes: Sequence[Any]) -> Any:
        """An uninitialized array of two sizes, of the element type of `type_`."""
        known = [n if isinstance(n, int) else _DYNAMIC for n in sizes]
        return self.empty(ir.RankedTensorType.get(known, element(type_)), sizes)

    def zeros(self, type_: Any) -> Any:
        """A vector of zeros."""
        zero = ir.FloatAttr.get(element(type_), 0.0)
        return self.emit("arith.constant", (), type_, {"value": ir.DenseElementsAttr.get_splat(type_, zero)})

    def read(
        self, x: Any, place: Sequence[Any], type_: Any, dims: Sequence[int], inside: Sequence[bool]
    ) -> Any:
        """The vector of array x at indices `place`, along dimensions `dims` of x; `inside`: where x has them all.

        Elements beyond the end of x are 0.
        """
        zero = self.number(0.0, element(x))
        attributes = _transfer(x, dims, inside, [1, len(place), 1, 0])
        return self.emit("vector.transfer_read", (x, *map(self.index, place), zero), type_, attributes)

    def write(self, v: Any, x: Any, place: Sequence[Any], dims: Sequence[int], inside: Sequence[bool]) -> Any:
        """Array x with vector v at indices `place`, along dimensions `dims`; elements beyond the end of x are lost."""
        attributes = _transfer(x, dims, inside, [1, 1, len(place), 0])
        return self.emit("vector.transfer_write", (v, x, *map(self.index, place)), x.type, attributes)

    def transposed(self, rows: Sequence[Any]) -> list[Any]:
        """The columns of a square matrix of these rows; its blocks of 1, 2, 4, ... elements change places."""
        size, count = 1, len(rows)
        while size < count:
            upper = [j if not j & size else count + j - size for j in range(count)]
            lower = [j | size if not j & size else count + j for j in range(count)]
            pairs = {i: (rows[i], rows[i | size]) for i in range(count) if not i & size}
            rows = [self._shuffled(*pairs[i & ~size], lower if i & size else upper) for i in range(count)]
            size *= 2
        return list(rows)

    def _shuffled(self, x: Any, y: Any, places: Sequence[int]) -> Any:
        """The elements at these places of two vectors side by side."""
        mask = {"mask": ir.DenseI64ArrayAttr.get(list(places))}
        return self.emit("vector.shuffle", (x, y), x.type, mask)

    def vector_of(self, scalars: Sequence[Any]) -> Any:
        """The vector of these scalars."""
        type_ = ir.VectorType.get([len(scalars)], scalars[0].type)
        return self.emit("vector.from_elements", scalars, type_)

    def plus_outer(self, x: Any, y: Any, z: Any) -> Any:
        """The matrix z plus the outer product of the vectors x and y."""
        return self.emit(
            "vector.outerproduct", (x, y, z), z.type, {"kind": ir.Attribute.parse("#vector.kind<add>")}
        )


Part = tuple[Any, Sequence[Any], Sequence[Any]]
"""A matrix that is a part of an array, its starts there, and its sizes; all sizes but the last two are 1."""
Body = Callable[[Vectors, Sequence[Size], Sequence[Any]], Part]


def in_workgroups(
    b: Emitter, name: str, inputs: Sequence[Any], type_: Any, counts: Sequence[int], fill: Body
) -> Any:
    """The array whose parts `fill(kernel, place, inputs)` gives for each place in an array of three `counts`.

    IREE's threads compute parts, those of successive places along the last dimension one after the other. Dispatches of
    one name share their code: it is emitted once, at the end of the module.
    """
    context().allow_unregistered_dialects = True  # stays set, since other code copies and prints the op
    module = b.place.block.owner
    while module.name != "builtin.module":
        module = module.parent
    block = module.regions[0].blocks[0]
    known = (op for op in block if op.operation.name == EXECUTABLE)
    if all(ir.StringAttr(op.attributes["sym_name"]).value != name for op in known):
        end = Kernel(ir.InsertionPoint(block), b.location)
        _executable(end, name, [x.type for x in inputs], type_, counts, fill)
    attributes = {
        "entry_points": ir.ArrayAttr.get([ir.SymbolRefAttr.get([name, name])]),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([0, len(inputs), 0, 0]),
    }
    return b.emit("flow.dispatch", inputs, type_, attributes)


def _executable(
    b: Kernel, name: str, types: Sequence[Any], type_: Any, counts: Sequence[int], fill: Body
) -> None:
    """Emits the code of a dispatch, as IREE writes it after it has put dispatches into executables."""
    bound = [_bound("readonly", each) for each in types] + [_bound("writeonly", type_)]
    signature = ir.TypeAttr.get(ir.FunctionType.get(bound, []))
    symbol = {"sym_name": ir.StringAttr.get(name)}
    export = {**symbol, "function_ref": ir.FlatSymbolRefAttr.get(name)}
    function = {**symbol, "function_type": signature}
    private = {**symbol, "sym_visibility": ir.StringAttr.get("private")}

    def body(region: Any) -> None:
        block = region.blocks.append(*bound, arg_locs=[b.location] * len(bound))
        k = Vectors(b.place, b.location).at(ir.InsertionPoint(block))
        *given, out = block.arguments
        arrays = [
            k.emit(f"{_TENSOR}.load", (y,), each, _slice([0] * len(each.shape), each.shape, [1, 0]))
            for each, y in zip(types, given, strict=True)
        ]
        place = [
            k.emit("flow.dispatch.workgroup.id", (), ir.IndexType.get(), {"dimension": _index(d)})
            for d in (2, 1, 0)
        ]
        part, starts, sizes = fill(k, [read(i) for i in place], arrays)
        at = [*k.dynamic(starts), *k.dynamic(sizes)]
        k.emit_all(f"{_TENSOR}.store", (part, out, *at), (), _slice(starts, sizes, [1, 1, 0]))
        k.emit_all("func.return", (), ())

    def filled(region: Any) -> None:
        k = b.at(ir.InsertionPoint(region.blocks.append()))
        count = k.region((), lambda k: [k.index(n) for n in reversed(counts)], "flow.return")
        k.emit_all("flow.executable.export", (), (), export, [count])
        k.emit_all("builtin.module", (), (), None, [functions])
        k.emit_all("flow.executable_end", (), ())

    def functions(region: Any) -> None:
        k = b.at(ir.InsertionPoint(region.blocks.append()))
        k.emit_all("func.func", (), (), function, [body])

    b.emit_all(EXECUTABLE, (), (), private, [filled])


def _bound(access: str, type_: Any) -> Any:
    """The type of an array as an argument of a dispatch."""
    return ir.Type.parse(f"!{_TENSOR}<{access}:{type_}>")


def _index(n: int) -> Any:
    return ir.IntegerAttr.get(ir.IndexType.get(), n)


def _transfer(x: Any, dims: Sequence[int], inside: Sequence[bool], segments: Sequence[int]) -> dict[str, Any]:
    """The attributes of a read or write of a vector."""
    places = ir.AffineMap.get(x.type.rank, 0, [ir.AffineExpr.get_dim(d) for d in dims])
    return {
        "permutation_map": ir.AffineMapAttr.get(places),
        "in_bounds": ir.ArrayAttr.get([ir.BoolAttr.get(each) for each in inside]),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get(list(segments)),
    }


def _slice(starts: Sequence[Any], sizes: Sequence[Any], arrays: Sequence[int]) -> dict[str, Any]:
    """The attributes of an op on a slice; its operands are `arrays`, then starts and sizes that are not integers."""

    def static(numbers: Sequence[Any]) -> Any:
        return ir.DenseI64ArrayAttr.get([n if isinstance(n, int) else _DYNAMIC for n in numbers])

    counts = [*arrays, *(sum(not isinstance(n, int) for n in numbers) for numbers in (starts, sizes)), 0]
    return {
        "static_offsets": static(starts),
        "static_sizes": static(sizes),
        "static_strides": ir.DenseI64ArrayAttr.get([1] * len(starts)),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get(counts),
    }
