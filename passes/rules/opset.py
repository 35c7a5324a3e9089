"""The op set of StableHLO and CHLO, and its functions, with which the rule files declare rules."""

from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.facts.identities import IDENTITIES
from tiduc.dialect.ops.control_ops import CALL, CUSTOM_CALL, GRAPHS, TARGET
from tiduc.dialect.ops.traits import COMMUTATIVE, STATEFUL
from tiduc.passes.rules.registry import OpSet

NAMED_BY = {
    CALL: ("func.call", GRAPHS),
    "stablehlo.composite": ("stablehlo.composite", "name"),
    CUSTOM_CALL: (CUSTOM_CALL, TARGET),
}

OPSET = OpSet(
    StablehloBuilder, STATEFUL, COMMUTATIVE, NAMED_BY, IDENTITIES, complete=frozenset({"stablehlo", "chlo"})
)

inactive = OPSET.inactive
refuse = OPSET.refuse
elementwise = OPSET.elementwise
linear = OPSET.linear
bilinear = OPSET.bilinear
linearize = OPSET.linearize
transpose = OPSET.transpose
unsupported = OPSET.unsupported
