"""plan: the attempts to compile a program with IREE, in order, and the reasons to repeat a part of an attempt.

Each attempt runs groups of passes of `PIPELINE`, then IREE's compiler with the flags of the attempt. The first attempt
gives the fastest program. But IREE rejects some programs after some rewrites for speed, so later attempts omit
rewrites. For CPUs, this is the order of the attempts; other targets have fewer attempts:

    1. Each loop over small arrays is one dispatch.
    2. Loops run on the host, which also keeps their counters.
    3. Loops run on the host, and their counters stay on the device.
    4. Attempts 1 to 3 are repeated without vector kernels.

Each of the attempts 1 to 3 has three variants: loops update loop-carried values in place; loops copy these values;
loops copy them, and the functions of equal layers are inlined. A further attempt compiles the whole program in one run
of IREE's compiler, and the last attempt makes no rewrites for speed. Each attempt states its reason. An attempt is
skipped if its program would equal that of another attempt, for example because a group in `needs` changes nothing.
`prepare.py` runs the passes of an attempt only when the attempts before it have failed. If the compiler exceeds its
time limit, no further attempt follows.

Within an attempt, IREE's compiler runs in steps (`steps.py`). `Rerun` lists the reasons to repeat steps in another way.
Some steps edit IREE's IR (`modules/edits.py`). If the IR does not have the form that an edit requires, an edit for
speed is skipped with a remark, but an edit that corrects the program makes the attempt fail.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from tiduc.backends.iree.pipeline import Group
from tiduc.backends.iree.settings import Settings
from tiduc.backends.iree.targets import (
    IN_ORDER,
    IN_TILES,
    KERNELS,
    PEELED,
    REASSOCIATED,
    SMALL_KERNELS,
    TILED,
    Target,
)

THREADS, ONE_THREAD = "local-task", "local-sync"
"""The devices of IREE's runtime for CPUs: with several threads, and with one thread."""

SPEED: tuple[Group, ...] = ("speed", "tiles")
"""The groups with which all attempts begin, except attempts without rewrites for speed."""


_SLOW = "no rewrites for speed, as IREE rejects some"
"""The reason of the last attempt."""


@dataclass(frozen=True)
class Facts:
    """Facts about a program that determine the attempts. The groups of passes up to "legal" run to find them.

    - `tiled`: the program has products for which data tiling is faster.
    - `rewritten`: the groups `SPEED` changed the program.
    - `kernels`: the groups `SPEED` created vector kernels.
    - `threaded`: the program has enough work for several threads.
    - `divided`: the vector kernels outside of loops have enough work for several threads.
    - `loops`: the program has loops.
    - `counted`: the group "host" changed the program.
    - `resources`: the program has constants that MLIR stores outside of the ops, as resources (`dense_resource`).
    """

    tiled: bool = False
    rewritten: bool = False
    kernels: bool = False
    threaded: bool = False
    divided: bool = False
    loops: bool = False
    counted: bool = False
    resources: bool = False


@dataclass(frozen=True)
class Attempt:
    """One way to compile a program, and the reason for its place in the plan.

    - `settings`, `groups`: the passes of `groups` run in order with `settings`.
    - `needs`: the attempt applies only if each of these groups changes the program.
    - `flags`: flags of IREE's compiler, in addition to the flags of the target.
    - `device`: the device of IREE's runtime that the module requires, or empty for the device of the target.
    - `threaded`: several threads run the module.
    - `may_place`: tiduc places the program's arrays in memory if they are large enough.
    - `inlines`: IREE inlines the functions of equal layers before it forms dispatches. The attempt applies only to
      programs with such functions.
    - `whole`: IREE's compiler gets the whole program in one run. The attempt applies only to programs that other
      attempts compile in several runs with edits between them.
    """

    reason: str
    settings: Settings
    groups: tuple[Group, ...] = ("legal",)
    needs: tuple[Group, ...] = ()
    flags: tuple[str, ...] = ()
    device: str = ""
    threaded: bool = False
    may_place: bool = False
    inlines: bool = False
    whole: bool = False

    @property
    def condition(self) -> str:
        """Says why the attempt does not apply, for a program to which it does not apply."""
        if self.whole:
            return "other attempts compile the program in one run, too"
        return f"group {' or '.join(self.needs)} changes nothing" if self.needs else "no equal layers"


class Rerun(Enum):
    """Reasons to run IREE's compiler again, in another way, within one attempt."""

    VERIFIED = (
        "one verified run, since a step fails or makes invalid ops, and unverified steps do not say which op"
    )
    UNPLACED = "IREE's own phase, since the pipelines in which tiduc places arrays fail"
    RESCHEDULED = "passes and edits that avoid a fault of IREE's own schedule"
    RECORDED_IN_EACH_CALL = (
        "commands are recorded in each call, since a recorded copy would use the arrays of the first call"
    )


