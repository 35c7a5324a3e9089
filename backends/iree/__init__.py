"""legalize_for_iree: a module of StableHLO to one that IREE compiles, and computes as the specification says.

    %0 = stablehlo.power %x, %y    ->    the power of |x|, its sign, and what it is where x or y is 0

A pattern is a function `(b, op) -> values`, which `@legalize(name)` registers. Before an op of that name it emits ops
that compute the op's results, or it gives None where IREE gets the op right. What cannot be rewritten is refused by
name and place, before IREE's compiler runs. The rooms:

    faults/           IREE computes another value, or its compiler crashes
    missing/          IREE has no such op, or none of these types or shapes
    linear_algebra/   factorizations and solves, none of which IREE has
    fast/             IREE is right but slow
    vm/               faults that are mended in the text of IREE's VM module
"""

from importlib import import_module
from pkgutil import walk_packages

from tiduc.backends.iree.legalize import legalize_for_iree

for _room in ("faults", "missing", "fast", "linear_algebra"):  # whose modules register their patterns
    for _module in walk_packages([f"{__path__[0]}/{_room}"], f"{__name__}.{_room}."):
        import_module(_module.name)

__all__ = ["legalize_for_iree"]
