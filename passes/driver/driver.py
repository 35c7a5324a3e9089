"""Runs textual pass pipelines that mix Python passes and native MLIR passes, in one `PassManager`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch_mlir.passmanager import PassManager

from tiduc.dialect.context import stage
from tiduc.dialect.errors import RequestError
from tiduc.passes.driver.textual import Native, Pass, parse_pipeline
from tiduc.passes.rules import OPSET
from tiduc.passes.rules.registry import OpSet

_LOCATED = re.compile(r"MLIR Textual PassPipeline Parser:(\d+:\d+): error: (.*)")


@dataclass(frozen=True)
class Observe:
    """Options of MLIR's pass manager: printing and timing, to standard error, and verification."""

    print_after_all: bool = False
    verify_each: bool = True
    timing: bool = False


@stage
def run_pipeline(
    module: Any,
    pipeline: str,
    passes: Mapping[str, Pass],
    observe: Observe = Observe(),  # noqa: B008  (frozen)
    opset: OpSet = OPSET,
) -> None:
    """Runs a pipeline, such as `tidu-import,func.func(canonicalize)`, on an `ir.Module`, in place.

    `passes` are the Python passes that the pipeline may name; MLIR looks up other names. `RequestError`, located in
    the pipeline, where it is malformed; errors of the passes propagate.
    """
    manager = PassManager("builtin.module")
    for element in parse_pipeline(pipeline, passes):
        if isinstance(element, Native):
            _add_native(manager, element.text)
        else:
            # No `op_name`: the bindings do not copy the string, and the manager is anchored on a module anyway.
            rules = {"opset": opset} if element.pass_.by_rules else {}
            for name, run in element.pass_.steps(**element.options, **rules):
                manager.add(run, name=name, argument=element.text)
    if observe.print_after_all:
        manager.enable_ir_printing()
    if observe.timing:
        manager.enable_timing()
    manager.enable_verifier(observe.verify_each)
    manager.run(module.operation)


def _add_native(manager: Any, text: str) -> None:
    try:
        manager.add(text)
    except ValueError as error:
        located = _LOCATED.match(str(error))
        if not located:
            lines = [line.removeprefix("<Pass-Options-Parser>: ") for line in str(error).splitlines() if line]
            raise RequestError(
                "; ".join(lines), f"pass-pipeline:1:{len(text) - len(text.lstrip()) + 1}"
            ) from None
        nested = re.search(r"'(tidu-[\w-]+)'", located[2])
        message = f"{nested[0]} runs on a module and cannot be nested" if nested else located[2]
        raise RequestError(message, f"pass-pipeline:{located[1]}") from None
