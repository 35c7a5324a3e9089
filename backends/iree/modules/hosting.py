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
and fills do. A region in a loop or branch of the host hosts nothing: it may run again, when results have their values.
So does a function with several blocks. The text is that of `placement.py`, which places the arrays that are left.

The pass relies on the invariants of packs in `placement.py`, and on these, which it checks, too:

- each execution region outside of loops is of the form that `_EXECUTE` describes, and its steps, which begin with
  `stream.cmd.`, run in order; ops of one step may run at once;
- a name that is defined outside of loops is defined once in a function;
- a use of an array is no longer than the array's slice of the pack, and so is a result;
- results and hosted arrays that are live at once lie apart. An array is live from the first to the last step that names
  it, a result from the first step that names it to the end of the region.
"""

import re
from collections import Counter
from collections.abc import Collection, Mapping
from itertools import count as numbers_from
from typing import NamedTuple

from tiduc.backends.iree.fault import slow
from tiduc.backends.iree.modules.invariants import require
from tiduc.backends.iree.modules.placement import (
    DEFINED,
    FUNCTION,
    PACK,
    SLICE,
    Array,
    Fixed,
    Places,
    aligned,
    check_packs,
    check_places,
    constants,
    indent,
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
_OUTSIDE, _LABEL = 4, "\n  ^"
"""How far ops outside of loops and branches are indented, and how the second block of a function begins."""
_EXECUTIONS = re.compile(rf"^ {{{_OUTSIDE}}}\S[^\n]* stream\.cmd\.execute ", re.MULTILINE)
_OPERAND = re.compile(r"(%\w+) as (%\w+): !stream\.resource<(\w+)>\{(%[\w#]+)\}")
_STEP = re.compile(r"^      (?=stream\.cmd\.)", re.MULTILINE)
_NAME, _PART, _PLACE = re.compile(r"%\w+(?:#\d+)?"), re.compile(r"%\w+#\d+"), re.compile(r"(%\w+)\[")
_SUBVIEW = re.compile(
    r"^    (%\w+) = stream\.resource\.subview (%\w+)\[(%\w+)#(\d+)\]"
    r" : !stream\.resource<\w+>\{%[\w#]+\} -> !stream\.resource<\w+>\{(%\w+)\}",
    re.MULTILINE,
)
_ALLOCATION = re.compile(
    r"^    (%\w+), %\w+ = stream\.resource\.alloca [^\n]*!stream\.resource<external>\{(%\w+)#0\} =>",
    re.MULTILINE,
)


class _Function:
    """The text of a function, read once: its packs outside of loops, the places of results, and where names occur.

    `results` are by the name of a subview: the place of its allocation in the text, the name of the allocation, that of
    its pack, and the number of the result. `second` has the place at which each name occurs for the second time.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        packs = PACK.finditer(text)
        self.packs = {pack[1]: pack for pack in packs if indent(text, pack.start()) == _OUTSIDE}
        self.sizes = constants(text)
        allocations = {(each[1], each[2]): each.start() for each in _ALLOCATION.finditer(text)}
        self.results: dict[str, tuple[int, str, str, int]] = {}
        self.names: dict[str, list[str]] = {}  # by pack: the subviews
        for name, base, pack, i, size in _SUBVIEW.findall(text):
            if (base, pack) in allocations and pack in self.packs:
                *_, given = SLICE.findall(self.packs[pack][2])[int(i) - 1]
                is_within = size == given or self.sizes.get(size, 1) <= self.sizes.get(given, 0)
                require(is_within, "a result is no longer than its slice of the pack")
                self.results[name] = allocations[base, pack], base, pack, int(i)
                self.names.setdefault(pack, []).append(name)
        self.named, self.second = Counter[str](), dict[str, int]()
        for match in _NAME.finditer(text):
            self.named[match[0]] += 1
            if self.named[match[0]] == 2:
                self.second[match[0]] = match.start()


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
    steps: list[str]


@slow("Gives arrays no memory of results that are written after the arrays' last use.", "suite.py: convnet")
def hosted(module: str) -> str | None:
    """A module, between `SCHEDULE` and `FINISH`, with arrays in the memory of results; None if none is there.

    Takes time in proportion to the text, and to the square of the number of arrays and results of each region.
    """
    check_packs(module)
    texts, end = list[str](), 0
    for match in FUNCTION.finditer(module):
        text = _in_function(match[0])
        if text is not None:
            texts += [module[end : match.start()], text]
            end = match.end()
    return "".join([*texts, module[end:]]) if texts else None


