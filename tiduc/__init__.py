"""A compiler that differentiates StableHLO programs.

    import tiduc

    gradient = tiduc.load("model.mlir").grad(wrt=["w", "b"])  # a Program; str() gives its StableHLO text
    dw, db = gradient.compile()(w, b, x)  # takes and returns NumPy arrays

Each public name is imported when it is first used.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if "TIDUC_MLIR" in os.environ:
    from tiduc.dialect.mlir.bindings import redirect

    redirect()

if TYPE_CHECKING:
    from tiduc.dialect.errors import (
        CompileError,
        InputError,
        ParseError,
        RequestError,
        ResolveError,
        RuleError,
        TiducError,
        Unsupported,
    )
    from tiduc.dialect.graph.graph import Graph
    from tiduc.dialect.graph.view import View
    from tiduc.dialect.mlir.context import context, parse, read
    from tiduc.linking import link
    from tiduc.live import grad, jit
    from tiduc.loading import load
    from tiduc.models.files import import_model
    from tiduc.models.from_jax import from_jax
    from tiduc.models.from_onnx import from_onnx
    from tiduc.models.from_torch import from_torch
    from tiduc.models.model import Model
    from tiduc.opt import run_pipeline
    from tiduc.passes.batch import batch
    from tiduc.passes.importing.import_stablehlo import import_stablehlo
    from tiduc.passes.linear_transpose import linear_transpose
    from tiduc.passes.linearize import linearize
    from tiduc.passes.lower.lower import lower
    from tiduc.passes.materialize_merge import Zero, materialize_merge
    from tiduc.passes.resolve import resolve
    from tiduc.passes.rules import OPSET
    from tiduc.passes.rules.registry import OpSet
    from tiduc.passes.structure.structure import structure
    from tiduc.ports import Port
    from tiduc.program import Program, from_module
    from tiduc.runtime.run import Executable
    from tiduc.runtime.signature import Signature
    from tiduc.runtime.weights import read_weights, write_weights
    from tiduc.splitting import Split, split
    from tiduc.tracing.trace import RunTrace, trace
    from tiduc.training.step import train_step

_WHERE = {
    "tiduc.ports": ("Port",),
    "tiduc.live": ("grad", "jit"),
    "tiduc.loading": ("load",),
    "tiduc.program": ("from_module", "Program"),
    "tiduc.models.files": ("import_model",),
    "tiduc.models.from_jax": ("from_jax",),
    "tiduc.models.from_onnx": ("from_onnx",),
    "tiduc.models.from_torch": ("from_torch",),
    "tiduc.models.model": ("Model",),
    "tiduc.dialect.mlir.context": ("context", "parse", "read"),
    "tiduc.dialect.graph.graph": ("Graph",),
    "tiduc.dialect.graph.view": ("View",),
    "tiduc.passes.importing.import_stablehlo": ("import_stablehlo",),
    "tiduc.passes.resolve": ("resolve",),
    "tiduc.passes.linearize": ("linearize",),
    "tiduc.passes.batch": ("batch",),
    "tiduc.passes.linear_transpose": ("linear_transpose",),
    "tiduc.passes.materialize_merge": ("materialize_merge", "Zero"),
    "tiduc.passes.structure.structure": ("structure",),
    "tiduc.passes.lower.lower": ("lower",),
    "tiduc.linking": ("link",),
    "tiduc.opt": ("run_pipeline",),
    "tiduc.passes.rules": ("OPSET",),
    "tiduc.passes.rules.registry": ("OpSet",),
    "tiduc.runtime.run": ("Executable",),
    "tiduc.runtime.signature": ("Signature",),
    "tiduc.runtime.weights": ("read_weights", "write_weights"),
    "tiduc.splitting": ("split", "Split"),
    "tiduc.tracing.trace": ("trace", "RunTrace"),
    "tiduc.training.step": ("train_step",),
    "tiduc.dialect.errors": (
        "TiducError",
        "ParseError",
        "ResolveError",
        "RequestError",
        "Unsupported",
        "RuleError",
        "CompileError",
        "InputError",
    ),
}
_SUBPACKAGES = ("eager", "interop", "runtime", "training")  # subpackages with further public names
_MODULE_OF = {name: module for module, names in _WHERE.items() for name in names}

__all__ = [
    "OPSET",
    "CompileError",
    "Executable",
    "Graph",
    "InputError",
    "Model",
    "OpSet",
    "ParseError",
    "Port",
    "Program",
    "RequestError",
    "ResolveError",
    "RuleError",
    "Signature",
    "Split",
    "TiducError",
    "RunTrace",
    "Unsupported",
    "View",
    "Zero",
    "batch",
    "context",
    "from_jax",
    "from_module",
    "from_onnx",
    "from_torch",
    "grad",
    "import_model",
    "import_stablehlo",
    "jit",
    "linear_transpose",
    "linearize",
    "link",
    "load",
    "lower",
    "materialize_merge",
    "parse",
    "read",
    "read_weights",
    "resolve",
    "run_pipeline",
    "split",
    "structure",
    "trace",
    "train_step",
    "write_weights",
]


def __getattr__(name: str) -> Any:
    if name in _SUBPACKAGES:
        return import_module(f"tiduc.{name}")
    if name == "__version__":
        return import_module("tiduc.version").version()  # this import is slow
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'tiduc' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_MODULE_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *_SUBPACKAGES, "__version__"})
