"""expand_composites: expands CHLO and deprecated ops, and makes dynamic ops of constant sizes static."""

from typing import Any

from tiduc.backends.iree.fault import missing, wrong
from tiduc.backends.iree.settings import Settings
from tiduc.dialect.context import run_passes

_NATIVE = (
    "chlo-legalize-to-stablehlo",
    "stablehlo-legalize-deprecated-ops{fail-on-unused=false}",
    "stablehlo-canonicalize-dynamism",
)
"""StableHLO's own passes."""
_NATIVE_FOR_GPUS = ("stablehlo-legalize-quantized-op-to-qdq",)


@missing("Lacks deprecated ops and some of CHLO; StableHLO's own passes expand them.", "unary_einsum")
@wrong(
    "On GPUs, convolves quantized numbers wrongly; StableHLO's own pass convolves the floats that they stand for.",
    "vulkan/convolution_of_quantized",
)
def expand_composites(module: Any, settings: Settings) -> None:
    """Runs StableHLO's passes on a module, in place."""
    passes = _NATIVE if settings.cpu else _NATIVE + _NATIVE_FOR_GPUS
    run_passes(module.operation, f"builtin.module(func.func({','.join(passes)}))")
