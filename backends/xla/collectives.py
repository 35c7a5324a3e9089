"""collectives: the communication in a partitioned program, read from the module that XLA has compiled.

    %all-reduce = f32[8,8] all-reduce(%x), replica_groups=mesh['a'=4,'b'=2] {'a'}   ->   Collective("all-reduce", ...)

The program is compiled for simulated devices, which need no hardware: XLA divides the CPU into any number of devices.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from tiduc.backends.xla.executable import compiled_for_simulated_devices
from tiduc.runtime.arrays import Array

KINDS = (
    "all-reduce",
    "all-gather",
    "reduce-scatter",
    "all-to-all",
    "collective-permute",
    "collective-broadcast",
)
"""XLA's collectives on CPUs."""

_BITS = {"pred": 8, "s4": 4, "u4": 4, "c64": 64, "c128": 128}  # of other types, the name gives the bits
_ARRAY = re.compile(r"\b(pred|[a-z]+\d+[a-z0-9]*)\[([\d,]*)\]")
_HEADER = re.compile(r"^(ENTRY )?%?([\w.\-]+) \(.*\{$")
_OP = re.compile(rf" = (.+?) ({'|'.join(KINDS)})\(")
_CALLED = re.compile(r"(?:to_apply|calls|true_computation|false_computation)=%?([\w.\-]+)")
_BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}|(?:true|false)_computation=%?([\w.\-]+)")
_LOOP = re.compile(r" while\(.*condition=%?([\w.\-]+), body=%?([\w.\-]+)")
_TRIPS = re.compile(r'"known_trip_count":\{"n":"?(\d+)"?\}')
_LISTED = re.compile(r"replica_groups=\{(\{[\d,{}]*\})\}")
_COUNTED = re.compile(r"replica_groups=\[(\d+),(\d+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?")
_MESH = re.compile(r"replica_groups=mesh\[([^\]]*)\](?:, device_ids=\((.*?)\))? \{([^}]*)\}")
_IOTA = re.compile(r"(?:\[[\d,]+\]<=)?\[([\d,]+)\](?:T\(([\d,]+)\))?")
_PAIRS = re.compile(r"source_target_pairs=\{(\{.*?\})\}")


@dataclass(frozen=True, order=True)
class Collective:
    """The collectives of one kind among groups of devices of one size, in one run of a program.

    `axes` are the axes of the mesh along which the devices of a group differ; empty if they are not known, or if the
    groups follow no axes, such as the groups {0, 3} and {1, 2} of a mesh of 2 x 2 devices. `group` is the number of
    devices in the largest group, and `count` the number of collectives. `payload` is the bytes of complete arrays,
    summed over the collectives: of an all-gather the result, of a collective-permute the array of one device, and of
    others the operand of one device.
    """

    kind: str
    axes: tuple[str, ...]
    group: int
    count: int
    payload: int

    @property
    def sent(self) -> int:
        """The bytes that each device sends."""
        return bytes_sent(self.kind, self.payload, self.group)


@dataclass(frozen=True)
class Communication:
    """The collectives of a program in one run. A loop without a known trip count counts as one iteration."""

    collectives: tuple[Collective, ...]
    has_unknown_loops: bool = False


def bytes_sent(kind: str, payload: int, group: int) -> int:
    """The bytes that each of `group` devices sends in a collective, by the algorithms on rings of NCCL and Gloo.

    All-gather, reduce-scatter and all-to-all send (n - 1) / n of the payload. An all-reduce is a reduce-scatter and an
    all-gather. A permutation or a broadcast sends the payload once.
    """
    if group == 1:
        return 0
    if kind in ("collective-permute", "collective-broadcast"):
        return payload
    return (2 if kind == "all-reduce" else 1) * payload * (group - 1) // group


def communication(stablehlo: str, partitions: int, mesh: Mapping[str, int]) -> Communication:
    """The communication of a module for `partitions` devices, which XLA partitions and compiles for simulated devices.

    The function of the module is `main`. `mesh` maps the axes of the module's mesh to their sizes; it is empty if
    the module has no mesh. Raises `CompileError` if XLA refuses the module, and `TiducError` if JAX is missing.
    """
    return read_collectives(compiled_for_simulated_devices(stablehlo, partitions), partitions, mesh)


