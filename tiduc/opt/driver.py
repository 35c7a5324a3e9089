"""Runs textual pass pipelines that mix Python passes and native MLIR passes, in one `PassManager`."""

import re
import sys
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from torch_mlir import ir, passmanager
from torch_mlir.passmanager import PassManager

from tiduc.dialect.errors import RequestError, TiducError
from tiduc.dialect.graph.graph import operations
from tiduc.dialect.mlir.context import diagnosed, stage
from tiduc.opt.observe import COUNT, Observe, Statistics, reproducible
from tiduc.opt.textual import Configured, Native, Pass, PassFunction, Pipeline, elements_of, parse_pipeline
from tiduc.passes.rules import OPSET
from tiduc.passes.rules.registry import OpSet

_LOCATED = re.compile(r"MLIR Textual PassPipeline Parser:(\d+:\d+): error: (.*)")
_RESTRICTED = re.compile("restricted to '([^']*)'")
_UNKNOWN = "does not refer to a registered pass"


@stage
def run_pipeline(
    module: ir.Module,
    pipeline: str,
    passes: Mapping[str, Pass | Pipeline],
    observe: Observe = Observe(),  # noqa: B008  (frozen)
    opset: OpSet = OPSET,
) -> None:
    """Runs a pipeline, such as `tidu-import,func.func(canonicalize)`, on an `ir.Module`, in place.

    `passes` maps names to Python passes and named pipelines. All other names in the pipeline must be those of MLIR's
    passes. Raises `RequestError`, located in the pipeline, if the pipeline is malformed. Errors of passes propagate.
    """
    elements = parse_pipeline(pipeline, passes)
    statistics = Statistics() if observe.statistics else None
    failures: list[BaseException] = []
    manager = _manager(elements, passes, opset, failures, statistics)
    if observe.dump_pipeline:
        print(f"Pass Manager with {len(elements)} passes:\n{_normal(elements)}\n", file=sys.stderr)
    observe.enable(manager)
    with reproducible(module, _normal(elements), observe):
        try:
            with observe.selected():
                manager.run(module.operation)
        except ir.MLIRError as error:
            if failures:
                raise failures[0] from None
            raise _failed(error) from None
    if statistics is not None:
        print(statistics.report(), file=sys.stderr, end="")


def _manager(
    elements: list[Native | Configured],
    passes: Mapping[str, Pass | Pipeline],
    opset: OpSet,
    failures: list[BaseException],
    statistics: Statistics | None,
) -> Any:
    """A pass manager that runs the elements of a pipeline, and appends exceptions of Python passes to `failures`."""
    manager = PassManager("builtin.module")

    def count(name: str) -> None:
        if statistics is not None:
            manager.add(statistics.counting(name), name=COUNT, argument=COUNT)

    count("")
    for element in elements:
        if isinstance(element, Native):
            for text in elements_of(element.text) if statistics is not None else [element.text]:
                _add_native(manager, text, passes)
                count(text.strip())
            continue
        # `op_name` is not passed to `add`, because the bindings do not copy the string. The manager runs on a module.
        rules = {"opset": opset} if element.pass_.by_rules else {}
        for name, run in element.pass_.steps(**element.options, **rules):
            manager.add(_failing(run, failures), name=name, argument=element.text)
            count(name)
    return manager


def _failing(run: PassFunction, failures: list[BaseException]) -> PassFunction:
    """Wraps a pass. If the pass raises an exception, appends it to `failures` and signals MLIR that the pass failed.

    MLIR can then print the IR.
    """

    def failing(op: ir.Operation, pass_: passmanager.ExternalPass) -> None:
        try:
            run(op, pass_)
        except BaseException as error:  # includes interrupts, which must not pass through native code
            ops = list(operations(op.regions[0].blocks[0]))
            # If the module has no graphs, an error without a location gets that of the module's first op.
            if isinstance(error, TiducError) and ops and all(each.name != "tidu.graph" for each in ops):
                error.at(ops[0].location)
            failures.append(error)
            pass_.signal_pass_failure()

    return failing


def _failed(error: ir.MLIRError) -> TiducError:
    """Converts an error of a native pass to a `TiducError`."""
    if error.error_diagnostics:
        return diagnosed(error)
    return TiducError("a pass of the pipeline failed; --mlir-print-ir-after-failure prints its IR")


def _normal(elements: list[Native | Configured]) -> str:
    """The text of the pipeline with named pipelines expanded, and with native passes as MLIR prints them."""
    inside = [
        str(PassManager.parse(f"builtin.module({element.text})")).removeprefix("builtin.module(")[:-1]
        if isinstance(element, Native)
        else element.text
        for element in elements
    ]
    return f"builtin.module({','.join(inside)})"


def is_native(name: str) -> bool:
    """Whether MLIR has a pass of this name."""
    try:
        PassManager.parse(f"builtin.module({name})")
    except ValueError as error:
        return _UNKNOWN not in str(error)
    return True


def scheduled(name: str, options: str = "") -> str:
    """The text of a pipeline that runs one native pass.

    If the pass can only run on an op such as `func.func`, the text nests the pass in a pipeline for this op.
    """
    text = f"{name}{{{options}}}" if options else name
    try:
        PassManager.parse(f"builtin.module({text})")
    except ValueError as error:
        if nested := _RESTRICTED.search(str(error)):
            return f"{nested[1]}({text})"
    return text


def _add_native(manager: passmanager.PassManager, text: str, passes: Mapping[str, Pass | Pipeline]) -> None:
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
        unknown = re.match(rf"'([\w-]+)' {_UNKNOWN}", message)
        if unknown and (close := get_close_matches(f"tidu-{unknown[1]}", passes, 1, 0.8)):
            message += f"; did you mean '{close[0]}'?"
        raise RequestError(message, f"pass-pipeline:{located[1]}") from None
