"""hosting: arrays of an execution region lie in the memory of results that are written after the last use of them.

    %1 = subview %result[%p#1]                          %1 = subview %result[%c0]
    execute with(%1 as %r, %transient as %t) {    ->    execute with(%1 as %r, %transient as %t, %result as %h) {
      dispatch @f { wo %t[%q#1 for %n] }                  dispatch @f { wo %h[%c0 for %n] }
      dispatch @g { ro %t[%q#1 for %n], ... }             dispatch @g { ro %h[%c0 for %n], ... }
      dispatch @h { wo %r[%c0 for %n] }                   dispatch @h { wo %r[%c0 for %n] }

IREE allocates all results of an execution region before the region runs, in one allocation, and the arrays that only
the region needs in another one. In the gradient of a network, most results, the derivatives of weights, are written
after most other arrays have been read. Results are placed by the time at which they are written, so that those that are
still to be written lie side by side. Arrays then take the smallest gap that is free while they are live, in the memory
of results or else in an allocation of their own. An array is hosted only if one region uses it, and if only dispatches
and fills do. The text is that of `placement.py`, which places the arrays that are left.
"""

import re
from collections import Counter
from typing import NamedTuple

from tiduc.backends.iree.fault import slow
from tiduc.backends.iree.placement import (
    CONSTANT,
    FUNCTION,
    PACK,
    SLICE,
    Array,
    Fixed,
    Places,
    aligned,
    live_bytes,
    lowest,
)

_GAIN = 64
"""Arrays are hosted only if so many bytes fewer of the other ones are live at once."""

_MOST = 4096
"""The most arrays and results, since the time of placing them grows with the square of their number."""

_EXECUTE = re.compile(
    r"^    %\w+ = stream\.cmd\.execute [^\n]*with\(([^\n]*)\) \{\n(.*?)^    \} => !stream\.timepoint$",
    re.MULTILINE | re.DOTALL,
)
_OPERAND = re.compile(r"(%\w+) as (%\w+): !stream\.resource<(\w+)>\{(%[\w#]+)\}")
_STEP = re.compile(r"^      (?=stream\.cmd\.)", re.MULTILINE)
_ALLOCATION = re.compile(
    r"^    (%\w+), %\w+ = stream\.resource\.alloca [^\n]*!stream\.resource<external>\{(%\w+)#0\} =>",
    re.MULTILINE,
)


class _Region(NamedTuple):
    """The execution region in the text of a function, the names of its two allocations, and their packs.

    `written` has the step that first uses each result; `argument` is the name of the other allocation in the region.
    """

    execute: re.Match[str]
    results: str
    of_results: re.Match[str]
    written: list[int]
    argument: str
    of_arrays: re.Match[str]

    @property
    def steps(self) -> list[str]:
        return _STEP.split(self.execute[2])[1:]


@slow("Gives arrays no memory of results that are written after the arrays' last use.")
def hosted(module: str) -> str | None:
    """A module, between `SCHEDULE` and `FINISH`, with arrays in the memory of results; None if none is there."""
    texts, end = list[str](), 0
    for function in FUNCTION.finditer(module):
        text = function[0]
        for number in range(len(_EXECUTE.findall(text))):
            text = _in_region(text, number) or text
        if text != function[0]:
            texts += [module[end : function.start()], text]
            end = function.end()
    return "".join([*texts, module[end:]]) if texts else None


def _in_region(text: str, number: int) -> str | None:
    """A function with arrays of an execution region in the memory of its results; None if that gains too little."""
    region = _region(text, list(_EXECUTE.finditer(text))[number])
    if region is None:
        return None
    sizes = {name: int(n) for name, n in CONSTANT.findall(text)}
    of_results, of_arrays = (SLICE.findall(pack[2]) for pack in (region.of_results, region.of_arrays))
    if len(of_results) + len(of_arrays) > _MOST or any(x not in sizes for *_, x in (*of_results, *of_arrays)):
        return None
    places = _places_of_results([sizes[x] for *_, x in of_results], region.written)
    steps = region.steps
    end = aligned(places.bytes + 1) - aligned(1)  # arrays end at multiples of the alignment
    uses = _uses(text, region, len(of_arrays))
    arrays = [Array(int(first), int(last), sizes[x]) for first, last, x in of_arrays]
    lived = _lifetimes(region, len(of_arrays))
    both = [  # an array that must stay lies behind the results
        array._replace(first=life[0], last=life[1]) if own else Array(0, len(steps), array.bytes, end)
        for array, own, life in zip(arrays, uses, lived, strict=True)
    ]
    fixed = [
        Fixed(start, start + aligned(sizes[x]), first, len(steps))
        for start, first, (*_, x) in zip(places.starts, region.written, of_results, strict=True)
    ]
    starts = lowest(both, [*fixed, Fixed(end, end, 0, len(steps))]).starts
    moved = {i: start for i, start in enumerate(starts, 1) if start < end}
    left = [array for i, array in enumerate(arrays, 1) if i not in moved]
    if live_bytes(arrays) - live_bytes(left) < _GAIN:
        return None
    return _rewritten(text, region, number, places, moved, uses)


