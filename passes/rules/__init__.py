"""The derivative rules of StableHLO and CHLO, by op name: one line or one file per op.

Importing this package imports every module in it, and each module registers its rules in `OPSET`. A transpose is the
adjoint under the real inner product Re(sum conj(a) b). Therefore transposes conjugate complex coefficients (by
`b.conj`, which is the identity on real types), but linearize rules do not.
"""

from importlib import import_module
from pkgutil import iter_modules

from tiduc.passes.rules.opset import OPSET

for _module in sorted(module.name for module in iter_modules(__path__)):
    import_module(f"{__name__}.{_module}")

__all__ = ["OPSET"]
