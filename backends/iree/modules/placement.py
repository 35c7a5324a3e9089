"""placement: where the arrays of an execution region lie in memory, with fewer gaps than IREE leaves between them.

    %0:3 = stream.resource.pack slices({            %p0 = arith.constant 12288 : index   the bytes of all
      [0, 2] = %c4096, [2, 5] = %c8192      ->      %p1 = arith.constant 0 : index       where each array begins
    }) : index                                      %p2 = arith.constant 4096 : index

IREE allocates the arrays of an execution region at once, and gives each the smallest gap that is free while it is live,
in the order in which the arrays are computed. A small array then often takes a part of the memory in which a large one
would fit next. Here the largest arrays come first, or the array at the end of the allocation does, again and again. The
order that needs the fewest bytes is taken. In gradients of eight functions of the benchmarks it needs at most 2% more
than the bytes that are live at once, where IREE needs up to 42% more.

The text is that of IREE's own compiler, between the pipelines `SCHEDULE` and `FINISH`, which `steps.py` runs. The pass
relies on these invariants, and checks them (`invariants.py`):

- each pack is in a function, has no offset, and lists as many slices as it has results after the first one;
- a name that is one number is that number wherever it is defined in a function;
- a result of a pack is named after the pack, and is named only after the pack in the block of the pack: blocks beside
  one another, such as the bodies of two loops, have the same names. A block ends at a line that is indented less;
- IREE aligns arrays to `_ALIGNMENT` bytes, or to fewer;
- arrays that are live at once lie apart, each within the allocation, at multiples of the alignment.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from tiduc.backends.iree.fault import slow
from tiduc.backends.iree.modules.invariants import require

SCHEDULE, FINISH = (
    f"builtin.module({passes})"
    for passes in (
        "iree-stream-tensor-transformation-pipeline,iree-stream-async-transformation-pipeline,"
        "iree-stream-schedule-allocation",
        "iree-stream-cmd-transformation-pipeline,iree-stream-optimization-pipeline",
    )
)
"""The phase of IREE that schedules dispatches, until it decides which arrays share an allocation, and its rest."""

_ALIGNMENT = 64
"""IREE's alignment of arrays on CPUs, in bytes."""

_GAIN = 2**10
"""Arrays are placed here only if this saves so many bytes."""

_MOST = 4096
"""The most arrays of an allocation that are placed: the time of an order grows with the square of their number."""

_ROUNDS = 20
"""The most times that an array is moved to the start of an order; fewer for many arrays, to limit the time."""

_NEVER = 2**60
"""More than any place in memory, and than any step."""

FUNCTION = re.compile(r"^  util\.(?!global)\w+ .*?^  \}$", re.MULTILINE | re.DOTALL)
CONSTANT = re.compile(r"(%\w+) = arith\.constant (\d+) : index")
PACK = re.compile(r"(%\w+):\d+ = stream\.resource\.pack [^{]*slices\(\{(.*?)\}\) : index", re.DOTALL)
SLICE = re.compile(r"\[(\d+), (\d+)\] = (%\w+)")
DEFINED = re.compile(
    r"^ +(%\w+(?::\d+)?(?:, %\w+(?::\d+)?)*) = (?!arith\.constant \d+ : index$)", re.MULTILINE
)
"""The names that an op defines, unless it is a constant of type index."""
_ALIGNED = re.compile(r"min_buffer_(?:offset|range)_alignment = (\d+)")


class Array(NamedTuple):
    """The first and the last step at which an array is live, its bytes, and the least place at which it may begin."""

    first: int
    last: int
    bytes: int
    least: int = 0


class Fixed(NamedTuple):
    """Where something begins and ends that has its place, and its first and its last step."""

    start: int
    end: int
    first: int
    last: int


class Places(NamedTuple):
    """The bytes of an allocation, and where each of its arrays begins."""

    bytes: int
    starts: list[int]


