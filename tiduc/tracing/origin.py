"""origin: the op that made the first NaN or infinity, in the order in which the ops of a run were computed.

An op makes a NaN if its result has a NaN and no value that it reads has one. It makes an infinity if its result has an
infinity and all values that it reads are finite. A value that depends on constants only is not an origin: programs have
such NaNs and infinities on purpose, for example as masks. If an op takes a NaN from a constant into another value, this
op is the origin. A site (`survey.py`) is one result of one op.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tiduc.tracing.summaries import Summary
from tiduc.tracing.survey import Read, Site, Survey, settled

NAN, INFINITY = "NaN", "infinity"


@dataclass(frozen=True)
class BadOrigin:
    """The first op, or input, whose value has a NaN or an infinity of its own.

    `iteration` has the iteration of each loop around the op. `derivative` is "jvp" or "vjp" if an op of this derivative
    made the value: `op` is then the op at the same place in the program that was differentiated, and `by` the op of the
    derivative.
    """

    kind: str  # NAN or INFINITY
    op: str  # such as stablehlo.divide; or the name of an input
    place: str  # file:line:column, or ""
    iteration: tuple[int, ...]
    count: int  # of the elements
    is_input: bool = False
    derivative: str = ""
    by: str = ""

    def __str__(self) -> str:
        elements = "one element" if self.count == 1 else f"{self.count} elements"
        if self.is_input:
            return f"first {self.kind}: the input {self.op} has it, in {elements}"
        name = self.op.removeprefix("stablehlo.")
        if self.derivative:
            name = f"{self.by.removeprefix('stablehlo.')} in the {self.derivative.upper()} of {name}"
        if not self.iteration:
            return f"first {self.kind}: made by {name}, in {elements}"
        where = ".".join(map(str, self.iteration))
        return f"first {self.kind}: made by {name} in iteration {where}, in {elements}"


def first_bad(
    found: Survey,
    of: Mapping[int, Summary],
    inputs: Mapping[str, Summary],
    kind: str,
) -> BadOrigin | None:
    """The origin of the first NaN, or of the first infinity, among the sites with a summary; None if there is none."""
    for name, summary in inputs.items():
        if count := int(_counts(summary, kind)):
            return BadOrigin(kind, name, "", (), count, is_input=True)
    bad, constant = [], constants(found)
    of = {n: x for n, x in of.items() if kind == INFINITY or n not in constant}
    for n, summary in of.items():
        site, counts = found.sites[n], _counts(summary, kind)
        if n in constant:
            continue
        for at in np.argwhere(counts):
            iteration = tuple(map(int, at))
            bad.append((_when(found, site, iteration), n, iteration, int(counts[iteration])))
    makers = (each for each in sorted(bad) if not _reads_bad(found, of, *each[1:3], kind))
    first = next(makers, min(bad, default=None) if kind == NAN else None)
    if first is None:
        return None
    _, n, iteration, count = first
    return BadOrigin(kind, found.sites[n].name, found.sites[n].place, iteration, count)


def constants(found: Survey) -> set[int]:
    """The sites that depend on nothing but constants."""
    known: set[int] = set()
    for site in found.sites:
        if not site.encloses and all(x.kind == "site" and x.number in known for x in site.reads):
            known.add(site.number)
    return known


def _counts(summary: Summary, kind: str) -> NDArray[np.int64]:
    return summary.nans if kind == NAN else summary.infinities


def _reads_bad(
    found: Survey, of: Mapping[int, Summary], n: int, iteration: tuple[int, ...], kind: str
) -> bool:
    """Whether an op reads a NaN, or for infinities a value that is not finite; True for loops and branches."""
    site = found.sites[n]
    return site.encloses or any(_is_bad(found, of, read, iteration, kind) for read in site.reads)


def _when(found: Survey, site: Site, iteration: tuple[int, ...]) -> tuple[int, ...]:
    """A key that orders the results of ops by time."""
    pairs = zip(site.loops, iteration, strict=True)
    return (*(number for loop, i in pairs for number in (found.first[loop], i)), site.number)


def _is_bad(
    found: Survey,
    of: Mapping[int, Summary],
    read: Read | None,
    iteration: tuple[int, ...],
    kind: str,
) -> bool:
    """Whether the value that an op reads in an iteration has a NaN; for infinities, whether it is not finite.

    A value without a summary counts as finite, as inputs do: `first_bad` has looked at these.
    """
    read, at = settled(found, read, iteration)
    summary = of.get(read.number) if read is not None and read.kind == "site" else None
    if summary is None:
        return False
    return bool(summary.nans[at] or (kind == INFINITY and summary.infinities[at]))
