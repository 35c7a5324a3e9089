"""composite: a call of its decomposition, unless its name has a rule.

`tidu.stop_gradient` is the marker of what is not differentiated. It is plain StableHLO, which every tool reads as the
function that it names, the identity; no native pass removes it, and a derived program has it still:

    %1 = stablehlo.composite "tidu.stop_gradient" %0 {decomposition = @identity} : (T) -> T

In JAX it is `jax.lax.composite(lambda x: x, "tidu.stop_gradient")(x)`.
"""

from tiduc.passes.rules.opset import inactive

inactive("stablehlo.composite @tidu.stop_gradient")
