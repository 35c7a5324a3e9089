"""trace: computes the values of all ops of a program, their tangents or cotangents, and finds the first NaN."""

import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tiduc.calling import ordered
from tiduc.dialect.errors import RequestError
from tiduc.dialect.mlir.context import stage
from tiduc.ports import Wrt
from tiduc.program import Program
from tiduc.runtime.arrays import Array
from tiduc.runtime.checks import check_arguments
from tiduc.runtime.signature import SignatureValue, TensorType
from tiduc.tracing import runs
from tiduc.tracing.origin import INFINITY, NAN, BadOrigin, first_bad
from tiduc.tracing.runs import LIMIT, Piece, Run, Traced, traced
from tiduc.tracing.summaries import Summary
from tiduc.tracing.survey import Site

DERIVATIVES = ("jvp", "vjp")
OF = {"jvp": "tangent", "vjp": "cotangent"}
"""The derivative of each value that a JVP or a VJP computes."""

Place = Callable[[tuple[int, ...], "np.dtype[Any]"], Array]
"""A function that makes an array of zeros of a shape and element type, in memory or in a file."""


@dataclass
class TracedValue:
    """A row of a trace: a result of an op, or an input. `derivative` summarizes the value's tangent or cotangent.

    It is None if the value has no tangent or cotangent. `name` consists of the line and the op, such as 12.multiply. It
    is also the name of the row's array in a file.
    """

    name: str
    type: TensorType
    site: Site | None  # None for an input
    value: Summary
    derivative: Summary | None = None

    @property
    def op(self) -> str:
        return "input" if self.site is None else self.site.short

    @property
    def place(self) -> str:
        return "" if self.site is None else self.site.place


@dataclass
class RunTrace:
    """The result of `trace`: rows in program order, and the origins of the first NaN and of the first infinity.

    `arrays` maps the name of each row to its value. The name followed by `.tangent` or `.cotangent` is mapped to the
    tangent or cotangent. The array of an op in loops has a leading dimension for each loop.
    """

    program: Program
    derivative: str | None
    rows: list[TracedValue]
    arrays: dict[str, Array]
    origins: list[BadOrigin] = field(default_factory=list)
    untraced: int = 0  # the number of source locations of results that cannot be recorded


def in_memory(shape: tuple[int, ...], dtype: "np.dtype[Any]") -> Array:
    return np.zeros(shape, dtype)


@stage
def trace(
    program: Program,
    arguments: Sequence[ArrayLike],
    derivative: str | None = None,
    wrt: Wrt = None,
    only: Sequence[str] = (),
    *,
    run: Run = Program.compile,
    limit: int = LIMIT,
    place: Place | None = in_memory,
) -> RunTrace:
    """Runs a program at the arguments and returns the values of its ops.

    With `derivative` "jvp" or "vjp", each row also has the tangent or cotangent of its value. Then `arguments` may also
    contain, after the arguments of the program, the tangents of the inputs in `wrt` or the cotangents of the outputs.
    They are ones by default. The weights of a model may be left out. If `only` is not empty, only the ops that match an
    entry are traced. An entry is a line, a line and a column, the name of an op, or a name in the op's location. The
    values that one run returns take at most `limit` bytes, unless a single value is larger. `place` allocates the
    arrays of the result. If `place` is None, the result has summaries but no arrays.

    Raises `RequestError` for an unknown derivative or for a name that no op has, and `InputError` for wrong arguments.
    """
    if derivative not in (None, *DERIVATIVES):
        raise RequestError(f"a trace has the derivative jvp or vjp, not {derivative!r}")
    arrays, seeds = _accepted(program, arguments, derivative, wrt)
    t = traced(program, arrays, run, limit)
    chosen = named(t.found.sites, only)
    made = _Collector(t, chosen, place)
    for piece in runs.values(t, chosen):
        made.add(piece)
    if derivative is not None:
        made.derive(derivative, wrt, seeds)
    result = RunTrace(program, derivative, made.rows(), made.arrays, untraced=len(t.found.untraced))
    result.origins = _origins(result, t, made, seeds, wrt)
    return result


