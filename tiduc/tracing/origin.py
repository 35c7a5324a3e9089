"""origin: finds the op that computed the first NaN or infinity of a run, in the order of execution.

An op is the origin of a NaN if its result has a NaN and none of its operands has one. It is the origin of an infinity
if its result has an infinity and all its operands are finite. A value that depends only on constants is never an
origin, because programs contain constant NaNs and infinities on purpose, for example as masks. If an op combines a
constant NaN with a value that is not constant, and the result has a NaN, this op is the origin. A site (`survey.py`) is
one result of one op.
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
    """The origin of the first NaN or infinity: an op, or an input of the program.

    `iteration` has the iteration of each loop around the op, the outermost loop first. If an op of the JVP or VJP is
    the origin, `derivative` is "jvp" or "vjp", `by` is the name of this op, and `op` is the op of the differentiated
    program with the same source location.
    """

    kind: str  # NAN or INFINITY
    op: str  # the name of the op, such as stablehlo.divide, or of the input
    place: str  # file:line:column, or "" if the source location is unknown
    iteration: tuple[int, ...]
    count: int  # the number of elements that are NaN, or infinite
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
    """Returns the origin of the first NaN or infinity, depending on `kind`.

    `of` has the summaries of sites by their numbers.

    An input with a NaN or infinity precedes all sites. Returns None if there is no NaN or infinity of this kind.
    """
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
    """Returns the numbers of the sites that depend only on constants.

    Results of loops and branches never count as constant.
    """
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
    """Returns whether an operand of site `n` has a NaN or, for the kind `INFINITY`, an element that is not finite.

    Returns True for a loop or branch, because an op in its regions computed the value.
    """
    site = found.sites[n]
    return site.encloses or any(_is_bad(found, of, read, iteration, kind) for read in site.reads)


def _when(found: Survey, site: Site, iteration: tuple[int, ...]) -> tuple[int, ...]:
    """Returns a key that sorts the results of ops by the time at which a run computes them."""
    pairs = zip(site.loops, iteration, strict=True)
    return (*(number for loop, i in pairs for number in (found.first[loop], i)), site.number)


def _is_bad(
    found: Survey,
    of: Mapping[int, Summary],
    read: Read | None,
    iteration: tuple[int, ...],
    kind: str,
) -> bool:
    """Returns whether the value of `read` in an iteration has a NaN or, for the kind `INFINITY`, is not finite.

    Returns False for an input, because `first_bad` checks inputs first, and for a site without a summary.
    """
    read, at = settled(found, read, iteration)
    summary = of.get(read.number) if read is not None and read.kind == "site" else None
    if summary is None:
        return False
    return bool(summary.nans[at] or (kind == INFINITY and summary.infinities[at]))
