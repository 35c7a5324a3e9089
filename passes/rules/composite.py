"""Rules of composites. Import turns a composite into a call of its decomposition, unless its name has a rule here.

`tidu.stop_gradient` marks a value that is not differentiated. It is plain StableHLO: for other tools, it is a call of
the identity function that it names. The MLIR passes that tiduc runs do not remove it, so derived programs keep it:

    %1 = stablehlo.composite "tidu.stop_gradient" %0 {decomposition = @identity} : (T) -> T

`tiduc.from_jax` emits it for `jax.lax.stop_gradient`.

`tidu.not_differentiable` is such a composite, too. It rejects tangents with an error that states its `reason`.
`tiduc.from_jax` emits it for operands whose tangents a `custom_jvp` or `custom_vjp` function rejects by an exception.
"""

from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.ops.attributes import named_attributes
from tiduc.dialect.ops.verify import STOP_GRADIENT
from tiduc.passes.rules.opset import inactive, linearize, unsupported
from tiduc.passes.rules.registry import Tangents

NOT_DIFFERENTIABLE = "tidu.not_differentiable"
"""The name of composites that refuse tangents."""

inactive(f"stablehlo.composite @{STOP_GRADIENT}")


@linearize(f"stablehlo.composite @{NOT_DIFFERENTIABLE}")
def not_differentiable(b: StablehloBuilder, op: Definition, dx: Tangents) -> list[Value]:
    raise unsupported("jvp", op, named_attributes(op.attributes["composite_attributes"])["reason"].value)
