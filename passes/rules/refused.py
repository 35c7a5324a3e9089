"""Ops without a rule, and the reason. When an op gets a rule, remove it from here.

A refusal is raised only if a tangent reaches the op; programs may use these ops where nothing is
differentiated.
"""

from tiduc.passes.rules.opset import refuse

refuse("it is a loop, and becomes one of StableHLO when a program is imported", "chlo.scan")
refuse(
    "what is started here ends elsewhere, so no linear op stands for it",
    *("stablehlo.async_done", "stablehlo.async_start"),
)
refuse("the specification does not say what it is", "stablehlo.collective_reduce")
refuse("what leaves the program cannot be differentiated", "stablehlo.outfeed", "stablehlo.send")
refuse("it is a call, and is inlined when a program is imported", "stablehlo.composite")
refuse("it ends a region, and is differentiated with the op that holds it", "stablehlo.return")
refuse("it is a step in the expansion of asin and acos, which have rules", "chlo._asin_acos_kernel")
