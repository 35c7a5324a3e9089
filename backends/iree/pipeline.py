"""PIPELINE: all passes on a module between StableHLO and IREE's compiler, in order, with the reason for each.

`plan.py` says which stages run in each attempt to compile a program, and `legalize_for_iree` runs "legal" alone.
Rewrites of IREE's VM text run in `compile.py`, in the order of `VM_PIPELINE` (`modules/vm/__init__.py`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from tiduc.backends.iree.fast.compile_time.elementwise_maps import elementwise_maps
from tiduc.backends.iree.fast.compile_time.repeats import repeats
from tiduc.backends.iree.fast.convolutions.convolutions_to_kernels import convolutions_to_kernels
from tiduc.backends.iree.fast.cuda.gpu_convolutions import gpu_convolutions
from tiduc.backends.iree.fast.cuda.gpu_products import gpu_products
from tiduc.backends.iree.fast.cuda.gpu_sums import gpu_sums
from tiduc.backends.iree.fast.loops.carries_in_place import carries_in_place
from tiduc.backends.iree.fast.loops.loops_by_count import loops_by_count
from tiduc.backends.iree.fast.loops.loops_to_kernels import loops_to_kernels
from tiduc.backends.iree.fast.memory.late_results import late_results
from tiduc.backends.iree.fast.memory.select_reruns import select_reruns
from tiduc.backends.iree.fast.memory.stored_values import stored_values
from tiduc.backends.iree.fast.products.flat_products import flat_products
from tiduc.backends.iree.fast.products.products_in_tiles import products_in_tiles
from tiduc.backends.iree.fast.sums.reductions_in_lanes import reductions_in_lanes
from tiduc.backends.iree.fast.sums.sums_in_blocks import sums_in_blocks
from tiduc.backends.iree.faults.assertions import assert_sizes
from tiduc.backends.iree.faults.concatenations import distinguish_starts
from tiduc.backends.iree.faults.conflicting_reads import separate_reads
from tiduc.backends.iree.faults.donation import write_results_last
from tiduc.backends.iree.faults.fills import distinguish_fills, separate_steps
from tiduc.backends.iree.faults.float8 import widen_float8
from tiduc.backends.iree.faults.functions import allow_inlining
from tiduc.backends.iree.faults.fusions import separate_fusions
from tiduc.backends.iree.faults.half_products import separate_half_products
from tiduc.backends.iree.faults.half_sums import widen_sums
from tiduc.backends.iree.faults.number_marks import number_marks
from tiduc.backends.iree.faults.parts import separate_parts
from tiduc.backends.iree.faults.single_iterations import simplify_loops
from tiduc.backends.iree.faults.updates_in_place import updates_after_reads
from tiduc.backends.iree.faults.wide_fusions import separate_wide_fusions
from tiduc.backends.iree.faults.windows import distinguish_windows
from tiduc.backends.iree.missing.composites import expand_composites
from tiduc.backends.iree.missing.refused import check
from tiduc.backends.iree.patterns import apply_patterns
from tiduc.backends.iree.settings import Settings
from tiduc.dialect import progress
from tiduc.dialect.context import stage

Stage = Literal["speed", "tiles", "host", "legal", "loops", "carries", "regions"]
"""Parts of the pipeline: rewrites of whole ops for speed, of loops on the host, of ops and loops to dispatches, of
loop-carried values on the host, and of barriers."""


@dataclass(frozen=True)
class Entry:
    """One pass: its stage and function; the help text of a pass that textual pipelines can name.

    With `takes_settings`, the settings are the function's second argument. `on` says for which targets a pass for speed
    is; those outside of the stage "legal" are for speed.
    """

    stage: Stage
    function: Callable[..., object]
    description: str = ""
    takes_settings: bool = False
    on: Literal["CPUs", "CUDA", "all"] = "CPUs"

    @property
    def name(self) -> str:
        """The name of the pass where its IR is printed: that of its function, as in `iree-apply-patterns`."""
        return f"iree-{self.function.__name__.replace('_', '-')}"

    def applies(self, settings: Settings) -> bool:
        """Whether the settings ask for the pass."""
        of_target = {"CPUs": settings.cpu, "CUDA": settings.cuda, "all": True}[self.on]
        return self.stage == "legal" or (settings.fast and of_target)

    def run(self, module: Any, settings: Settings) -> int:
        """Runs the pass on a module, in place; gives the number of its rewrites, 0 if the pass does not count them."""
        with progress.during(self.name, module):
            count = self.function(module, settings) if self.takes_settings else self.function(module)
        return count if isinstance(count, int) else 0


PIPELINE = (
    Entry(
        "speed",
        select_reruns,
        "Makes marks of the barriers before recomputed ops, since IREE frees what goes through barriers late.",
        on="all",
    ),
    Entry(
        "speed",
        convolutions_to_kernels,
        "Makes kernels of vectors of the convolutions that IREE's code for CPUs is slow at.",
        takes_settings=True,
    ),
    Entry(
        "speed",
        gpu_convolutions,
        "Makes products of matrices of convolutions of f32, f16 and bf16, for NVIDIA's GPUs.",
        on="CUDA",
    ),
    Entry(
        "speed",
        gpu_sums,
        "Divides sums along the first dimensions into parts, for NVIDIA's GPUs.",
        on="CUDA",
    ),
    Entry(
        "speed",
        reductions_in_lanes,
        "Splits sums to one number, for CPUs; adds products by multiply-adds; negates sums, not their terms.",
    ),
    Entry(
        "speed",
        sums_in_blocks,
        "Adds blocks of long sums of f32 first, for CPUs, and the sums of the blocks in f64.",
    ),
    Entry(
        "speed",
        flat_products,
        "Reshapes operands of products to matrices, where that moves no elements.",
        on="all",
    ),
    Entry("tiles", products_in_tiles, takes_settings=True),
    Entry(
        "host",
        loops_by_count,
        "Makes loops of known trip count count their iterations from zero, so that the host has the counter.",
        on="all",
    ),
    Entry("legal", check, takes_settings=True),
    Entry("legal", assert_sizes),
    Entry("legal", allow_inlining),
    Entry("legal", expand_composites, takes_settings=True),
    Entry("legal", widen_float8),
    Entry("legal", widen_sums),
    Entry("legal", separate_half_products, takes_settings=True),
    Entry("legal", simplify_loops),
    Entry("legal", apply_patterns, takes_settings=True),
    Entry("legal", separate_fusions, takes_settings=True),
    Entry("legal", separate_parts),
    Entry("legal", separate_wide_fusions, takes_settings=True),
    Entry("legal", separate_reads),
    Entry("legal", updates_after_reads),
    Entry("legal", distinguish_starts),
    Entry("legal", distinguish_windows),
    Entry("legal", distinguish_fills),
    Entry("legal", separate_steps),
    Entry("legal", write_results_last, takes_settings=True),
    Entry("legal", number_marks),
    Entry(
        "loops",
        loops_to_kernels,
        "Puts loops over small arrays into one dispatch each, for CPUs; after tidu-legalize-for-iree.",
    ),
    Entry(
        "carries",
        carries_in_place,
        "Lets loops on the host update carries in place; carries that share memory are copied.",
        on="all",
    ),
    Entry(
        "regions",
        number_marks,
        "Makes the hidden numbers of marks results of one barrier, so that IREE merges none of them.",
        on="all",
    ),
    Entry(
        "regions",
        gpu_products,
        "Divides products of matrices into tiles in shared memory and into parts, for NVIDIA's GPUs.",
        on="CUDA",
    ),
    Entry(
        "regions",
        late_results,
        "Ends an execution region amid a program, for CPUs, where IREE then allocates the later results later.",
    ),
    Entry(
        "regions",
        stored_values,
        "Replaces barriers that only prevent fusions, so that IREE plans more memory at once.",
        on="all",
    ),
    Entry(
        "regions",
        elementwise_maps,
        "Puts elementwise ops that IREE would fuse into one map, for CPUs, which compiles faster.",
    ),
    Entry(
        "regions",
        repeats,
        "Makes functions of the ops of equal layers, for CPUs, which compiles faster; last of all.",
    ),
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
def legalize_for_iree(module: Any, **options: Any) -> None:
    """Rewrites a StableHLO module, in place, so that IREE computes it correctly.

    The options are the fields of `Settings`. Raises `Unsupported` for an op that IREE cannot run, and `RequestError`
    for a wrong `lapack`.
    """
    legalize(module, Settings(**options))
