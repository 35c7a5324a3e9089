"""Declares ops that have no rule, with the reason for each. If you add a rule for an op, remove the op from this file.

An error is raised only if an operand of the op has a tangent. Programs may use the op where nothing is differentiated.
"""

from tiduc.passes.rules.opset import refuse

refuse("import turns it into a StableHLO loop, which has rules", "chlo.scan")
refuse("import turns it into rng_bit_generator and arithmetic, which has rules", "stablehlo.rng")
refuse(
    "it starts or ends an asynchronous operation, which no single linear op can express",
    *("stablehlo.async_done", "stablehlo.async_start"),
)
refuse("the StableHLO specification does not define it", "stablehlo.collective_reduce")
refuse("a value that leaves the program cannot be differentiated", "stablehlo.outfeed", "stablehlo.send")
refuse("import inlines it, as every call", "stablehlo.composite")
refuse("it ends a region and is differentiated with the op that holds the region", "stablehlo.return")
refuse("it is part of the expansion of asin and acos, which have rules", "chlo._asin_acos_kernel")
