"""Ops without a rule, and why; a rule that is written takes its op out of here.

A refusal is only met where a tangent reaches the op; all of these are fine on what is not differentiated.
"""

from tiduc.passes.rules.opset import refuse

refuse(
    "derivatives through control flow are not written yet",
    "stablehlo.case",
    "stablehlo.if",
    "stablehlo.while",
    "chlo.scan",
)
refuse(
    "derivatives across devices are not written yet",
    "stablehlo.all_gather",
    "stablehlo.all_reduce",
    "stablehlo.all_to_all",
    "stablehlo.async_done",
    "stablehlo.async_start",
    "stablehlo.collective_broadcast",
    "stablehlo.collective_permute",
    "stablehlo.collective_reduce",
    "stablehlo.cross-replica-sum",
    "stablehlo.reduce_scatter",
)
refuse(
    "what leaves the program cannot be differentiated",
    "stablehlo.outfeed",
    "stablehlo.send",
)
refuse(
    "its shapes are known only when it runs, and derivatives of such ops are not written yet",
    "stablehlo.dynamic_broadcast_in_dim",
    "stablehlo.dynamic_conv",
    "stablehlo.dynamic_pad",
    "stablehlo.dynamic_reshape",
    "stablehlo.real_dynamic_slice",
    "stablehlo.set_dimension_size",
)
refuse("differentiate before quantizing", "stablehlo.uniform_dequantize", "stablehlo.uniform_quantize")
refuse("the bits of a float have no derivative", "stablehlo.bitcast_convert")
refuse("the derivative toward the parameters of a distribution is not written yet", "stablehlo.rng")
refuse("a tuple has no tangent", "stablehlo.get_tuple_element", "stablehlo.tuple")
refuse("it is a call, and is inlined when a program is imported", "stablehlo.composite")
refuse("it ends a region, and is differentiated with the op that holds it", "stablehlo.return")
refuse("its derivative needs bessel_i0e, which CHLO lacks", "chlo.bessel_i1e")
refuse(
    "it moves by one unit in the last place, which is no smooth function",
    "chlo.broadcast_next_after",
    "chlo.next_after",
)
refuse("it is a step in the expansion of asin and acos, which have rules", "chlo._asin_acos_kernel")
