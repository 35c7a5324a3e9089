"""PIPELINE: all passes on a module between StableHLO and IREE's compiler, in order, with the reason for each.

`prepare.py` runs the stages "speed", "kernels", "legal" and "loops"; `legalize_for_iree` runs "legal" alone. Rewrites
of IREE's VM text run in `compile.py`, in the order of `VM_PIPELINE` (`vm/__init__.py`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from tiduc.backends.backend import CALLBACK, LAPACK, LOOPS
from tiduc.backends.iree.assertions import assert_sizes
from tiduc.backends.iree.fast.barriers import barriers_at_reductions
from tiduc.backends.iree.fast.convolution import convolutions_to_products
from tiduc.backends.iree.fast.lanes import reductions_in_lanes
from tiduc.backends.iree.fast.loops import loops_to_kernels
from tiduc.backends.iree.fast.sines import sines_to_kernels
from tiduc.backends.iree.fault import FAULTS, Fault
from tiduc.backends.iree.faults.concatenations import distinguish_starts
from tiduc.backends.iree.faults.conflicting_reads import separate_reads
from tiduc.backends.iree.faults.donation import write_results_last
from tiduc.backends.iree.faults.einsums import sum_labels_first
from tiduc.backends.iree.faults.float8 import widen_float8
from tiduc.backends.iree.faults.reads_before_updates import updates_after_reads
from tiduc.backends.iree.faults.single_iterations import simplify_loops
from tiduc.backends.iree.missing.composites import expand_composites
from tiduc.backends.iree.patterns import apply_patterns
from tiduc.backends.iree.refused import check
from tiduc.dialect.context import stage
from tiduc.dialect.errors import RequestError

Stage = Literal["speed", "kernels", "legal", "loops"]
"""Parts of the pipeline: rewrites of whole ops for speed, dispatches before legalization, legalization, and loops."""


@dataclass(frozen=True)
class Settings:
    """What passes need to know of the target and of the user's wishes.

    With `spirv`, the target's code is SPIR-V; with `fused`, the target is known to have a fused multiply-add. `lapack`
    is one of `LAPACK`; without `fast`, rewrites that only make programs faster are left out. Raises `RequestError` for
    an unknown `lapack`, and for "callback" without `cpu`.
    """

    cpu: bool = True
    spirv: bool = False
    lapack: str = LOOPS
    fused: bool = False
    fast: bool = True

    def __post_init__(self) -> None:
        if self.lapack not in LAPACK:
            raise RequestError(f"unknown way to factorize {self.lapack!r}; there are: {', '.join(LAPACK)}")
        if self.lapack == CALLBACK and not self.cpu:
            raise RequestError("LAPACK is called back by code for CPUs only")


@dataclass(frozen=True)
class Entry:
    """One pass: its stage, its function, and the settings that the function takes as arguments."""

    stage: Stage
    function: Callable[..., object]
    takes: tuple[str, ...] = ()

    @property
    def faults(self) -> tuple[Fault, ...]:
        """The faults that the pass works around; none for the patterns, which have their own, and for refusals."""
        return FAULTS.get(self.function.__name__, ())

    def applies(self, settings: Settings) -> bool:
        """Whether the settings ask for the pass: those outside of the stage "legal" are for speed, and for CPUs."""
        return self.stage == "legal" or (settings.cpu and settings.fast)

    def run(self, module: Any, settings: Settings) -> int:
        """Runs the pass on a module, in place; gives the number of its rewrites, 0 if the pass does not count them."""
        count = self.function(module, **{name: getattr(settings, name) for name in self.takes})
        return count if isinstance(count, int) else 0


PIPELINE = (
    Entry("speed", convolutions_to_products),
    Entry("speed", barriers_at_reductions),
    Entry("speed", reductions_in_lanes),
    Entry("kernels", sines_to_kernels),
    Entry("legal", check, ("cpu",)),
    Entry("legal", assert_sizes),
    Entry("legal", sum_labels_first),
    Entry("legal", expand_composites),
    Entry("legal", widen_float8),
    Entry("legal", simplify_loops),
    Entry("legal", apply_patterns, ("cpu", "spirv", "lapack", "fused", "fast")),
    Entry("legal", separate_reads),
    Entry("legal", updates_after_reads),
    Entry("legal", distinguish_starts),
    Entry("legal", write_results_last, ("cpu",)),
    Entry("loops", loops_to_kernels),
)


def entries(stage: Stage, settings: Settings) -> list[Entry]:
    """The passes of a stage that the settings ask for, in order."""
    return [entry for entry in PIPELINE if entry.stage == stage and entry.applies(settings)]


def walk(stage: Stage, module: Any, settings: Settings) -> int:
    """Runs a stage of the pipeline on a module, in place; gives the number of rewrites."""
    return sum(entry.run(module, settings) for entry in entries(stage, settings))


def legalize(module: Any, settings: Settings) -> None:
    """Runs the stage "legal" on a module, in place, and verifies the module."""
    walk("legal", module, settings)
    module.operation.verify()


def parts_of_legalization(**options: Any) -> list[tuple[str, Callable[[Any], object]]]:
    """The names and functions of the passes that `legalize_for_iree` runs with these options."""
    settings = Settings(**options)
    return [
        (f"tidu-legalize-for-iree: {entry.function.__name__}", partial(entry.run, settings=settings))
        for entry in entries("legal", settings)
    ]


@stage
def legalize_for_iree(
    module: Any,
    cpu: bool = True,
    spirv: bool = False,
    lapack: str = LOOPS,
    fused: bool = False,
    fast: bool = True,
) -> None:
    """Rewrites a StableHLO module, in place, so that IREE computes it correctly.

    The options are those of `Settings`. Raises `Unsupported` for an op that IREE cannot run, and `RequestError` for a
    wrong `lapack`.
    """
    legalize(module, Settings(cpu, spirv, lapack, fused, fast))