def attempts(facts: Facts, target: Target, settings: Settings) -> tuple[Attempt, ...]:
    """Returns the attempts to compile a program with these facts, in order."""
    if not settings.fast:
        return (Attempt("only the rewrites that IREE needs for correct values", settings),)
    if not settings.cpu:
        fast = Attempt("all rewrites for speed", settings, (*SPEED, "host", "legal"), flags=IN_ORDER)
        return (*_variants(fast, facts), Attempt(_SLOW, replace(settings, fast=False)))
    found = list(_for_cpus(facts, target, settings))
    if facts.kernels:
        why = "no kernels of vectors, as IREE rejects some products in tiles"
        without = _for_cpus(replace(facts, rewritten=False), target, replace(settings, vectors=""))
        found += [replace(attempt, reason=f"{why}; {attempt.reason}") for attempt in without]
    *_, last = (attempt for attempt in found if not attempt.inlines)
    why = "the whole program in one run, as IREE rejects some programs whose IR is edited between runs"
    flags = tuple(flag for flag in last.flags if flag not in PEELED)
    whole = replace(last, reason=why, flags=flags, whole=True)
    return (*found, whole, Attempt(_SLOW, replace(settings, fast=False)))


def plain(attempts: Sequence[Attempt]) -> tuple[Attempt, ...]:
    """Returns the attempts in which loops copy their loop-carried values, changed so that IREE places all arrays."""
    return tuple(replace(attempt, may_place=False) for attempt in attempts if "carries" not in attempt.groups)


def inlined(attempts: Sequence[Attempt]) -> tuple[Attempt, ...]:
    """Returns the attempts with `inlines`, followed by the other attempts."""
    return tuple(sorted(attempts, key=lambda attempt: not attempt.inlines))


def _for_cpus(facts: Facts, target: Target, settings: Settings) -> Iterator[Attempt]:
    """Yields the attempts for CPUs with these settings, in order."""
    tiled, tiles = TILED if facts.tiled else (), IN_TILES if facts.rewritten else ()
    peeled = PEELED if settings.vectors and settings.registers.are_masked_slowly else ()
    base = Attempt("", settings, flags=(*REASSOCIATED, *IN_ORDER, *tiled, *tiles, *peeled), may_place=True)
    one_thread = target.device == ONE_THREAD
    # IREE gets a program with large constants (`resources`) as bytecode, but loops in dispatches need text.
    if facts.loops and not facts.threaded and not facts.resources:
        kernels = replace(base, groups=(*SPEED, "legal", "loops"), needs=("loops",))
        why = "loops over small arrays are dispatches"
        if facts.divided:
            shared = replace(
                kernels,
                reason=f"{why}, and threads share products outside of loops",
                flags=(*base.flags, *SMALL_KERNELS),
                device=THREADS if one_thread else "",
                threaded=True,
            )
            yield from _variants(shared, facts)
        if one_thread:
            flags = (*base.flags, *KERNELS)
            alone = replace(kernels, reason=f"{why}, in one thread", flags=flags, device=ONE_THREAD)
            yield from _variants(alone, facts)
    on_host = replace(
        base,
        reason="the host runs loops" if facts.loops else "all rewrites for speed",
        groups=(*SPEED, "legal"),
        device=THREADS if facts.threaded and one_thread else "",
        threaded=facts.threaded or not one_thread,
    )
    if facts.counted:
        counting: tuple[Group, ...] = (*SPEED, "host", "legal")
        counted = replace(on_host, reason="the host runs loops, and counts their iterations", groups=counting)
        yield from _variants(counted, facts)
        why = "the host runs loops and counts no iterations, as IREE rejects some loops that it counts"
        on_host = replace(on_host, reason=why)
    yield from _variants(on_host, facts)


def _variants(attempt: Attempt, facts: Facts) -> Iterator[Attempt]:
    """Yields up to three variants of an attempt.

    In the first, loops update loop-carried values in place; a program without loops does not have this variant. In the
    second, loops copy these values. In the third, which is only for CPUs and programs without resources, loops copy
    them, and IREE inlines the functions of equal layers.
    """
    groups, reason = attempt.groups, attempt.reason
    if facts.loops:
        yield replace(
            attempt,
            reason=f"{reason}; loops update carries in place",
            groups=(*groups, "carries", "regions"),
            needs=(*attempt.needs, "carries"),
        )
        reason += "; loops copy carries, as IREE crashes on some loops that update carries in place"
    copied = replace(attempt, reason=reason, groups=(*groups, "regions"))
    yield copied
    if attempt.settings.cpu and not facts.resources:
        why = "IREE inlines the functions of equal layers, as it rejects some of these functions"
        yield replace(copied, reason=f"{reason}; {why}", inlines=True)
