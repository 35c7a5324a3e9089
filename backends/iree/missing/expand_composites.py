"""expand_composites: expands CHLO and deprecated ops, and makes dynamic ops static if their sizes are constants."""

from torch_mlir import ir

from tiduc.backends.iree.emit.emitter import Emitter
from tiduc.backends.iree.fault import crash, missing, wrong
from tiduc.backends.iree.settings import Settings
from tiduc.dialect.graph.functions import within
from tiduc.dialect.mlir.context import run_passes
from tiduc.dialect.ops.ir_types import IrOp

_NATIVE = (
    "chlo-legalize-to-stablehlo",
    "stablehlo-legalize-deprecated-ops{fail-on-unused=false}",
    "stablehlo-canonicalize-dynamism",
)
"""Passes that come with StableHLO."""
_NATIVE_FOR_GPUS = ("stablehlo-legalize-quantized-op-to-qdq",)


@missing("IREE lacks deprecated ops and some of CHLO; StableHLO's own passes expand them.", "unary_einsum")
@wrong(
    "On GPUs, convolutions of quantized numbers are wrong; a pass of StableHLO convolves dequantized floats.",
    "vulkan/convolution_of_quantized",
)
def expand_composites(module: ir.Module | IrOp, settings: Settings) -> None:
    """Expands CHLO and deprecated ops by passes of StableHLO, in place.

    `sum_labels_first` runs before these passes, and `assume_broadcastable` after them.
    """
    sum_labels_first(module)
    passes = _NATIVE if settings.cpu else _NATIVE + _NATIVE_FOR_GPUS
    run_passes(module.operation, f"builtin.module(func.func({','.join(passes)}))")
    assume_broadcastable(module)


def assume_broadcastable(module: ir.Module | IrOp) -> None:
    """Removes ops that constrain the shapes of broadcasts, in place.

    They are not needed, because the pass `assert_sizes` has emitted assertions for the constraints.
    """
    if within(module.operation, ("shape.cstr_broadcastable",)):
        run_passes(module.operation, "builtin.module(func.func(remove-shape-constraints,canonicalize))")


@crash(
    "Einsums do not compile if they sum along a label that only one operand has; tiduc sums first.",
    "einsum_of_sums",
)
def sum_labels_first(module: ir.Module | IrOp) -> None:
    """Sums the operands of einsums along each label that occurs only once in the einsum, in place.

    %y = unary_einsum %x, "ab->b"   ->   %s = reduce add %x, dimensions = [0];  %y = unary_einsum %s, "b->b"
    """
    for op in within(module.operation, ("stablehlo.einsum", "stablehlo.unary_einsum")):
        b = Emitter(ir.InsertionPoint(op), op.location)
        sources, _, target = (
            ir.StringAttr(op.attributes["einsum_config"]).value.replace(" ", "").partition("->")
        )
        labels = sources.split(",")
        for i, (x, of) in enumerate(zip(list(op.operands), labels, strict=True)):
            summed = [d for d, c in enumerate(of) if (sources + target).count(c) == 1]
            op.operands[i] = b.reduce_sum(x, summed)
            labels[i] = "".join(c for d, c in enumerate(of) if d not in summed)
        op.attributes["einsum_config"] = ir.StringAttr.get(f"{','.join(labels)}->{target}")
