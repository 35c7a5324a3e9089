"""PIPELINE: all passes that run on StableHLO before IREE's compiler, in order, with a description of each pass.

The passes are divided into groups (`Group`). tiduc may attempt several times to compile a program, and `plan.py` says
which groups run in each attempt. `legalize_for_iree` runs only the group "legal". The rewrites of IREE's own IR, which
run in the process of IREE's compiler, are not in this list: `Changes.edits` (`steps.py`) has their order.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from torch_mlir import ir

from tiduc.backends.iree.apply_patterns import apply_patterns
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
from tiduc.backends.iree.fast.ops.flat_gathers import flat_gathers
from tiduc.backends.iree.fast.ops.row_gathers import row_gathers
from tiduc.backends.iree.fast.products.flat_products import flat_products
from tiduc.backends.iree.fast.products.products_in_tiles import products_in_tiles
from tiduc.backends.iree.fast.sums.reductions_in_lanes import reductions_in_lanes
from tiduc.backends.iree.fast.sums.row_reductions import row_reductions
from tiduc.backends.iree.fast.sums.sums_in_blocks import sums_in_blocks
from tiduc.backends.iree.faults.allow_inlining import allow_inlining
from tiduc.backends.iree.faults.assert_sizes import assert_sizes
from tiduc.backends.iree.faults.distinguish_fills import distinguish_fills
from tiduc.backends.iree.faults.distinguish_starts import distinguish_starts
from tiduc.backends.iree.faults.distinguish_windows import distinguish_windows
from tiduc.backends.iree.faults.number_marks import number_marks
from tiduc.backends.iree.faults.separate_fusions import separate_fusions
from tiduc.backends.iree.faults.separate_gathers import separate_gathers
from tiduc.backends.iree.faults.separate_half_products import separate_half_products
from tiduc.backends.iree.faults.separate_parts import separate_parts
from tiduc.backends.iree.faults.separate_reads import separate_reads
from tiduc.backends.iree.faults.separate_sizes import separate_sizes
from tiduc.backends.iree.faults.separate_steps import separate_steps
from tiduc.backends.iree.faults.separate_wide_fusions import separate_wide_fusions
from tiduc.backends.iree.faults.simplify_loops import simplify_loops
from tiduc.backends.iree.faults.updates_after_reads import updates_after_reads
from tiduc.backends.iree.faults.widen_float8 import widen_float8
from tiduc.backends.iree.faults.widen_sums import widen_sums
from tiduc.backends.iree.faults.write_results_last import write_results_last
from tiduc.backends.iree.missing.drop_shardings import drop_shardings
from tiduc.backends.iree.missing.expand_composites import expand_composites
from tiduc.backends.iree.missing.refuse_unsupported import refuse_unsupported
from tiduc.backends.iree.settings import Settings
from tiduc.dialect import progress
from tiduc.dialect.mlir.context import stage
from tiduc.dialect.ops.ir_types import IrOp

Group = Literal["speed", "tiles", "host", "legal", "loops", "carries", "regions"]
"""Groups of passes. Only "legal" is needed for correct values; the others are for speed.

