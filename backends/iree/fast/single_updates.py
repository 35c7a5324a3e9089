"""Scatters of one update, rewritten to a slice that is read, combined and written back.

    %y = scatter %x, %i, %u { add }
    ->  %s = dynamic_slice %x, %i;  %t = add %s, %u;  %y = dynamic_update_slice %x, %t, %i

JAX's x.at[i].set(u) is such a scatter. IREE's scatter copies all of x to append a row, and keeps a surrounding loop on
the host that could be one dispatch. The results are bitwise equal: if the index is out of range, the slice is written
back unchanged. For CPUs only: with a GPU the host would wait for the index.
"""

import math
from collections.abc import Sequence
from typing import Any

from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.backends.iree.emitter import Emitter, is_unsigned, signless
from tiduc.dialect.graph import operations
from tiduc.dialect.traits import ASSOCIATIVE
from tiduc.dialect.types import element, is_open, shape, with_shape

_COMBINING = ASSOCIATIVE | {"stablehlo.subtract"}


def single_update(b: Emitter, op: Any) -> Sequence[Any] | None:
    """The result of a scatter of one update to one operand; None for other scatters.

    The update has size 1 in each indexed dimension, so that it is in range or out of range as a whole.
    """
    if len(op.results) != 1 or any(is_open(x.type) for x in op.operands):
        return None
    x, indices, update = op.operands
    d = hlo.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"])
    window, name = _window(d, shape(x), shape(update)), _name(op.regions[0].blocks[0])
    if window is None or name is None:
        return None
    # A single element gets no dimensions: in kernels, IREE makes no array of a predicate without dimensions.
    of_one = [] if math.prod(window) == 1 else window
    starts, inside = _starts(b, d, shape(x), indices, of_one)
    old = b.reshape(b.dynamic_slice(x, starts, window), of_one)
    new = b.reshape(update, of_one)
    if name:
        new = b.emit(name, (old, new), old.type)
    if inside is not None:
        new = b.select(inside, new, old)
    return [b.dynamic_update_slice(x, b.reshape(new, window), starts)]


def _window(d: Any, sizes: Sequence[int], updates: Sequence[int]) -> list[int] | None:
    """The update's size in each dimension of the operand; None if the update is not a single slice."""
    if list(d.input_batching_dims) or any(
        n != 1 for i, n in enumerate(updates) if i not in d.update_window_dims
    ):
        return None
    if 0 in sizes or not list(d.scattered_dims_to_operand_dims):
        return None
    of_update = iter(d.update_window_dims)
    window = [1 if i in d.inserted_window_dims else updates[next(of_update)] for i in range(len(sizes))]
    places = list(d.scattered_dims_to_operand_dims)
    fits = all(n == (1 if i in places else sizes[i]) for i, n in enumerate(window))
    return window if fits else None


def _starts(
    b: Emitter, d: Any, sizes: Sequence[int], indices: Any, window: Sequence[int]
) -> tuple[list[Any], Any | None]:
    """The slice's start indices, clamped into the operand, and whether they were in range, in shape `window`.

    The second is None if no dimension is indexed.
    """
    count = len(d.scattered_dims_to_operand_dims)
    flat = b.reshape(indices, [count])
    if is_unsigned(flat) and element(flat).width == 64:
        flat = b.minimum(flat, b.constant(2**62, flat))
    kind = element(flat)
    flat = b.convert(flat, signless(32 if kind.width <= 32 and not kind.is_unsigned else 64))
    if kind.width < 32:
        (flat,) = b.barrier(flat)  # else the host would read the narrow number, as unsigned
    highest = 2 ** (element(flat).width - 1) - 1
    scalar, everywhere = with_shape(flat.type, []), with_shape(flat.type, window)
    starts, inside = [b.constant(0, scalar)] * len(sizes), None
    for k, i in enumerate(d.scattered_dims_to_operand_dims):
        at = b.reshape(b.slice(flat, [k], [k + 1], [1]) if count > 1 else flat, [])
        end = b.constant(min(sizes[i] - 1, highest), scalar)
        starts[i] = b.clamp(b.constant(0, scalar), at, end)
        pair = [b.broadcast_in_dim(y, [], everywhere) for y in (starts[i], at)]
        same = b.compare(pair[0], pair[1], "EQ")
        inside = same if inside is None else b.and_(inside, same)
    return starts, inside


def _name(body: Any) -> str | None:
    """The op that a scatter's body applies to old element and update, "" if the update replaces the element; else None.

    The op must also work on arrays. Its operands may be in any order, except those of `subtract`.
    """
    *ops, end = operations(body)
    if not ops:
        return "" if end.operands[0] == body.arguments[1] else None
    (old, new), op = body.arguments, ops[0]
    if len(ops) > 1 or op.name not in _COMBINING or end.operands[0] != op.results[0]:
        return None
    operands = list(op.operands)
    if operands == [old, new] or (operands == [new, old] and op.name != "stablehlo.subtract"):
        return str(op.name)
    return None
