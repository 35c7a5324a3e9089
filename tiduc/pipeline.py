"""The stages of tiduc, in order. Read this first, then one file of each: `passes/linearize.py` is the heart.

    file.mlir --parse--> module --import--> graphs --resolve--> view
        --linearize--> + linear graph (JVP) --linear_transpose--> + transposed graph (VJP) --> ... any order
        --batch--> + either of them for many tangents or cotangents at once (vmap)
        --materialize_merge--> one flat graph --structure--> with StableHLO loops --lower--> func.func of StableHLO
        --compile--> compiled module --run--> arrays

For higher orders, `linearize` runs again on a view that holds linear graphs; nothing is merged in between.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class Stage:
    """One entry of the pipeline: its name, where its function is, what it takes, what it gives."""

    name: str
    where: str
    takes: str
    gives: str

    @property
    def function(self) -> Callable[..., Any]:
        """The function of the stage, imported only when asked for: IREE takes longer to import than all of tiduc."""
        module, name = self.where.split(":")
        function: Callable[..., Any] = getattr(import_module(module), name)
        return function


STAGES = (
    Stage("parse", "tiduc.dialect.context:parse", "text or bytecode", "module"),
    Stage("import", "tiduc.passes.importing.import_stablehlo:import_stablehlo", "func.func", "primal graph"),
    Stage("resolve", "tiduc.passes.resolve:resolve", "graphs, of any modules", "view"),
    Stage("linearize", "tiduc.passes.linearize:linearize", "view, outputs, wrt", "linear graph"),
    Stage(
        "linear_transpose",
        "tiduc.passes.linear_transpose:linear_transpose",
        "linear graph",
        "linear graph, turned around",
    ),
    Stage("batch", "tiduc.passes.batch:batch", "view, outputs, inputs, size", "graph of many inputs at once"),
    Stage(
        "materialize_merge",
        "tiduc.passes.materialize_merge:materialize_merge",
        "view, wanted values",
        "one flat graph",
    ),
    Stage(
        "structure",
        "tiduc.passes.structure.structure:structure",
        "view, flat graph",
        "flat graph, loops settled",
    ),
    Stage("lower", "tiduc.passes.lower.lower:lower", "flat graph", "func.func of StableHLO"),
    Stage("compile", "tiduc.backends.iree.compile:compile_module", "text or bytecode", "compiled module"),
    Stage("run", "tiduc.runtime.run:run_module", "compiled module, arrays", "arrays"),
)
