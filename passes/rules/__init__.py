"""The derivative rules of StableHLO and CHLO, registered by op name: one line or one file per op.

`OPSET` holds the rules; importing this package imports every module in it, and each module registers its rules. A
transpose is the adjoint under the real inner product Re(sum conj(a) b). For complex values, transposes therefore
conjugate coefficients (`b.conj`, the identity on real types); linearize rules do not.
"""

from importlib import import_module
from pkgutil import iter_modules

from tiduc.passes.rules.opset import OPSET

for _module in sorted(module.name for module in iter_modules(__path__)):
    import_module(f"{__name__}.{_module}")

__all__ = ["OPSET"]