def read_collectives(hlo: str, devices: int, mesh: Mapping[str, int]) -> Communication:
    """The communication in the text of a compiled HLO module."""
    walk = _Walk(hlo, devices, mesh)
    found = walk.runs(walk.entry)
    payloads = Counter[tuple[str, tuple[str, ...], int]]()
    for (kind, axes, group, payload), count in found.items():
        payloads[kind, axes, group] += payload * count
    counts = Counter[tuple[str, tuple[str, ...], int]]()
    for (kind, axes, group, _), count in found.items():
        counts[kind, axes, group] += count
    listed = [Collective(*key, counts[key], payload) for key, payload in payloads.items() if key[2] > 1]
    return Communication(tuple(sorted(listed)), walk.has_unknown_loops)


Groups = Sequence[Sequence[int]] | Array
"""Groups of devices that communicate."""

_Found = Counter[tuple[str, tuple[str, ...], int, int]]  # kind, axes, group, payload


class _Walk:
    """Counts how often each collective of a module runs. Each computation is read once."""

    def __init__(self, hlo: str, devices: int, mesh: Mapping[str, int]) -> None:
        self.entry, self.has_unknown_loops = "", False
        self._devices, self._mesh = devices, mesh
        self._lines: dict[str, list[str]] = {}
        self._runs: dict[str, _Found] = {}
        name = ""
        for line in hlo.splitlines():
            if (header := _HEADER.match(line)) is not None:
                name = header[2]
                self._lines[name] = []
                self.entry = name if header[1] else self.entry
            elif name:
                self._lines[name].append(line)

    def runs(self, computation: str) -> _Found:
        """The collectives of one run of a computation."""
        if computation not in self._runs:
            found = _Found()
            for line in self._lines.get(computation, ()):
                found.update(self._line(line))
            self._runs[computation] = found
        return self._runs[computation]

    def _line(self, line: str) -> _Found:
        if (loop := _LOOP.search(line)) is not None:
            trips = _TRIPS.search(line)
            times = int(trips[1]) if trips else 1
            inside = self.runs(loop[2])
            self.has_unknown_loops |= trips is None and bool(inside)
            found = _Found({key: count * times for key, count in inside.items()})
            found.update({key: count * (times + 1) for key, count in self.runs(loop[1]).items()})
            return found
        if " conditional(" in line:
            listed = [name for found in _BRANCHES.findall(line) for part in found for name in part.split(",")]
            branches = [self.runs(name.strip().lstrip("%")) for name in listed if name.strip()]
            return max(branches, key=_total)  # the branch that communicates most
        if (op := _OP.search(line)) is not None:
            return _Found([self._collective(op[2], op[1], line)])
        found = _Found()
        for name in _CALLED.findall(line):
            found.update(self.runs(name))
        return found

    def _collective(self, kind: str, result: str, line: str) -> tuple[str, tuple[str, ...], int, int]:
        if (pairs := _PAIRS.search(line)) is not None:
            axes, size = _of_permutation(_listed(pairs[1]), self._mesh)
        else:
            groups, is_known = _groups(line, self._devices)
            axes, size = _axes(groups, self._mesh) if is_known else (), max(map(len, groups))
        payload = _bytes(result) * (size if kind == "reduce-scatter" else 1)
        return kind, axes, size, payload


def _total(found: _Found) -> int:
    return sum(bytes_sent(kind, payload, group) * n for (kind, _, group, payload), n in found.items())


def _bytes(type_: str) -> int:
    """The bytes of an array, or of a tuple of arrays."""
    total = 0
    for element, sizes in _ARRAY.findall(re.sub(r"/\*.*?\*/", "", type_)):
        bits = _BITS.get(element) or int(re.sub(r"^[a-z]+(\d+).*$", r"\1", element))
        total += prod(int(size) for size in sizes.split(",") if size) * bits
    return total // 8


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def _listed(text: str) -> list[list[int]]:
    """The groups or pairs of devices in a text such as `{0,1},{2,3}`."""
    return [_numbers(group) for group in re.findall(r"\{([\d,]+)\}", text)]