def _region(text: str, execute: re.Match[str]) -> _Region | None:
    """The region of an execution, if one allocation has all its results, and another one its arrays."""
    packs = {pack[1]: pack for pack in PACK.finditer(text)}
    operands = _OPERAND.findall(execute[1])
    transient = [
        (argument, size.removesuffix("#0"))
        for _, argument, kind, size in operands
        if kind == "transient" and size.endswith("#0") and size.removesuffix("#0") in packs
    ]
    arguments = {name: argument for name, argument, *_ in operands}
    for base, pack in _ALLOCATION.findall(text[: execute.start()]):
        subview = re.compile(rf"(%\w+) = stream\.resource\.subview {base}\[{pack}#(\d+)\]")
        names = {int(i): name for name, i in subview.findall(text)}
        if pack not in packs or len(transient) != 1 or not any(name in arguments for name in names.values()):
            continue
        uses = {i: len(re.findall(rf"{name}\b", text[: execute.start()])) for i, name in names.items()}
        written = [0] * len(SLICE.findall(packs[pack][2]))
        steps = _STEP.split(execute[2])[1:]
        for i, name in names.items():
            if name in arguments and uses[i] == 1:
                used = [n for n, step in enumerate(steps) if f"{arguments[name]}[" in step]
                written[i - 1] = used[0] if used else 0
        return _Region(execute, base, packs[pack], written, transient[0][0], packs[transient[0][1]])
    return None


def _places_of_results(sizes: list[int], written: list[int]) -> Places:
    """The places of results, by the time at which they are written; the last one is not rounded up to the alignment."""
    numbers = sorted(range(len(sizes)), key=lambda i: written[i])
    last = max(numbers, key=lambda i: aligned(sizes[i]) - sizes[i])
    starts, total = [0] * len(sizes), 0
    for i in [*(i for i in numbers if i != last), last]:
        starts[i], total = total, total + aligned(sizes[i])
    return Places(total - aligned(sizes[last]) + -(-sizes[last] // 4) * 4, starts)


def _uses(text: str, region: _Region, count: int) -> list[list[str]]:
    """The texts of the uses of each array by dispatches and fills of the region; none if there are other uses."""
    pack = re.escape(region.of_arrays[1])
    use = re.compile(
        rf"{region.argument}\[{pack}#(\d+) for %\w+\] :(?: \w+ ->)? !stream\.resource<transient>\{{{pack}#0\}}"
    )
    found, ours = [dict[str, None]() for _ in range(count + 1)], Counter[int]()
    for match in use.finditer(region.execute[2]):
        found[int(match[1])][match[0]] = None
        ours[int(match[1])] += 1
    named = Counter(map(int, re.findall(rf"{pack}#(\d+)\b", text)))
    return [list(found[i]) if ours[i] == named[i] else [] for i in range(1, count + 1)]


def _lifetimes(region: _Region, count: int) -> list[tuple[int, int]]:
    """The first and the last step that names each array; an array that no step names is live throughout."""
    use = re.compile(rf"{re.escape(region.of_arrays[1])}#(\d+)\b")
    steps = region.steps
    lives: dict[int, tuple[int, int]] = {}
    for i, step in enumerate(steps):
        for number in map(int, use.findall(step)):
            lives[number] = lives.get(number, (i, i))[0], i
    return [lives.get(number, (0, len(steps))) for number in range(1, count + 1)]


def _rewritten(
    text: str,
    region: _Region,
    number: int,
    places: Places,
    moved: dict[int, int],
    uses: list[list[str]],
) -> str:
    """The function with constants for the places of results and of moved arrays, whose slices become empty."""
    name, of_results, of_arrays = f"%hosted{number}", region.of_results[1], region.of_arrays[1]
    constants = {f"{name}_{i}": value for i, value in enumerate((places.bytes, *places.starts))}
    constants |= {f"{name}_at{i}": start for i, start in moved.items()} | {f"{name}_none": 0}
    sizes = iter(range(1, len(uses) + 1))
    slices = re.sub(
        r"= %\w+", lambda size: f"= {name}_none" if next(sizes) in moved else size[0], region.of_arrays[2]
    )
    body = region.execute[0].replace(
        region.execute[1],
        f"{region.results} as {name}_results: !stream.resource<external>{{{of_results}#0}}, {region.execute[1]}",
        1,
    )
    new = {
        use: f"{name}_results[{name}_at{i} for {use.partition(' for ')[2]}".replace(
            f"<transient>{{{of_arrays}#0}}", f"<external>{{{of_results}#0}}"
        )
        for i in moved
        for use in uses[i - 1]
    }
    use = re.compile("|".join(map(re.escape, new)))
    body = use.sub(lambda match: new[match[0]], body)
    text = text.replace(region.execute[0], body)
    text = text.replace(region.of_arrays[0], region.of_arrays[0].replace(region.of_arrays[2], slices))
    text = text.replace(region.of_results[0], "")
    text = re.sub(rf"{re.escape(of_results)}#(\d+)\b", rf"{name}_\1", text)
    head, line, rest = text.partition(" {\n")
    lines = "".join(f"    {each} = arith.constant {value} : index\n" for each, value in constants.items())
    return head + line + lines + rest
