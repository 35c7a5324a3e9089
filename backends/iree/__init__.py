"""legalize_for_iree: a module of StableHLO to one that IREE compiles, and computes as the specification says.

    %0 = stablehlo.power %x, %y    ->    the power of |x|, its sign, and what it is where x or y is 0

A pattern is a function `(b, op) -> values` in a file here, which `@legalize(name)` registers: it emits, before an op of
that name, what stands for its results, or gives None where IREE gets the op right. A fact about IREE has one pattern,
and docs/iree.md lists them. What nothing can be done about is refused by name and place, before the compiler runs.
"""

from importlib import import_module
from pkgutil import iter_modules

from tiduc.backends.iree.legalize import legalize_for_iree

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = ["legalize_for_iree"]