def inputs_of(program: Program, derivative: str | None, wrt: Wrt) -> list[SignatureValue]:
    """Returns the inputs that the arguments of `trace` belong to: those of the program, then tangents or cotangents."""
    if derivative is None:
        return list(program.signature.inputs)
    derived = program.jvp(wrt) if derivative == "jvp" else program.vjp(wrt)
    return list(derived.signature.inputs)


def _accepted(
    program: Program, arguments: Sequence[ArrayLike], derivative: str | None, wrt: Wrt
) -> tuple[list[Array], list[Array]]:
    """Checks the arguments. Returns the arguments of the program, and the tangents or cotangents (by default ones)."""
    own = len(program.inputs)
    if program.defaults and len(arguments) < own:  # the defaults are the weights of a model
        free = [value.name for value in program.signature.inputs if value.name not in program.defaults]
        filled = ordered(program.signature.inputs, free, arguments[: len(free)], {}, program.defaults)
        arguments = [*map(np.asarray, filled), *arguments[len(free) :]]
    given = check_arguments(program.name, program.signature, arguments[:own])
    if derivative is None:
        check_arguments(program.name, program.signature, arguments)
        return given, []
    derived = program.jvp(wrt) if derivative == "jvp" else program.vjp(wrt)
    if len(arguments) > own:
        return given, check_arguments(derived.name, derived.signature, arguments)[own:]
    if derivative == "jvp":
        like = [given[program.inputs.index(port)] for port in program.differentiated(wrt)]
        return given, [np.ones_like(x) for x in like]
    seeds = derived.signature.inputs[own:]
    if all(None not in value.type.shape for value in seeds):
        return given, [np.ones(value.type.shape, value.type.dtype) for value in seeds]
    raise RequestError("give the cotangents of the outputs: their sizes are dynamic")


def named(sites: Sequence[Site], only: Sequence[str]) -> list[int]:
    """Returns the numbers of the sites that match an entry of `only`, or of all sites if `only` is empty.

    Raises `RequestError` if an entry matches no site.
    """
    if not only:
        return [site.number for site in sites]
    found: set[int] = set()
    for entry in only:
        matching = [site.number for site in sites if _matches(site, entry)]
        if not matching:
            ops = ", ".join(sorted({site.short for site in sites})) or "none"
            raise RequestError(f"no op is named {entry!r}, by line, op or location; the ops are {ops}")
        found.update(matching)
    return sorted(found)


def _matches(site: Site, entry: str) -> bool:
    if entry in (site.name, site.short):
        return True
    file, _, position = site.place.partition(":") if site.place.count(":") == 2 else ("", "", "")
    if not position and site.place:
        file, line, column = site.place.rsplit(":", 2)
        position = f"{line}:{column}"
    line = position.partition(":")[0]
    where = entry.removeprefix(f"{file}:").removeprefix(f"{PurePath(file).name}:")
    if re.fullmatch(r"\d+(:\d+)?", where):
        return where in (line, position)
    return not re.fullmatch(r"[\d:]+", entry) and f'"{entry}"' in site.scope


