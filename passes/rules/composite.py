"""composite: a call of its decomposition, unless its name has a rule.

`tidu.stop_gradient` marks a value that is not differentiated. It is plain StableHLO: other tools read it as a
call of the function that it names, the identity. No native pass removes it, and derived programs keep it:

    %1 = stablehlo.composite "tidu.stop_gradient" %0 {decomposition = @identity} : (T) -> T

`tiduc.from_jax` emits it for `jax.lax.stop_gradient`.
"""

from tiduc.passes.rules.opset import inactive

inactive("stablehlo.composite @tidu.stop_gradient")
