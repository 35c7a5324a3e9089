"""What each op is: one line or one file an op, found by its name.

`OPSET` holds the rules of StableHLO and CHLO; every module beside this one adds its own when it is imported here.
A transpose is the adjoint under the real inner product Re(sum conj(a) b): for complex values coefficients are
conjugated (`b.conj`, the identity on real types), in transposes only.
"""

from importlib import import_module
from pkgutil import iter_modules

from tiduc.passes.rules.opset import OPSET

for _module in sorted(module.name for module in iter_modules(__path__)):
    import_module(f"{__name__}.{_module}")

__all__ = ["OPSET"]