class _Collector:
    """Collects values and derivatives as summaries and, unless `place` is None, as arrays."""

    def __init__(self, t: Traced, chosen: Sequence[int], place: Place | None) -> None:
        self.t, self.chosen, self.place = t, chosen, place
        self.values: dict[int, Summary] = {}
        self.derivatives: dict[int, Summary] = {}
        self.arrays: dict[str, Array] = {}
        self.names = dict(zip(chosen, _names([t.found.sites[n] for n in chosen]), strict=True))
        regions = {t.found.sites[n].regions[-1] for n in chosen if t.found.sites[n].regions}
        self.ran = runs.ran(t, sorted(regions))
        self.inputs: dict[str, Summary] = {}
        self.of_inputs: dict[str, Summary] = {}
        for port, x in zip(t.program.inputs, t.arguments, strict=True):
            self.inputs[port.name] = _whole(x)

    def add(self, piece: Piece, kind: str = "") -> None:
        n, of = piece.site.number, self.derivatives if kind else self.values
        if n not in of:
            regions = piece.site.regions
            ran = self.ran[regions[-1]] if regions else np.array(True)
            of[n] = Summary(piece.array.shape[len(piece.site.loops) :], ran)
        of[n].add(piece.array, piece.at)
        if self.place is not None:
            self.keep(f"{self.names[n]}{kind}", piece, of[n])

    def keep(self, name: str, piece: Piece, summary: Summary) -> None:
        assert self.place is not None
        if name not in self.arrays:
            self.arrays[name] = self.place((*summary.ran.shape, *summary.shape), piece.array.dtype)
        self.arrays[name][piece.at if piece.site.loops else ...] = piece.array

    def derive(self, derivative: str, wrt: Wrt, seeds: Sequence[Array]) -> None:
        """Adds the tangents or cotangents of the inputs and of the values."""
        t, kind = self.t, f".{OF[derivative]}"
        reached = runs.active(t, self.chosen, wrt)
        if derivative == "vjp":  # only sites of static shape, because the input of a probe has a static shape
            reached = [n for n in reached if None not in t.found.sites[n].type.shape]
        shapes = {n: self.values[n].shape for n in reached}
        pieces: Iterable[Piece | Array] = (
            itertools.chain(seeds, runs.tangents(t, reached, wrt, seeds))
            if derivative == "jvp"
            else runs.cotangents(t, reached, wrt, seeds, shapes)
        )
        ports = iter(t.program.differentiated(wrt))
        for piece in pieces:
            if isinstance(piece, Piece):
                self.add(piece, kind)
                continue
            name = next(ports).name
            self.of_inputs[name] = _whole(piece)
            if self.place is not None:
                self.arrays[f"{name}{kind}"] = piece

    def rows(self) -> list[TracedValue]:
        values = zip(self.t.program.signature.inputs, self.inputs.items(), strict=True)
        rows = [TracedValue(name, of.type, None, x, self.of_inputs.get(name)) for of, (name, x) in values]
        for n in self.chosen:
            site = self.t.found.sites[n]
            rows.append(TracedValue(self.names[n], site.type, site, self.values[n], self.derivatives.get(n)))
        return rows


def _whole(x: Array) -> Summary:
    summary = Summary(x.shape, np.array(True))
    summary.add(x)
    return summary


def _names(sites: Sequence[Site]) -> list[str]:
    """Returns a distinct name for each site, such as 12.multiply for an op in line 12.

    A second multiplication in this line has the name 12.multiply.2.
    """
    taken: dict[str, int] = {}
    names = []
    for site in sites:
        line = site.place.rsplit(":", 2)[-2] if site.place.count(":") > 1 else ""
        base = f"{line}.{site.short}" if line else site.short
        taken[base] = taken.get(base, 0) + 1
        names.append(base if taken[base] == 1 else f"{base}.{taken[base]}")
    return names


# ---- the first NaN and the first infinity ------------------------------------------------------------------------


def _origins(
    result: RunTrace, t: Traced, made: _Collector, seeds: Sequence[Array], wrt: Wrt
) -> list[BadOrigin]:
    """Returns the origins of the first NaN and of the first infinity in the program.

    If all values of the program are finite, returns the origins in its derivative.
    """
    found = (first_bad(t.found, made.values, made.inputs, kind) for kind in (NAN, INFINITY))
    origins = [origin for origin in found if origin is not None]
    if origins or result.derivative is None:
        return origins
    summaries = [*made.derivatives.values(), *made.of_inputs.values()]
    if not any(np.any(x.nans) or np.any(x.infinities) for x in summaries):
        return []
    derived = t.program.jvp(wrt) if result.derivative == "jvp" else t.program.vjp(wrt)
    of = trace(derived, [*t.arguments, *seeds], run=t.run, limit=t.limit, place=None).origins
    ops = {site.place: site.name for site in reversed(t.found.sites) if site.place}
    return [
        origin
        if origin.is_input
        else replace(origin, op=ops.get(origin.place, origin.op), by=origin.op, derivative=result.derivative)
        for origin in of
    ]