@slow(
    "Leaves gaps between the arrays of an execution region; places the largest arrays first.",
    "suite.py: convnet",
)
def placed(module: str) -> str | None:
    """A module, between `SCHEDULE` and `FINISH`, with its arrays placed; None if that gains too little."""
    check_packs(module)
    given, best = 0, 0
    packs: list[tuple[re.Match[str], Places]] = []
    for function in FUNCTION.finditer(module):
        sizes = constants(function[0])
        for pack in PACK.finditer(module, *function.span()):
            slices = SLICE.findall(pack[2])
            if len(slices) > _MOST or any(size not in sizes for *_, size in slices):
                continue
            arrays = [Array(int(first), int(last), sizes[size]) for first, last, size in slices]
            own, places = in_order(arrays, range(len(arrays))), lowest(arrays)
            check_places(arrays, places)
            given, best = given + own.bytes, best + places.bytes
            packs.append((pack, places))
    return _with_places(module, packs) if packs and given - best >= _GAIN else None


def check_packs(module: str) -> None:
    """Checks the invariants of packs in the text of a module."""
    count = 0
    for function in FUNCTION.finditer(module):
        for pack in PACK.finditer(function[0]):
            count += 1
            slices = len(SLICE.findall(pack[2]))
            is_whole = slices == pack[2].count("=") and pack[0].startswith(f"{pack[1]}:{slices + 1} = ")
            require(
                is_whole and "offset(" not in pack[0], "a pack has a result for each slice, and no offset"
            )
        _check_uses(function[0])
    require(count == module.count("stream.resource.pack "), "each pack is in a function")
    alignments = [int(n) for n in _ALIGNED.findall(module)]
    require(all(n and _ALIGNMENT % n == 0 for n in alignments), f"arrays begin at multiples of {_ALIGNMENT}")


def _check_uses(function: str) -> None:
    """Checks that each use of a name of packs is in the block of the one op that defines the name there."""
    names = {pack[1] for pack in PACK.finditer(function)}
    within, uses = Counter[str](), Counter(re.findall(r"(%\w+)#", function)) if names else Counter[str]()
    for op in DEFINED.finditer(function):
        name, several, _ = op[1].partition(":")
        if several and name in names:
            within[name] += function.count(f"{name}#", op.end(), end_of_block(function, op.start(1)))
    require(
        all(within[name] == uses[name] for name in names), "the results of a pack are used after the pack"
    )


def end_of_block(text: str, start: int) -> int:
    """Where the block ends that has the op at `start`: before the first line that is indented less, save labels."""
    end = re.compile(rf"\n {{0,{indent(text, start) - 1}}}[^ ^\n]").search(text, start)
    require(end is not None, "a block ends")
    return end.start() if end else len(text)


def indent(text: str, start: int) -> int:
    """How far the op at `start` is indented."""
    return start - text.rfind("\n", 0, start) - 1


def constants(function: str) -> dict[str, int]:
    """The constants of type index in the text of a function, by name."""
    found = set(CONSTANT.findall(function))  # regions beside one another may have the same names
    sizes = {name: int(n) for name, n in found}
    others = re.findall(r"%\w+", " ".join(DEFINED.findall(function)))
    is_one = len(sizes) == len(found) and sizes.keys().isdisjoint(others)
    require(is_one, "a name is one number in a function")
    return sizes


def check_places(arrays: Sequence[Array], places: Places, fixed: Sequence[Fixed] = ()) -> None:
    """Checks that arrays that are live at once lie apart, also from what has its place, and within the allocation."""
    starts = np.array([*places.starts, *(each.start for each in fixed)], np.int64)
    sizes = [array.bytes for array in arrays]
    ends = np.array(
        [*(start + n for start, n in zip(places.starts, sizes, strict=True)), *(x.end for x in fixed)]
    )
    first, last = (
        np.array([getattr(each, name) for each in (*arrays, *fixed)]) for name in ("first", "last")
    )
    is_full = ends > starts
    for i, array in enumerate(arrays):
        at_once = is_full & (first <= array.last) & (last >= array.first)
        shares = at_once & (starts < ends[i]) & (ends > starts[i])
        require(array.bytes == 0 or np.count_nonzero(shares) == 1, "arrays that are live at once lie apart")
        is_inside = starts[i] >= array.least and starts[i] % _ALIGNMENT == 0 and ends[i] <= places.bytes
        require(bool(is_inside), "arrays lie within the allocation, at multiples of the alignment")


