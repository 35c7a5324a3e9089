"""Sets the tolerance within which eigenvalues or singular values count as equal; part of import.

    custom_call @lapack_dsyevd_ffi(%x)    ->    custom_call @lapack_dsyevd_ffi(%x) {tidu.equal_within = 4.0}

The tolerance is in units in the last place. A call that already has the attribute keeps it. For a call without the
attribute, `equality_margin` in `passes/rules/decomposition.py` has a default.
"""

import math

from torch_mlir import ir

from tiduc.dialect.errors import RequestError
from tiduc.dialect.facts.lapack import targets
from tiduc.dialect.graph.functions import within
from tiduc.dialect.mlir.context import stage
from tiduc.dialect.ops.control_ops import CUSTOM_CALL, call_target
from tiduc.passes.rules.decomposition import EQUAL_WITHIN

_TARGETS = frozenset(
    targets(
        "Eigh",
        "gees",
        "geev",
        "geev of cuSOLVER",
        "geev of reals",
        "gesdd",
        "gesvd",
        "gesvdj",
        "syevd",
    )
)


@stage
def set_equal_within(module: ir.Module, ulps: float) -> None:
    """Sets `EQUAL_WITHIN` to `ulps` on the calls that compute eigenvalues or singular values, unless they have it.

    Raises `RequestError` if `ulps` is negative or not finite.
    """
    if not (math.isfinite(ulps) and ulps >= 0):
        raise RequestError(f"equal values may differ by 0 or more units in the last place, not by {ulps}")
    for op in within(module.operation, (CUSTOM_CALL,)):
        if call_target(op) in _TARGETS and EQUAL_WITHIN not in op.attributes:
            op.attributes[EQUAL_WITHIN] = ir.FloatAttr.get(ir.F64Type.get(), float(ulps))
