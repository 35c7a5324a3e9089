"""The passes for IREE that textual pass pipelines can name."""

from tiduc.backends.iree import legalize_for_iree
from tiduc.backends.iree.fast.barriers import barriers_at_reductions
from tiduc.backends.iree.fast.convolution import convolutions_to_products
from tiduc.backends.iree.fast.lanes import reductions_in_lanes
from tiduc.backends.iree.fast.loops import loops_to_kernels
from tiduc.backends.iree.fast.sines import sines_to_kernels
from tiduc.backends.iree.pipeline import parts_of_legalization
from tiduc.passes.driver.textual import Option, Pass

PASSES: dict[str, Pass] = {
    pass_.name: pass_
    for pass_ in (
        Pass(
            "tidu-legalize-for-iree",
            "Rewrites what IREE rejects or gets wrong in functions of StableHLO, and refuses what cannot be helped.",
            legalize_for_iree,
            (
                Option("cpu", "bool", "the target is a CPU; true by default"),
                Option("spirv", "bool", "the target's code is SPIR-V; false by default"),
                Option(
                    "lapack", "string", "how to factorize: loops, or a callback of the host; loops by default"
                ),
                Option("fused", "bool", "the target has a fused multiply-add; false by default"),
                Option("fast", "bool", "rewrite for speed, too; true by default"),
            ),
            parts=parts_of_legalization,
        ),
        Pass(
            "tidu-convolutions-to-products",
            "Makes products of matrices of the convolutions that IREE's code for CPUs is slow at.",
            convolutions_to_products,
        ),
        Pass(
            "tidu-barriers-at-reductions",
            "Has what is dear to compute, and reduced, computed once, behind a barrier.",
            barriers_at_reductions,
        ),
        Pass(
            "tidu-reductions-in-lanes",
            "Splits long sums and extrema along the last dimensions, for CPUs, so that they are loops over vectors.",
            reductions_in_lanes,
        ),
        Pass(
            "tidu-sines-to-kernels",
            "Puts sines of large arrays into dispatches with code for huge arguments apart; before "
            "tidu-legalize-for-iree, for CPUs that multiply and add in one instruction.",
            sines_to_kernels,
        ),
        Pass(
            "tidu-loops-to-kernels",
            "Puts loops over small arrays into one dispatch each, for CPUs; after tidu-legalize-for-iree.",
            loops_to_kernels,
        ),
    )
}
