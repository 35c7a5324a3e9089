"""The stages of tiduc, in order. Read this first, then one file of each: `passes/linearize.py` is the heart.

    file.mlir --parse--> module --import--> graphs --resolve--> view
        --linearize--> + linear graph (JVP) --linear_transpose--> + transposed graph (VJP) --> ... to any order
    view --materialize_merge--> one flat graph --lower--> func.func --compile--> compiled module --run--> arrays

Higher order repeats `linearize` on a view that holds linear graphs; nothing is merged in between.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tiduc.dialect.context import parse
from tiduc.passes.import_stablehlo import import_stablehlo
from tiduc.passes.linear_transpose import linear_transpose
from tiduc.passes.linearize import linearize
from tiduc.passes.lower import lower
from tiduc.passes.materialize_merge import materialize_merge
from tiduc.passes.resolve import resolve
from tiduc.runtime.compile import compile_module
from tiduc.runtime.run import run_module


@dataclass(frozen=True)
class Stage:
    """One entry of the pipeline: what it takes, what it gives."""

    name: str
    function: Callable[..., Any]
    takes: str
    gives: str


STAGES = (
    Stage("parse", parse, "text or bytecode", "module"),
    Stage("import", import_stablehlo, "func.func", "primal graph"),
    Stage("resolve", resolve, "graphs, of any modules", "view"),
    Stage("linearize", linearize, "view, outputs, wrt", "linear graph"),
    Stage("linear_transpose", linear_transpose, "linear graph", "linear graph, turned around"),
    Stage("materialize_merge", materialize_merge, "view, wanted values", "one flat graph"),
    Stage("lower", lower, "flat graph", "func.func of StableHLO"),
    Stage("compile", compile_module, "text or bytecode", "compiled module"),
    Stage("run", run_module, "compiled module, arrays", "arrays"),
)
