"""Kernels of vectors: loads, stores, multiplications and additions of vectors, and parts that threads share.

    part = shared(k, [4, 8], out, lambda k, place, out: ...)     each of 4 * 8 places computes one part of `out`

IREE vectorizes and tiles the ops that it knows. A kernel of vectors chooses the registers itself: a value of vector
type that a loop carries stays in a register, if there are enough. Kernels of vectors are dispatches of their own
(`in_own_dispatch`).
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

from torch_mlir import ir

from tiduc.backends.iree.emitter import signless
from tiduc.backends.iree.fast.kernels import Kernel
from tiduc.backends.iree.missing.dynamic.sizes import Size, read
from tiduc.dialect.functions import within
from tiduc.dialect.types import element, with_shape

BITS, REGISTERS = 512, 32
"""The size of a vector of AVX-512, and their number."""

SHARED = "tidu.shared"
"""The attribute of a loop whose iterations several threads may share; `share` replaces it."""

_UNKNOWN = -(2**63)
"""What MLIR writes for an offset or size that is a value."""


class VectorKernel(Kernel):
    """A kernel that emits each constant once, where its outermost block begins."""

    begin: Any = None
    numbers: dict[Any, Any]

    def at(self, ip: Any) -> Self:
        inner = super().at(ip)
        inner.begin, inner.numbers = (self.begin, self.numbers) if self.begin else (ip, {})
        return inner

    def number(self, value: float, type_: Any) -> Any:
        key = value, type_
        if key not in self.numbers:
            first_ = ir.InsertionPoint.at_block_begin(self.begin.block)
            self.numbers[key] = Kernel.number(Kernel.at(self, first_), value, type_)
        return self.numbers[key]


class Part(NamedTuple):
    """A part of an array: its first place and its sizes, which may be `Size`s."""

    start: Sequence[Any]
    sizes: Sequence[Any]


def lanes(x: Any) -> int:
    """The number of elements of an array in a vector."""
    return BITS // int(element(x).width)


def held(k: Kernel, n: Any) -> Any:
    """A size that is computed here; an int as it is."""
    return n if isinstance(n, int) else read(k.index(n))


def vector_of(type_: Any, width: int) -> Any:
    """The type of vectors of `width` scalars."""
    return ir.VectorType.get([width], type_)


def quotient(n: Any, by: int) -> Any:
    """n // by, for n that are not negative."""
    if by == 1:
        return n
    return n // by if isinstance(n, int) else Size(lambda k: k.arith("divui", n, by))


def deinterleaved(k: Kernel, x: Any, y: Any) -> tuple[Any, Any]:
    """The elements of even and of odd index in two vectors, one after the other."""
    width = int(x.type.shape[0])
    order = ir.DenseI64ArrayAttr.get
    both = [
        k.emit("vector.shuffle", (x, y), x.type, {"mask": order([2 * i + e for i in range(width)])})
        for e in (0, 1)
    ]
    return both[0], both[1]


def splat(k: Kernel, v: Any, width: int) -> Any:
    """A vector of one scalar."""
    return k.emit("vector.broadcast", (v,), vector_of(v.type, width))


def multiply_add(k: Kernel, x: Any, y: Any, z: Any) -> Any:
    """x y + z for vectors."""
    return k.emit("vector.fma", (x, y, z), z.type)


def load(k: Kernel, x: Any, place: Sequence[Any], width: int, mask: Any = None) -> Any:
    """The vector of the elements of x from `place` on, along the last dimension; 0 where the mask does not hold."""
    zero = k.number(0, element(x))
    operands = x, *map(k.index, place), zero, *(() if mask is None else (mask,))
    return k.emit(
        "vector.transfer_read", operands, vector_of(element(x), width), _transfer(x, [1, len(place), 1], mask)
    )


def store(k: Kernel, v: Any, x: Any, place: Sequence[Any], mask: Any = None) -> Any:
    """Array x with the vector v from `place` on, along the last dimension; unchanged where the mask does not hold."""
    operands = v, x, *map(k.index, place), *(() if mask is None else (mask,))
    return k.emit("vector.transfer_write", operands, x.type, _transfer(x, [1, 1, len(place)], mask))


def cleared(k: Kernel, x: Any, sizes: Sequence[Any]) -> Any:
    """Array x, which has these sizes along its first dimensions, with zeros."""
    width, size = lanes(x), x.type.shape[-1]
    zero, whole = splat(k, k.number(0, element(x)), width), size // width * width

    def row(k: Kernel, place: Sequence[Any], x: Any) -> list[Any]:
        (x,) = k.loop(0, whole, width, [x], lambda k, i, x: [store(k, zero, x, [*place, i])])
        return [store(k, zero, x, [*place, whole], first(k, size - whole, width)) if whole < size else x]

    return nest(k, list(sizes)[: x.type.rank - 1], [x], row)[0]


def first(k: Kernel, n: Any, width: int) -> Any:
    """The mask of the first n lanes: all if n is larger than their number, none if n is negative."""
    return k.emit("vector.create_mask", (k.index(n),), vector_of(signless(1), width))


def both(k: Kernel, x: Any, y: Any) -> Any:
    """The mask of the lanes in both masks."""
    return k.emit("arith.andi", (x, y), x.type)


def except_for(k: Kernel, x: Any, y: Any) -> Any:
    """The mask of the lanes of x that are not lanes of y."""
    every = k.emit("arith.constant", (), x.type, {"value": ir.DenseElementsAttr.get_splat(x.type, _true())})
    return both(k, x, k.emit("arith.xori", (y, every), x.type))


