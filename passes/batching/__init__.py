"""The batching rules (vmap) of StableHLO and CHLO. The rule modules of this package add them to the table `BATCHING`.

    registry.py, table.py                           functions that declare rules, and the table of the rules
    elementwise, shape, indexing, reduction, contraction, linear_algebra, collectives, control      rules, by kind of op
    alignment, places, patterns                     sparsity of Jacobians: which operand elements a result element reads
    colouring                                       columns of a sparse Jacobian that are computed together
    factors                                         factors that all examples share

An op without a rule runs once per example, in a loop. `passes/batch.py` is the stage.
"""

from importlib import import_module
from pkgutil import iter_modules

from tiduc.passes.batching.table import BATCHING

for _module in sorted(module.name for module in iter_modules(__path__)):
    import_module(f"{__name__}.{_module}")

__all__ = ["BATCHING"]