def _in_function(text: str) -> str | None:
    """A function with arrays of its execution regions in the memory of results; None if no region gains enough."""
    if _LABEL in text or not _EXECUTIONS.search(text):
        return None
    _check_names(text)
    function = _Function(text)
    changes = _Changes([], {}, {}, set())
    executions = list(_EXECUTE.finditer(text))
    is_known = len(executions) == len(_EXECUTIONS.findall(text))
    require(is_known, "an execution region has operands and steps in the form that the pass knows")
    for number, execute in enumerate(executions):
        region = _region(function, execute, changes.packs)
        if region is not None:
            _in_region(function, region, number, changes)
    return changes.applied(text) if changes.parts else None


def _check_names(text: str) -> None:
    """Checks that names that are defined outside of loops are defined once in a function."""
    outside, inside = list[str](), set[str]()
    for op in DEFINED.finditer(text):
        names = re.findall(r"%\w+", op[1])
        if indent(text, op.start(1)) == _OUTSIDE:
            outside += names
        else:
            inside.update(names)
    is_once = len(set(outside)) == len(outside) and inside.isdisjoint(outside)
    require(is_once, "a name outside of loops is defined once in a function")


class _Changes(NamedTuple):
    """Changes of a function: parts of its text with their new text, new names, constants to be defined, and packs."""

    parts: list[tuple[int, int, str]]
    names: dict[str, str]
    constants: dict[str, int]
    packs: set[str]

    def applied(self, text: str) -> str:
        start = text.index("\n") + 1
        lines = "".join(f"    {name} = arith.constant {n} : index\n" for name, n in self.constants.items())
        texts, end = list[str](), 0
        for first, last, new in sorted([*self.parts, (start, start, lines)]):
            texts += [text[end:first], new]
            end = last
        return _PART.sub(lambda part: self.names.get(part[0], part[0]), "".join([*texts, text[end:]]))


def _in_region(function: _Function, region: _Region, number: int, changes: _Changes) -> None:
    """Adds the changes that put arrays of a region in the memory of its results; none if that gains too little."""
    sizes = function.sizes
    of_results, of_arrays = (SLICE.findall(pack[2]) for pack in (region.of_results, region.of_arrays))
    if len(of_results) + len(of_arrays) > _MOST or any(x not in sizes for *_, x in (*of_results, *of_arrays)):
        return
    places = _places_of_results([sizes[x] for *_, x in of_results], region.written)
    end = aligned(places.bytes + 1) - aligned(1)  # arrays end at multiples of the alignment
    may_move = _may_move(function, region, len(of_arrays))
    arrays = [Array(int(first), int(last), sizes[x]) for first, last, x in of_arrays]
    lives = _lifetimes(region, len(of_arrays))
    steps = len(region.steps)
    both = [  # an array that must stay lies behind the results
        array._replace(first=life[0], last=life[1]) if moves else Array(0, steps, array.bytes, end)
        for array, moves, life in zip(arrays, may_move, lives, strict=True)
    ]
    fixed = [
        Fixed(start, start + aligned(sizes[x]), first, steps)
        for start, first, (*_, x) in zip(places.starts, region.written, of_results, strict=True)
    ]
    placed = lowest(both, [*fixed, Fixed(end, end, 0, steps)])
    starts = placed.starts
    check_places(both, placed, fixed)
    _check_uses(function, region, arrays)
    moved = {i: start for i, start in enumerate(starts, 1) if start < end}
    left = [array for i, array in enumerate(arrays, 1) if i not in moved]
    if live_bytes(arrays) - live_bytes(left) >= _GAIN:
        _move(region, number, places, moved, changes)


def _region(function: _Function, execute: re.Match[str], changed: Collection[str]) -> _Region | None:
    """The region of an execution, if one allocation has all its results, and another one its arrays.

    `changed` are the packs that other regions have changed.
    """
    operands = _OPERAND.findall(execute[1])
    transient = [
        (argument, size.removesuffix("#0"))
        for _, argument, kind, size in operands
        if kind == "transient" and size.endswith("#0") and size.removesuffix("#0") in function.packs
    ]
    arguments = {name: argument for name, argument, *_ in operands}
    found = {function.results[name][:3] for name in arguments if name in function.results}
    found = {each for each in found if each[2] not in changed}
    if len(transient) != 1 or not found or transient[0][1] in changed:
        return None
    _, base, pack = min(found)
    before, *steps = _STEP.split(execute[2])
    require(not before.strip(), "steps begin with 'stream.cmd.'")
    first: dict[str, int] = {}
    for i, step in enumerate(steps):
        for name in _PLACE.findall(step):
            first.setdefault(name, i)
    written = [0] * len(SLICE.findall(function.packs[pack][2]))
    given = Counter(name for name, *_ in operands)
    for name in function.names[pack]:
        i = function.results[name][3]
        is_only_name = given[name] == 1 and function.named[f"{pack}#{i}"] == 1
        if is_only_name and function.second[name] > execute.start():
            written[i - 1] = first.get(arguments[name], 0)
    packs = function.packs
    return _Region(execute, base, packs[pack], written, transient[0][0], packs[transient[0][1]], steps)


