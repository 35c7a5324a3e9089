"""placement: places the arrays of an execution region in memory, with smaller gaps than IREE leaves.

    %0:3 = stream.resource.pack slices({            %p0 = arith.constant 12288 : index   the size of the allocation
      [0, 2] = %c4096, [2, 5] = %c8192      ->      %p1 = arith.constant 0 : index       the offset of the first array
    }) : index                                      %p2 = arith.constant 4096 : index    the offset of the second array

IREE makes one allocation for the arrays of an execution region, and places the arrays in the order in which they are
computed. Each array gets the smallest gap that is free while the array is live. A small array then often occupies a
part of a gap that a large array needs next. IREE therefore needs up to 42% more than the bytes that are live at once.
`order.py` finds better orders.

The edit relies on these invariants, and checks them (`invariants.py`):

- a pack has no operand for a base offset, and as many slices as it has results after the first one;
- IREE aligns arrays to `ALIGNMENT` bytes, or to a divisor of it;
- arrays that are live at the same time do not overlap. Each is within the allocation, at a multiple of the alignment.
"""

import re
from typing import NamedTuple

from iree.compiler import ir

from tiduc.backends.iree.fault import slow
from tiduc.backends.iree.modules.invariants import require
from tiduc.backends.iree.modules.ops import constant, erase, number, of_host, operations, segments
from tiduc.backends.iree.modules.order import (
    ALIGNMENT,
    MOST,
    Allocation,
    LiveArray,
    check_places,
    in_order,
    lowest,
)

PACK = "stream.resource.pack"

_GAIN = 2**10
"""The module is changed only if the change saves at least 1024 bytes in all allocations together."""

_CONFIG = "#stream.resource_config<"
_ALIGNED = re.compile(r"min_buffer_(?:offset|range)_alignment = (\d+)")
"""Matches the alignments in the text of an attribute, because the Python bindings cannot read this attribute."""


class Slice(NamedTuple):
    """An array of a pack: the first and last step at which it is live, and its size in bytes (None if unknown)."""

    first: int
    last: int
    size: int | None


@slow(
    "IREE leaves gaps between the arrays of an execution region; tiduc searches for a smaller allocation.",
    "suite.py: convnet",
)
def place_arrays(module: ir.Operation) -> bool:
    """Replaces the packs of a module by constant offsets, in place, and returns True.

    If this would save too little, changes nothing and returns False.
    """
    given, best = 0, 0
    placed: list[tuple[ir.Operation, Allocation]] = []
    check_alignment(module)
    for pack in of_host(module):
        if pack.name != PACK:
            continue
        arrays = sized(slices(pack))
        if arrays is None or len(arrays) > MOST:
            continue
        own, places = in_order(arrays, range(len(arrays))), lowest(arrays)
        check_places(arrays, places)
        given, best = given + own.bytes, best + places.bytes
        placed.append((pack, places))
    if not placed or given - best < _GAIN:
        return False
    for pack, places in placed:
        for result, value in zip(pack.results, (places.bytes, *places.starts), strict=True):
            result.replace_all_uses_with(constant(value, pack))
        erase(pack)
    return True


def slices(pack: ir.Operation) -> list[Slice]:
    """The arrays of a pack, in order. Raises `Broken` unless the pack has a result for each slice, and no offset."""
    offset, sizes = segments(pack)
    steps = [int(ir.IntegerAttr(step).value) for step in ir.ArrayAttr(pack.attributes["lifetime_intervals"])]
    is_whole = not offset and len(steps) == 2 * len(sizes) and len(pack.results) == 1 + len(sizes)
    require(is_whole, "a pack has a result for each slice, and no offset")
    return [
        Slice(first, last, number(size))
        for first, last, size in zip(steps[::2], steps[1::2], sizes, strict=True)
    ]


def sized(arrays: list[Slice]) -> list[LiveArray] | None:
    """The arrays of a pack as `LiveArray`s. None if the size of an array is unknown."""
    known = [LiveArray(first, last, size) for first, last, size in arrays if size is not None]
    return known if len(known) == len(arrays) else None


def check_alignment(module: ir.Operation) -> None:
    """Raises `Broken` unless arrays at multiples of `ALIGNMENT` are aligned as the module requires."""
    attributes = [module.attributes, *(op.attributes for op in operations(module.regions[0].blocks[0]))]
    for each in attributes:
        for name in each:
            text = str(each[name])
            alignments = [int(digits) for digits in _ALIGNED.findall(text)]
            require(
                len(alignments) == 2 * text.count(_CONFIG), "a configuration of resources has two alignments"
            )
            for alignment in alignments:
                is_multiple = alignment > 0 and ALIGNMENT % alignment == 0
                require(is_multiple, f"arrays begin at multiples of {ALIGNMENT}")
