"""expand_composites: expands CHLO and deprecated ops, and makes dynamic ops of constant sizes static."""

from typing import Any

from tiduc.backends.iree.fault import missing
from tiduc.dialect.context import run_passes

_NATIVE = (
    "builtin.module(func.func("
    "chlo-legalize-to-stablehlo,stablehlo-legalize-deprecated-ops{fail-on-unused=false},"
    "stablehlo-canonicalize-dynamism))"
)
"""StableHLO's own passes."""


@missing("Lacks deprecated ops and some of CHLO; StableHLO's own passes expand them.", "unary_einsum")
def expand_composites(module: Any) -> None:
    """Runs StableHLO's passes on a module, in place."""
    run_passes(module.operation, _NATIVE)