def _places_of_results(sizes: list[int], written: list[int]) -> Places:
    """The places of results, by the time at which they are written; the last one is not rounded up to the alignment."""
    numbers = sorted(range(len(sizes)), key=lambda i: written[i])
    last = max(numbers, key=lambda i: aligned(sizes[i]) - sizes[i])
    starts, total = [0] * len(sizes), 0
    for i in [*(i for i in numbers if i != last), last]:
        starts[i], total = total, total + aligned(sizes[i])
    return Places(total - aligned(sizes[last]) + -(-sizes[last] // 4) * 4, starts)


def _use(region: _Region) -> re.Pattern[str]:
    """The text of a use of an array by a dispatch or a fill of the region."""
    pack = re.escape(region.of_arrays[1])
    return re.compile(
        rf"{region.argument}\[{pack}#(\d+) for (%\w+\] :(?: \w+ ->)? !stream\.resource<)transient>\{{{pack}#0\}}"
    )


def _may_move(function: _Function, region: _Region, count: int) -> list[bool]:
    """For each array, whether only dispatches and fills of the region use it."""
    ours = Counter(int(use[1]) for use in _use(region).finditer(region.execute[2]))
    named = [function.named[f"{region.of_arrays[1]}#{i}"] for i in range(1, count + 1)]
    return [n > 0 and ours[i] == n for i, n in enumerate(named, 1)]


def _check_uses(function: _Function, region: _Region, arrays: list[Array]) -> None:
    """Checks that the uses of arrays by dispatches and fills are no longer than the arrays."""
    for use in _use(region).finditer(region.execute[2]):
        length = function.sizes.get(use[2].partition("]")[0])
        require(
            length is not None and length <= arrays[int(use[1]) - 1].bytes,
            "a use is no longer than its array",
        )


def _lifetimes(region: _Region, count: int) -> list[tuple[int, int]]:
    """The first and the last step that names each array; an array that no step names is live throughout."""
    use = re.compile(rf"{re.escape(region.of_arrays[1])}#(\d+)\b")
    lives: dict[int, tuple[int, int]] = {}
    for i, step in enumerate(region.steps):
        for number in map(int, use.findall(step)):
            lives[number] = lives.get(number, (i, i))[0], i
    return [lives.get(number, (0, len(region.steps))) for number in range(1, count + 1)]


def _move(region: _Region, number: int, places: Places, moved: Mapping[int, int], changes: _Changes) -> None:
    """Adds constants for the places of results and of moved arrays, whose slices become empty."""
    name, of_results, of_arrays = f"%hosted{number}", region.of_results[1], region.of_arrays[1]
    in_results = f"external>{{{of_results}#0}}"

    def new_use(use: re.Match[str]) -> str:
        i = int(use[1])
        return f"{name}_results[{name}_at{i} for {use[2]}{in_results}" if i in moved else use[0]

    changes.constants.update({f"{name}_{i}": n for i, n in enumerate((places.bytes, *places.starts))})
    changes.constants.update({f"{name}_at{i}": start for i, start in moved.items()}, **{f"{name}_none": 0})
    changes.names.update({f"{of_results}#{i}": f"{name}_{i}" for i in range(len(places.starts) + 1)})
    changes.packs.update((of_results, of_arrays))
    numbers = numbers_from(1)
    slices = re.sub(
        r"= %\w+",
        lambda size: f"= {name}_none" if next(numbers) in moved else size[0],
        region.of_arrays[2],
    )
    operands = f"{region.results} as {name}_results: !stream.resource<{in_results}, "
    execute, given = region.execute, region.execute.start(1)
    changes.parts.extend(
        [
            (*region.of_results.span(), ""),
            (*region.of_arrays.span(2), slices),
            (given, given, operands),
            (*execute.span(2), _use(region).sub(new_use, execute[2])),
        ]
    )
