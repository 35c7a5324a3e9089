"""`tiduc opt`: textual pipelines of passes: those of the stages, of the backends, and of MLIR.

    passes.py, lowering_passes.py, iree_passes.py    the passes, with their options
    defaults.py                                 the default values of these options
    pipelines.py                                named sequences of passes
    textual.py, driver.py                       parse a pipeline, and run it
    observe.py                                  print IR, times and statistics; write a reproducer

Pipelines can use a new stage after passes.py defines a pass for it.
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

    `more` are the caller's own passes, by name. The pipeline may use them in addition to `PASSES` and `PIPELINES`.

    Raises `RequestError`, located in the pipeline, if the pipeline is malformed; errors of passes propagate.
    """
    driver.run_pipeline(module, pipeline, {**PASSES, **PIPELINES, **more}, observe, opset)