- "speed" rewrites single ops, and "tiles" rewrites large products of matrices.
- "host" gives loops induction variables that IREE keeps on the host.
- "loops" turns loops into dispatches, and "carries" makes loops update loop-carried arrays in place.
- "regions" changes which ops IREE compiles together.
"""


@dataclass(frozen=True)
class Entry:
    """One pass: its group, its function, and a description.

    With `takes_settings`, the settings are the function's second argument. A pass of the group "legal" runs on all
    targets; any other pass is for speed, and runs on the targets that `on` names.
    """

    group: Group
    function: Callable[..., object]
    description: str
    takes_settings: bool = False
    on: Literal["CPUs", "CUDA", "all"] = "CPUs"

    @property
    def name(self) -> str:
        """The name of the pass in printed IR: `iree-` and the name of its function, as in `iree-apply-patterns`."""
        return f"iree-{self.function.__name__.replace('_', '-')}"

    def applies(self, settings: Settings) -> bool:
        """Whether the pass runs: always in the group "legal", otherwise if `fast` is set and `on` fits the target."""
        of_target = {"CPUs": settings.cpu, "CUDA": settings.cuda, "all": True}[self.on]
        return self.group == "legal" or (settings.fast and of_target)

    def run(self, module: ir.Module | IrOp, settings: Settings) -> int:
        """Runs the pass on a module, in place. Returns the number of rewrites, or 0 if the pass does not count them."""
        with progress.during(self.name, module):
            count = self.function(module, settings) if self.takes_settings else self.function(module)
        return count if isinstance(count, int) else 0


PIPELINE = (
    Entry(
        "speed",
        select_reruns,
        "Replaces barriers before recomputed ops, because IREE frees values that pass through a barrier late.",
        on="all",
    ),
    Entry(
        "speed",
        convolutions_to_kernels,
        "Computes convolutions by kernels of vectors where IREE's code for CPUs is slow.",
        takes_settings=True,
    ),
    Entry(
        "speed",
        gpu_convolutions,
        "Turns convolutions of f32, f16 and bf16 into products of matrices, for NVIDIA's GPUs.",
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
        row_reductions,
        "Reduces rows of uneven length by kernels of vectors, for CPUs.",
        takes_settings=True,
    ),
    Entry(
        "speed",
        reductions_in_lanes,
        "Vectorizes reductions to a scalar, and rewrites sums of products and of negated values, for CPUs.",
    ),
    Entry(
        "speed",
        sums_in_blocks,
        "Adds long sums of f32 in blocks, and the sums of the blocks in f64, for CPUs.",
    ),
    Entry(
        "speed",
        flat_gathers,
        "Computes one index for each slice of a gather, where several dimensions are indexed.",
        on="all",
    ),
    Entry(
        "speed",
        row_gathers,
        "Gathers rows by kernels of vectors, for CPUs.",
        takes_settings=True,
    ),
    Entry(
        "speed",
        flat_products,
        "Reshapes operands of products to matrices, if the reshape moves no elements.",
        on="all",
    ),
    Entry(
        "tiles",
        products_in_tiles,
        "Computes large products of matrices by kernels of vectors, in tiles, for CPUs.",
        takes_settings=True,
    ),
    Entry(
        "host",
        loops_by_count,
        "Makes loops of known trip count count from zero, because IREE keeps such counters on the host.",
        on="all",
    ),
    Entry("legal", drop_shardings, "Removes shardings, because an IREE module runs on one device."),
    Entry(
        "legal",
        refuse_unsupported,
        "Raises `Unsupported` for ops, sizes and recursion that IREE cannot compile.",
        takes_settings=True,
    ),
    Entry("legal", assert_sizes, "Asserts that dynamic dimensions have the sizes that ops require."),
    Entry(
        "legal",
        allow_inlining,
        "Lets IREE inline all functions, because it mixes up inputs of functions that it does not inline.",
    ),
    Entry(
        "legal",
        expand_composites,
        "Expands CHLO and deprecated ops, and makes dynamic ops static if their sizes are constants.",
        takes_settings=True,
    ),
    Entry("legal", widen_float8, "Computes arithmetic of 8-bit floats in f32, between correct conversions."),
    Entry("legal", widen_sums, "Accumulates sums and products of f16 and bf16 in f32."),
    Entry(
        "legal",
        separate_half_products,
        "Multiplies f16 and bf16 in f32, on GPUs.",
        takes_settings=True,
    ),
    Entry(
        "legal",
        simplify_loops,
        "Inlines calls of functions with loops, and removes loops that run at most once.",
    ),
    Entry(
        "legal",
        apply_patterns,
        "Applies the patterns of single ops, and applies patterns to the ops that they emit.",
        takes_settings=True,
    ),
    Entry(
        "legal",
        separate_fusions,
        "Puts a barrier between an op and its reader if IREE would fuse both to wrong code.",
        takes_settings=True,
    ),
    Entry(
        "legal",
        separate_gathers,
        "Puts a barrier before an op that reads elements of a dynamic array that IREE computes by index.",
    ),
    Entry(
        "legal",
        separate_parts,
        "Puts a barrier after a complex value that several ops read, if one of them reads its parts.",
    ),
    Entry(
        "legal",
        separate_wide_fusions,
        "Puts barriers between elementwise ops that form a large tree.",
        takes_settings=True,
    ),
    Entry(
        "legal",
        separate_reads,
        "Puts a barrier where one op reads a reduction along two different dimensions.",
    ),
    Entry(
        "legal",
        updates_after_reads,
        "Copies an array before an op updates it in place, if the old array is still needed.",
    ),
    Entry(
        "legal",
        distinguish_starts,
        "Gives concatenations that begin with the same array distinct first operands.",
    ),
    Entry(
        "legal",
        distinguish_windows,
        "Makes an initial value of a reduce_window opaque to IREE if an earlier initial value may be equal.",
    ),
    Entry("legal", distinguish_fills, "Makes each nonzero 64-bit number that pads an array opaque to IREE."),
    Entry("legal", separate_steps, "Puts a barrier between two pads if one of them pads between elements."),
    Entry(
        "legal",
        separate_sizes,
        "Copies the result of a barrier before a loop or branch passes it on, if an earlier one does, too.",
        takes_settings=True,
    ),
    Entry(
        "legal",
        write_results_last,
        "Writes a result into an argument's memory only after the last read of the argument.",
        takes_settings=True,
    ),
    Entry(
        "legal",
        number_marks,
        "Turns the constants that earlier passes hide from IREE into distinct results of one barrier.",
    ),
    Entry(
        "loops",
        loops_to_kernels,
        "Turns each loop over small arrays into one dispatch, for CPUs; runs after tidu-legalize-for-iree.",
    ),
    Entry(
        "carries",
        carries_in_place,
        "Lets loops on the host update loop-carried values in place; values that share memory are copied.",
        on="all",
    ),
    Entry(
        "regions",
        number_marks,
        "Turns the constants that earlier passes hide from IREE into distinct results of one barrier.",
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
        "Splits an execution region, so that IREE allocates the second part's results later, for CPUs.",
    ),
    Entry(
        "regions",
        stored_values,
        "Replaces barriers that only prevent fusion by reshapes, across which IREE reuses memory.",
        on="all",
    ),
    Entry(
        "regions",
        elementwise_maps,
        "Merges elementwise ops that IREE would fuse anyway into one op, which compiles faster, for CPUs.",
    ),
    Entry(
        "regions",
        repeats,
        "Outlines the ops of equal layers to functions, which compile faster, for CPUs; runs last.",
    ),
)


def passes_of(group: Group, settings: Settings) -> list[Entry]:
    """The passes of a group that run with these settings, in order."""
    return [entry for entry in PIPELINE if entry.group == group and entry.applies(settings)]


def run_group(group: Group, module: ir.Module | IrOp, settings: Settings) -> int:
    """Runs a group of passes on a module, in place. Returns the number of rewrites."""
    return sum(entry.run(module, settings) for entry in passes_of(group, settings))


def legalize(module: ir.Module | IrOp, settings: Settings) -> None:
    """Runs the group "legal" on a module, in place, and verifies the module."""
    run_group("legal", module, settings)
    module.operation.verify()


def parts_of_legalization(**options: Any) -> list[tuple[str, Callable[[ir.Module | IrOp], object]]]:
    """The passes that `legalize_for_iree` runs with these options, as pairs of a name and a function."""
    settings = Settings(**options)
    return [
        (f"tidu-legalize-for-iree: {entry.function.__name__}", partial(entry.run, settings=settings))
        for entry in passes_of("legal", settings)
    ]


@stage
def legalize_for_iree(module: ir.Module | IrOp, **options: Any) -> None:
    """Rewrites a StableHLO module, in place, so that IREE computes it correctly.

    The options are the fields of `Settings`. Raises `Unsupported` for an op that IREE cannot run, and `RequestError`
    for options that `Settings` does not allow.
    """
    legalize(module, Settings(**options))
