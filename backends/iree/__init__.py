"""legalize_for_iree: rewrites a StableHLO module into one that IREE compiles and runs as the specification says.

    %0 = stablehlo.power %x, %y    ->    the power of |x|, its sign, and the values for x = 0 or y = 0

A pattern is a function `(b, op) -> values` that `@legalize(name)` registers for ops of that name. The pattern emits
ops before `op` that compute its results, and returns these results, or None if IREE handles the op correctly. Ops
that cannot be rewritten are refused by name and location before IREE's compiler runs. The folders:

    faults/           IREE computes a wrong value, or its compiler crashes
    missing/          IREE lacks the op, or lacks it for some types or shapes
    linear_algebra/   factorizations and solves; IREE has none
    fast/             IREE is correct but slow
    vm/               workarounds applied to the text of IREE's VM module
"""

from importlib import import_module
from pkgutil import walk_packages

from tiduc.backends.iree.legalize import legalize_for_iree

for _room in ("faults", "missing", "fast", "linear_algebra"):  # importing them registers their patterns
    for _module in walk_packages([f"{__path__[0]}/{_room}"], f"{__name__}.{_room}."):
        import_module(_module.name)

__all__ = ["legalize_for_iree"]
