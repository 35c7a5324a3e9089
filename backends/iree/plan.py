"""plan: the attempts to compile a program with IREE, in order.

Each attempt runs stages of `PIPELINE`, then IREE's compiler with some flags. The first attempt gives the fastest
program. IREE rejects some programs after some rewrites for speed, so each later attempt leaves out one rewrite:

    loops over small arrays as dispatches  ->  loops on the host  ->  the host does not count  ->  no kernels of vectors

Each of these is tried with carries that are updated in place, then without, and then without functions of equal layers.
Each attempt states its reason. An attempt does not apply if a stage that it `needs` changes nothing, since its program
is then that of another attempt. `prepare.py` runs the stages of an attempt when the attempts before it have failed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tiduc.backends.iree.pipeline import Stage
from tiduc.backends.iree.settings import Settings
from tiduc.backends.iree.targets import (
    IN_ORDER,
    IN_TILES,
    KERNELS,
    REASSOCIATED,
    SMALL_KERNELS,
    TILED,
    Target,
)

THREADS, ONE_THREAD = "local-task", "local-sync"
"""The devices of IREE's runtime that run programs on CPUs."""

SPEED: tuple[Stage, ...] = ("speed", "tiles")
"""The stages with which all attempts begin, except those without rewrites for speed."""


@dataclass(frozen=True)
class Facts:
    """Facts about a program after the stages up to "legal". The plan depends on them.

    `tiled`: it has products for which data tiling is faster. `rewritten`: the stages `SPEED` changed it. `kernels`:
    these stages created vector kernels. `threaded`: it has work for several threads. `divided`: it has products outside
    of loops that are vector kernels with such work. `loops`: it has loops. `counted`: the stage "host" changed it.
    `resources`: it has constants that are not stored in its text.
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

    `stages` run in order with `settings`. The attempt applies if each of the stages `needs` changes the program. IREE's
    compiler gets `flags` in addition to the flags of the target. `device` is the device of IREE's runtime that the
    module requires, or empty for the device of the target. `threaded` says that several threads run the module. With
    `places`, the arrays of the program are placed in memory if they are large enough. With `inlines`, IREE inlines the
    functions of equal layers before it forms dispatches; the attempt then applies only to programs with such functions.
    """

    reason: str
    settings: Settings
    stages: tuple[Stage, ...] = ("legal",)
    needs: tuple[Stage, ...] = ()
    flags: tuple[str, ...] = ()
    device: str = ""
    threaded: bool = False
    places: bool = False
    inlines: bool = False


def attempts(facts: Facts, target: Target, settings: Settings) -> tuple[Attempt, ...]:
    """The attempts to compile a program with these facts, in order."""
    if not settings.fast:
        return (Attempt("only the rewrites that IREE needs for correct values", settings),)
    if not settings.cpu:
        fast = Attempt("all rewrites for speed", settings, (*SPEED, "host", "legal"), flags=IN_ORDER)
        slow = Attempt("no rewrites for speed, as IREE rejects some", replace(settings, fast=False))
        return (*_variants(fast, facts), slow)
    found = list(_for_cpus(facts, target, settings))
    if facts.kernels:
        why = "no kernels of vectors, as IREE rejects some products in tiles"
        without = _for_cpus(replace(facts, rewritten=False), target, replace(settings, vectors=""))
        found += [replace(attempt, reason=f"{why}; {attempt.reason}") for attempt in without]
    return tuple(found)


def plain(attempts: Sequence[Attempt]) -> tuple[Attempt, ...]:
    """The attempts that update no carry in place. They place no array in memory."""
    return tuple(replace(attempt, places=False) for attempt in attempts if "carries" not in attempt.stages)


def _for_cpus(facts: Facts, target: Target, settings: Settings) -> Iterator[Attempt]:
    """The attempts for CPUs with these settings."""
    tiled, tiles = TILED if facts.tiled else (), IN_TILES if facts.rewritten else ()
    base = Attempt("", settings, flags=(*REASSOCIATED, *IN_ORDER, *tiled, *tiles), places=True)
    one_thread = target.device == ONE_THREAD
    # Bytecode, which holds large constants, has no loops in dispatches.
    if facts.loops and not facts.threaded and not facts.resources:
        kernels = replace(base, stages=(*SPEED, "legal", "loops"), needs=("loops",))
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
        stages=(*SPEED, "legal"),
        device=THREADS if facts.threaded and one_thread else "",
        threaded=facts.threaded or not one_thread,
    )
    if facts.counted:
        counting: tuple[Stage, ...] = (*SPEED, "host", "legal")
        counted = replace(on_host, reason="the host runs loops, and counts their iterations", stages=counting)
        yield from _variants(counted, facts)
        why = "the host runs loops and counts no iterations, as IREE rejects some loops that it counts"
        on_host = replace(on_host, reason=why)
    yield from _variants(on_host, facts)


def _variants(attempt: Attempt, facts: Facts) -> Iterator[Attempt]:
    """The attempt after the stages for the host, and those to try if IREE rejects the result of these stages."""
    stages, reason = attempt.stages, attempt.reason
    if facts.loops:
        yield replace(
            attempt,
            reason=f"{reason}; loops update carries in place",
            stages=(*stages, "carries", "regions"),
            needs=(*attempt.needs, "carries"),
        )
        reason += "; loops copy carries, as IREE crashes on some loops that update carries in place"
    copied = replace(attempt, reason=reason, stages=(*stages, "regions"))
    yield copied
    if attempt.settings.cpu and not facts.resources:
        why = "IREE inlines the functions of equal layers, as it rejects some of these functions"
        yield replace(copied, reason=f"{reason}; {why}", inlines=True)
