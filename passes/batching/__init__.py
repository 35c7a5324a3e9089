"""The batching rules (vmap) of StableHLO and CHLO; every module beside this one adds its rules to `BATCHING`."""

from importlib import import_module
from pkgutil import iter_modules

from tiduc.passes.batching.table import BATCHING

for _module in sorted(module.name for module in iter_modules(__path__)):
    import_module(f"{__name__}.{_module}")

__all__ = ["BATCHING"]