def lowest(arrays: Sequence[Array], fixed: Sequence[Fixed] = ()) -> Places:
    """The places of arrays in the allocation of fewest bytes that is found, beside what has its place."""
    numbers = range(len(arrays))
    best, live = in_order(arrays, numbers, fixed), max([live_bytes(arrays), *(each.end for each in fixed)])
    for start in (numbers, sorted(numbers, key=lambda i: -arrays[i].bytes)):
        order = list(start)
        for _ in range(min(_ROUNDS, 1 + _MOST // (len(arrays) + 1))):
            places = in_order(arrays, order, fixed)
            best = min(best, places, key=lambda places: places.bytes)
            if best.bytes == live:
                return best
            top = max(numbers, key=lambda i: places.starts[i] + arrays[i].bytes)
            if top == order[0]:  # the next order would be this one
                break
            order.remove(top)
            order.insert(0, top)
    return best


def live_bytes(arrays: Sequence[Array]) -> int:
    """The most bytes that are live at once."""
    steps = np.zeros(max((array.last for array in arrays), default=0) + 2, np.int64)
    for array in arrays:
        steps[array.first] += aligned(array.bytes)
        steps[array.last + 1] -= aligned(array.bytes)
    return int(np.cumsum(steps).max())


def aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def in_order(arrays: Sequence[Array], order: Iterable[int], fixed: Sequence[Fixed] = ()) -> Places:
    """The places of arrays if each, in this order, takes the smallest gap that is free while it is live."""
    starts, total = [0] * len(arrays), max((each.end for each in fixed), default=0)
    # The rows are beginnings, ends, first and last steps. The first `count` columns are arrays that have their place,
    # in the order of memory, between the two ends of memory, which are taken at all steps.
    ends = Fixed(-1, 0, -_NEVER, _NEVER), Fixed(_NEVER, _NEVER, -_NEVER, _NEVER)
    count = len(fixed) + len(ends)
    taken = np.empty((4, count + len(arrays)), np.int64)
    taken[:, :count] = np.array([ends[0], *sorted(fixed), ends[1]]).T
    for i in order:
        array, size = arrays[i], aligned(arrays[i].bytes)
        begins, free, first, last = taken[:, :count]
        at_once = ((first <= array.last) & (last >= array.first)).nonzero()[0]
        free = np.maximum(np.maximum.accumulate(free[at_once[:-1]]), array.least)
        gaps = begins[at_once[1:]] - free
        gaps[gaps < size] = 2 * _NEVER
        start = starts[i] = int(free[gaps.argmin()])
        total = max(total, start + size)
        at = int(begins.searchsorted(start))
        taken[:, at + 1 : count + 1] = taken[:, at:count]
        taken[:, at] = start, start + size, array.first, array.last
        count += 1
    return Places(total, starts)


def _with_places(module: str, packs: Iterable[tuple[re.Match[str], Places]]) -> str:
    """The module with constants in place of packs."""
    for number, (pack, places) in reversed(list(enumerate(packs))):
        end = end_of_block(module, pack.start())
        constants = "\n    ".join(
            f"%placed{number}_{i} = arith.constant {value} : index"
            for i, value in enumerate((places.bytes, *places.starts))
        )
        readers = re.sub(rf"{re.escape(pack[1])}#(\d+)\b", rf"%placed{number}_\1", module[pack.end() : end])
        require(f"{pack[1]}#" not in readers, "a result of a pack is named after the pack")
        module = module[: pack.start()] + constants + readers + module[end:]
    return module
