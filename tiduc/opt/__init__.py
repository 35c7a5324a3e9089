"""Runs textual pass pipelines (`tiduc opt`). A pipeline may mix the passes of tiduc's stages, of backends, and of MLIR.

    passes.py, lowering_passes.py, iree_passes.py    define the passes and their options
    defaults.py                                      computes the default values of these options
    pipelines.py                                     defines named sequences of passes
    textual.py, driver.py                            parse a pipeline, and run it
    observe.py                                       prints IR, times and statistics, and writes reproducers

To use a new stage in pipelines, define a pass for it in passes.py.
"""

from collections.abc import Mapping
from types import MappingProxyType

from torch_mlir import ir

from tiduc.opt import driver
from tiduc.opt.iree_passes import PASSES as IREE_PASSES
from tiduc.opt.lowering_passes import PASSES as LOWERING_PASSES
from tiduc.opt.observe import Observe, Printing
from tiduc.opt.passes import PASSES as STAGE_PASSES
from tiduc.opt.pipelines import PIPELINES
from tiduc.opt.textual import Option, Pass, Pipeline
from tiduc.passes.rules import OPSET
from tiduc.passes.rules.registry import OpSet

PASSES: dict[str, Pass] = STAGE_PASSES | LOWERING_PASSES | IREE_PASSES

__all__ = ["PASSES", "PIPELINES", "Observe", "Option", "Pass", "Pipeline", "Printing", "run_pipeline"]


def run_pipeline(
    module: ir.Module,
    pipeline: str,
    observe: Observe = Observe(),  # noqa: B008  (frozen)
    opset: OpSet = OPSET,
    more: Mapping[str, Pass] = MappingProxyType({}),
) -> None:
    """Runs a pipeline, such as `tidu-import,func.func(canonicalize)`, on an `ir.Module`, in place.

    `more` maps names to the caller's own passes. The pipeline may use them in addition to `PASSES` and `PIPELINES`.

    Raises `RequestError`, located in the pipeline, if the pipeline is malformed. Errors of passes propagate.
    """
    driver.run_pipeline(module, pipeline, {**PASSES, **PIPELINES, **more}, observe, opset)
