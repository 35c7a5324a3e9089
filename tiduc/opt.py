"""Textual pipelines over all passes: of the stages, of each backend, and of MLIR."""

from typing import Any

from tiduc.backends.iree.passes import PASSES as IREE_PASSES
from tiduc.passes.driver import driver
from tiduc.passes.driver.driver import Observe
from tiduc.passes.driver.passes import PASSES as STAGE_PASSES
from tiduc.passes.driver.textual import Pass
from tiduc.passes.rules import OPSET
from tiduc.passes.rules.registry import OpSet

PASSES: dict[str, Pass] = STAGE_PASSES | IREE_PASSES


def run_pipeline(
    module: Any,
    pipeline: str,
    observe: Observe = Observe(),  # noqa: B008  (frozen)
    opset: OpSet = OPSET,
) -> None:
    """Runs a pipeline, such as `tidu-import,func.func(canonicalize)`, on an `ir.Module`, in place.

    `RequestError`, located in the pipeline, where the pipeline is malformed; errors of passes propagate.
    """
    driver.run_pipeline(module, pipeline, PASSES, observe, opset)
