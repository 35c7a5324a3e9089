"""Windows and moved elements: select_and_scatter, reduce_window, reverse and pad."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.backends.iree.emitter import Emitter, is_in_loop, is_unsigned, legalize, signless
from tiduc.backends.iree.fast.kernels import Kernel, dispatch
from tiduc.backends.iree.fast.window_loops import by_loops, pays
from tiduc.backends.iree.faults.uniform_reductions import hide_constants
from tiduc.backends.iree.faults.widened_windows import hide_widened
from tiduc.backends.iree.faults.window_excess import drop_excess
from tiduc.backends.iree.refused import refused
from tiduc.dialect.traits import PRODUCTS, VIEWS
from tiduc.dialect.types import element, is_complex, is_open, shape, with_element, with_shape


@legalize("stablehlo.select_and_scatter")
def select_and_scatter(b: Emitter, op: Any) -> Sequence[Any] | None:
    """Only adjacent windows compile, and ties go wrong; finds the index of each window's element, then scatters.

    A reduce_window over two operands, values and their indices, finds the index; index -1 is padding.
    `select` gets the earlier of two values first, as in a walk through the window.
    """
    x, source, init = op.operands
    if is_open(x.type) or is_open(source.type):
        raise refused(op, "its sizes are open")
    sizes, count = shape(x), int(np.prod(shape(x), dtype=np.int64))
    if not np.prod(shape(source)) or not count:
        return [b.broadcast_in_dim(init, [], x.type)]
    i32, scalar = signless(32), ir.RankedTensorType.get([], element(x))
    places = b.reshape(b.iota(0, ir.RankedTensorType.get([count], i32)), sizes)
    none = b.constant(-1, ir.RankedTensorType.get([], i32))

    def best(b: Emitter, v: Any, i: Any, w: Any, j: Any) -> Sequence[Any]:
        """The element that stays, (v, i) or (w, j): calls `select` on the earlier and the later one."""
        earlier = b.compare(i, j, "LT")
        first, second = b.select(earlier, v, w), b.select(earlier, w, v)
        (keeps,) = b.inlined(op.regions[0], [first, second])
        mine = b.select(earlier, keeps, b.not_(keeps))
        nothing = b.constant(-1, i)
        mine = b.select(b.compare(i, nothing, "EQ"), b.like(0, mine), mine)
        mine = b.select(b.compare(j, nothing, "EQ"), b.like(1, mine), mine)
        return [b.select(mine, v, w), b.select(mine, i, j)]

    types = [with_shape(v.type, shape(source)) for v in (x, places)]
    body = b.region([scalar, none.type] * 2, best)
    attributes = {n: op.attributes[n] for n in op.attributes}
    zero = b.constant(0, scalar)
    found = b.emit_all("stablehlo.reduce_window", (x, places, zero, none), types, attributes, [body])[1]
    flat = int(np.prod(shape(source)))
    numbers = hlo.ScatterDimensionNumbers.get([], [0], [], [], [0], 1)
    marks = {n: ir.BoolAttr.get(False) for n in ("indices_are_sorted", "unique_indices")}
    combine = b.region([init.type] * 2, lambda b, *xs: b.inlined(op.regions[1], xs))
    start = b.broadcast_in_dim(init, [], with_shape(x.type, [count]))
    operands = start, b.reshape(found, [flat, 1]), b.reshape(source, [flat])
    attributes = {"scatter_dimension_numbers": numbers, **marks}
    y = b.emit_all("stablehlo.scatter", operands, (start.type,), attributes, [combine])[0]
    return [b.reshape(y, sizes)]


@legalize("stablehlo.reduce_window")
def reduce_window(b: Emitter, op: Any) -> Sequence[Any] | None:
    """Padded windows of unsigned and complex types may not compile: pads first. Constants give wrong sums: barrier.

    Averages count the elements of their windows by a sum over ones, of which IREE's CPU code adds a few.
    Elements that the only window does not reach do not compile and are sliced off. On GPUs, operands that
    were widened give wrong values: a barrier puts the conversion before the window. Windows over several
    arrays are slow on CPUs where channels are last: emits loops. In windows over empty arrays, several
    results get one another's initial values: emits the initial values, which may count any number of times
    (specification, reduce).
    """
    count, name = len(op.results), "padding"
    if 0 in shape(op.operands[0]) and not any(is_open(y.type) for y in op.results):
        pairs = zip(list(op.operands)[count:], op.results, strict=True)
        return [b.broadcast_in_dim(init, [], y.type) for init, y in pairs]
    drop_excess(b, op)
    if pays(b, op):
        return by_loops(b, op)
    hide_constants(b, op)
    if not b.cpu:
        hide_widened(b, op, count)
    xs, inits = list(op.operands)[:count], list(op.operands)[count:]
    odd = any(is_unsigned(x) or is_complex(x) for x in xs)
    if not odd or (name not in op.attributes and "base_dilations" not in op.attributes):
        return None
    rank = len(shape(xs[0]))
    padding = np.array(op.attributes[name]) if name in op.attributes else np.zeros((rank, 2), np.int64)
    padding = np.broadcast_to(padding, (rank, 2))
    base = list(op.attributes["base_dilations"]) if "base_dilations" in op.attributes else [1] * rank
    if not padding.any() and set(base) <= {1}:
        return None
    low, high, interior = padding[:, 0], padding[:, 1], [n - 1 for n in base]
    padded = [b.pad(x, init, low, high, interior) for x, init in zip(xs, inits, strict=True)]
    attributes = {n: op.attributes[n] for n in op.attributes if n not in (name, "base_dilations")}
    regions = [
        b.region(
            [v.type for v in op.regions[0].blocks[0].arguments], lambda b, *vs: b.inlined(op.regions[0], vs)
        )
    ]
    return b.emit_all(op.name, [*padded, *inits], [y.type for y in op.results], attributes, regions)


@legalize("stablehlo.reverse")
def reverse(b: Emitter, op: Any) -> Sequence[Any] | None:
    """Does not compile for unsigned integers; reverses them as signed integers.

    On CPUs, IREE moves one element at a time and computes where each is: emits loops for large arrays. An
    array that products read stays as it is: IREE reverses it while packing it.
    """
    (x,), dimensions = op.operands, list(op.attributes["dimensions"])
    if is_unsigned(x):
        plain = b.bitcast(x, signless(element(x).width))
        turned = _by_loops(b, plain, dimensions) if _is_large(b, op) else b.reverse(plain, dimensions)
        return [b.bitcast(turned, element(x))]
    return [_by_loops(b, x, dimensions)] if _is_large(b, op) else None


_LARGE = 2**12, 2**20
"""The number of elements from which on loops are faster, and the most elements that one thread should get."""


def _is_large(b: Emitter, op: Any) -> bool:
    """Whether a loop reverses the array faster. Inside a loop, which may become a kernel, the op stays."""
    x = op.operands[0]
    if is_in_loop(op) or _is_factor(op):
        return False
    kinds = ir.IntegerType, ir.F16Type, ir.BF16Type, ir.F32Type, ir.F64Type
    if not b.cpu or is_open(x.type) or not isinstance(element(x), kinds) or element(x).width < 8:
        return False
    return _LARGE[0] <= int(np.prod(shape(x), dtype=np.int64)) <= _LARGE[1]


_MOVES = VIEWS | {"stablehlo.convert", "stablehlo.optimization_barrier"}


def _is_factor(op: Any) -> bool:
    """Whether a product or a convolution reads the result, directly or through ops that move elements."""
    todo = [op.results[0]]
    while todo:
        for use in todo.pop().uses:
            reader = use.owner
            if reader.name in PRODUCTS:
                return True
            if reader.name in _MOVES:  # a barrier has one result for each operand
                todo.append(reader.results[use.operand_number if len(reader.results) > 1 else 0])
    return False


def _by_loops(b: Emitter, x: Any, dimensions: Sequence[int]) -> Any:
    """x reversed, in one dispatch, without its dimensions of size 1, which the compiler drops."""
    kept = [i for i, n in enumerate(shape(x)) if n != 1]
    sizes = [shape(x)[i] for i in kept]
    (y,) = b.barrier(b.reshape(x, sizes))  # keeps the producer of x out of the dispatch

    def fill(k: Kernel) -> Sequence[Any]:
        one = k.index(1)

        def along(k: Kernel, of: Sequence[Any], to: Sequence[Any], out: Any) -> Any:
            d = len(of)
            if d == len(sizes):
                return k.put(k.element(y, *of), out, *to)
            last = k.index(sizes[d] - 1)

            def step(k: Kernel, i: Any, out: Any) -> Sequence[Any]:
                at = k.arith("subi", last, i) if kept[d] in dimensions else i
                return [along(k, [*of, at], [*to, i], out)]

            return k.loop(k.index(0), k.index(sizes[d]), one, [out], step)[0]

        return [along(k, [], [], k.empty(y.type))]

    return b.reshape(dispatch(b, [y.type], fill)[0], shape(x))


@legalize("stablehlo.pad")
def pad(b: Emitter, op: Any) -> Sequence[Any] | None:
    """Does not compile for complex and unsigned types; pads the parts, or the bits as signed integers.

    Nor does a single element that is part of an array compile: a barrier hides it.
    """
    x, value = op.operands
    if len(x.type.shape) > 1 and set(x.type.shape) == {1}:
        (x,) = b.barrier(x)
        op.operands[0] = x
    if is_complex(x):
        type_ = with_element(op.results[0].type, element(x).element_type)
        return [b.complex(*(b.again(op, dict(enumerate(pair)), [type_])[0] for pair in _parts(b, x, value)))]
    if is_unsigned(x):
        plain = signless(element(x).width)
        type_ = with_element(op.results[0].type, plain)
        (y,) = b.again(op, {0: b.bitcast(x, plain), 1: b.bitcast(value, plain)}, [type_])
        return [b.bitcast(y, element(x))]
    return None


def _parts(b: Emitter, x: Any, y: Any) -> list[tuple[Any, Any]]:
    return [(b.real(x), b.real(y)), (b.imag(x), b.imag(y))]
