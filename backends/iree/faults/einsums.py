"""sum_labels_first: sums along the labels that one operand of an einsum has alone, which StableHLO's passes forget.

%y = unary_einsum %x, "ab->b"   ->   %s = reduce add %x, dimensions = [0];  %y = unary_einsum %s, "b->b"
"""

from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.emitter import Emitter, within
from tiduc.backends.iree.fault import crash


@crash(
    "Einsums do not compile if they sum along a label that one operand has alone; sums first.",
    "einsum_of_sums",
)
def sum_labels_first(module: Any) -> None:
    """Rewrites the einsums of a module in place."""
    for op in within(module.operation):
        if op.name not in ("stablehlo.einsum", "stablehlo.unary_einsum"):
            continue
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