def totals(k: Kernel, vs: Sequence[Any]) -> Any:
    """The sums of the elements of each of some vectors, as one vector: not more vectors than lanes.

    Each step adds halves of two vectors, so that both sums go on in one: with two lanes,
    (a0, a1) and (b0, b1) become (a0 + a1, b0 + b1). Other lanes of the result have no meaning.
    """
    vs, width, block = list(vs), int(vs[0].type.shape[0]), 1
    while block < width:
        at = [2 * block * m + e for m in range(width // (2 * block)) for e in range(block)]
        pairs = [(vs[i], vs[min(i + 1, len(vs) - 1)]) for i in range(0, len(vs), 2)]
        vs = []
        for x, y in pairs:
            # The lanes at + shift of x, then those of y, in turns of `block`.
            halves = []
            for shift in (0, block):
                blocks = [[n + shift for n in at[m : m + block]] for m in range(0, len(at), block)]
                order = [n for each in blocks for n in (*each, *(i + width for i in each))]
                halves.append(
                    k.emit("vector.shuffle", (x, y), x.type, {"mask": ir.DenseI64ArrayAttr.get(order)})
                )
            vs.append(k.emit("arith.addf", halves, x.type))
        block *= 2
    return vs[0]


def shared(
    k: Kernel, counts: Sequence[int], out: Any, body: Callable[[Kernel, list[Any], Any], tuple[Any, Part]]
) -> Any:
    """Array `out` with the parts that `body(kernel, place, out)` gives for all places below `counts`, in any order."""
    rank = len(counts)

    def fill(region: Any) -> None:
        types = [ir.IndexType.get()] * rank + [out.type]
        block = region.blocks.append(*types, arg_locs=[k.location] * (rank + 1))
        inner = VectorKernel(k.place, k.location).at(ir.InsertionPoint(block))
        inner.emitted = k.emitted
        value, part = body(inner, list(block.arguments)[:rank], block.arguments[rank])
        operands = value, block.arguments[rank], *inner.dynamic(part.start), *inner.dynamic(part.sizes)

        def end(region: Any) -> None:
            last = k.at(ir.InsertionPoint(region.blocks.append()))
            last.emit_all("tensor.parallel_insert_slice", operands, (), _slice(part, [1, 1]))

        inner.emit_all("scf.forall.in_parallel", (), (), None, [end])

    bounds = {
        "staticLowerBound": ir.DenseI64ArrayAttr.get([0] * rank),
        "staticUpperBound": ir.DenseI64ArrayAttr.get(list(counts)),
        "staticStep": ir.DenseI64ArrayAttr.get([1] * rank),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([0, 0, 0, 1]),
        SHARED: ir.UnitAttr.get(),
    }
    return k.emit_all("scf.forall", (out,), (out.type,), bounds, [fill])[0]


def share(module: Any) -> None:
    """Lets threads share the iterations of loops that `shared` emits, in place.

    The loops get an attribute of IREE's, which the verifier of MLIR's own op would reject: no verifier may run later.
    """
    for loop in within(module.operation, ["scf.forall"]):
        if SHARED in loop.attributes:
            del loop.attributes[SHARED]
            rank = len(list(loop.attributes["staticStep"]))
            mapping = [f"#iree_linalg_ext.split_reduction_mapping<{d}>" for d in reversed(range(rank))]
            loop.attributes["mapping"] = ir.ArrayAttr.get([ir.Attribute.parse(each) for each in mapping])


def taken(k: Kernel, x: Any, part: Part) -> Any:
    """A part of an array."""
    sizes = [n if isinstance(n, int) else ir.ShapedType.get_dynamic_size() for n in part.sizes]
    operands = x, *k.dynamic(part.start), *k.dynamic(part.sizes)
    return k.emit("tensor.extract_slice", operands, with_shape(x.type, sizes), _slice(part, [1]))


def nest(k: Kernel, sizes: Sequence[int], start: Sequence[Any], body: Callable[..., Any]) -> Sequence[Any]:
    """The carries after a nest of loops with `body(kernel, place, *carries)`; a size of 1 needs no loop."""

    def inner(k: Kernel, place: list[Any], rest: Sequence[int], carries: Sequence[Any]) -> Sequence[Any]:
        if not rest:
            return list(body(k, place, *carries))
        if isinstance(rest[0], int) and rest[0] == 1:
            return inner(k, [*place, 0], rest[1:], carries)
        return k.loop(0, rest[0], 1, carries, lambda k, i, *more: inner(k, [*place, i], rest[1:], more))

    return inner(k, [], sizes, start)


def _slice(part: Part, arrays: Sequence[int]) -> dict[str, Any]:
    """The attributes of an op that takes or inserts a part of an array; `arrays` is a 1 for each array operand."""
    numbers = [[n if isinstance(n, int) else _UNKNOWN for n in each] for each in part]
    counts = [each.count(_UNKNOWN) for each in numbers]
    return {
        "static_offsets": ir.DenseI64ArrayAttr.get(numbers[0]),
        "static_sizes": ir.DenseI64ArrayAttr.get(numbers[1]),
        "static_strides": ir.DenseI64ArrayAttr.get([1] * len(part.start)),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([*arrays, *counts, 0]),
    }


def _transfer(x: Any, segments: Sequence[int], mask: Any) -> dict[str, Any]:
    rank = x.type.rank
    last = ir.AffineMap.get(rank, 0, [ir.AffineExpr.get_dim(rank - 1)])
    return {
        "permutation_map": ir.AffineMapAttr.get(last),
        "in_bounds": ir.ArrayAttr.get([ir.BoolAttr.get(True)]),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([*segments, int(mask is not None)]),
    }


def _true() -> Any:
    return ir.IntegerAttr.get(signless(1), 1)