def _groups(line: str, devices: int) -> tuple[Groups, bool]:
    """The groups of devices that communicate, and whether their devices are known. Groups may differ in size."""
    if (mesh := _MESH.search(line)) is not None:
        order = _order(mesh[2] or "", devices)
        groups = _groups_of_mesh(mesh[1], mesh[3], np.arange(devices) if order is None else order)
        return groups, order is not None
    if (counted := _COUNTED.search(line)) is not None:
        ids = np.arange(devices).reshape(_numbers(counted[3]))
        ids = ids.transpose(_numbers(counted[4])) if counted[4] else ids
        return ids.reshape(int(counted[1]), int(counted[2])), True
    listed = _LISTED.search(line)
    return (_listed(listed[1]) if listed else []) or [range(devices)], True


def _order(listed: str, devices: int) -> Array | None:
    """The devices of a mesh in XLA's text, in the order of its axes; None if the text is not understood.

    `listed` is a list of devices, such as `0,2,1,3` or `[2,2]T(1,0)`, or empty for the ascending order.
    """
    if not listed:
        return np.arange(devices)
    if (iota := _IOTA.fullmatch(listed)) is not None:
        ids = np.arange(devices).reshape(_numbers(iota[1]))
        return (ids.transpose(_numbers(iota[2])) if iota[2] else ids).ravel()
    return np.array(_numbers(listed)) if re.fullmatch(r"[\d,]+", listed) else None


def _groups_of_mesh(sizes: str, axes: str, order: Array) -> Array:
    """The groups that vary along some axes of XLA's mesh; `'a':(2)4` is a part of an axis, of size 4 after size 2.

    `order` lists the devices of the mesh.
    """
    named = {name: int(size) for name, size in re.findall(r"'([^']+)'=(\d+)", sizes)}
    parts = {name: [size] for name, size in named.items()}
    chosen: dict[str, list[int]] = {}
    for name, before, size in re.findall(r"'([^']+)'(?::\((\d+)\)(\d+))?", axes):
        if before:
            first, own = int(before), int(size)
            parts[name] = [first, own, named[name] // (first * own)]
        chosen[name] = [1 if before else 0]
    flat: list[int] = []
    places: list[int] = []
    for name, each in parts.items():
        places += [len(flat) + i for i in chosen.get(name, [])]
        flat += each
    ids = np.moveaxis(order.reshape(flat), places, range(-len(places), 0))
    return ids.reshape(-1, prod(flat[i] for i in places))


def _axes(groups: Groups, mesh: Mapping[str, int]) -> tuple[str, ...]:
    """The axes of the program's mesh whose devices the groups join; empty if the groups follow no axes.

    Each group must have all devices along these axes, and its devices must have one place along each other axis.
    """
    if not mesh:
        return ()
    found = {_axes_of(group, mesh) for group in groups}
    return found.pop() if len(found) == 1 else ()


def _axes_of(group: Sequence[int] | Array, mesh: Mapping[str, int]) -> tuple[str, ...]:
    """The axes whose devices one group joins; empty if the group follows no axes."""
    places = np.unravel_index(np.asarray(group), tuple(mesh.values()))
    axes = tuple(name for name, at in zip(mesh, places, strict=True) if len(set(at.tolist())) > 1)
    count = prod(mesh[axis] for axis in axes)
    return axes if len(group) == count == len(set(np.asarray(group).tolist())) else ()


def _of_permutation(pairs: list[list[int]], mesh: Mapping[str, int]) -> tuple[tuple[str, ...], int]:
    """The axes along which the two devices of some pair differ, and the number of devices along these axes.

    Without a mesh, there are no axes, and the number is 2. It is 1 if each device sends to itself.
    """
    sent = np.array([pair for pair in pairs if pair[0] != pair[1]])
    if not len(sent):
        return (), 1
    if not mesh:
        return (), 2
    places = np.array(np.unravel_index(sent, tuple(mesh.values())))
    axes = tuple(name for name, at in zip(mesh, places, strict=True) if (at[:, 0] != at[:, 1]).any())
    return axes, prod(mesh[axis] for axis in axes)
