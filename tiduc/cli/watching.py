"""Options of the commands other than `tiduc opt` that print the IR after stages, and the time of each stage.

`tiduc opt` has such options for passes, which MLIR's pass manager runs; see `observing.py`.
"""

import functools
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import TypeVar

import click
from torch_mlir import ir

from tiduc.dialect import progress
from tiduc.dialect.control.control import called
from tiduc.dialect.graph.graph import Graph
from tiduc.dialect.graph.view import View
from tiduc.dialect.graph.write import write_graph
from tiduc.pipeline import STAGES

TIMING = click.option(
    "--mlir-timing", "--timing", "timing", is_flag=True, help="Print the time of each pass to standard error."
)

R = TypeVar("R")

PACKAGES = "import packages"
"""The row in the report of times for the time between the start of the command line and the start of its command."""

RULE = "===" + "-" * 73 + "==="

Module = Callable[[Sequence[object], object], object]
"""A function that returns the `ir.Module`, or its operation, after a stage.

It takes the arguments and the result of the stage.
"""


def _flat(arguments: Sequence[object], graph: object) -> ir.Module:
    """Returns a module with a flat graph and the graphs that it calls. `arguments[0]` is the view of these graphs."""
    module, view = ir.Module.create(), arguments[0]
    assert isinstance(view, View) and isinstance(graph, Graph)
    for each in (graph, *called(view, graph)):
        write_graph(each, module)
    return module


def _of_view(arguments: Sequence[object], result: object) -> ir.Module:
    view = arguments[0]
    assert isinstance(view, View)
    module: ir.Module = view.module
    return module


_MODULES: dict[str, Module] = {
    "import": lambda _, module: module,
    "linearize": _of_view,
    "linear_transpose": _of_view,
    "batch": _of_view,
    "materialize_merge": _flat,
    "structure": _flat,
    "lower": lambda _, module: module,
}
_NAMES = {stage.function.__name__: stage.name for stage in STAGES if stage.name in _MODULES}
_IREE = "iree-"
"""The prefix of the names of the passes for IREE. The first argument of such a pass is the module."""


class Watch:
    """Prints the IR after stages, and measures the time of each stage without the stages that it calls."""

    def __init__(self, shows: Callable[[str, str], None] | None, started: float | None = None) -> None:
        """`shows` is called with the name of each stage that has IR, and with the IR.

        `started` is the value of `time.perf_counter` at the start of the command line, if it is known.
        """
        self._shows = shows
        self._thread = threading.get_ident()
        self._stack: list[str] = []
        self._last = time.perf_counter()
        self._begin = self._last if started is None else started
        self._seconds = {} if started is None else {PACKAGES: self._last - started}

    def entered(self, stage: str) -> None:
        if threading.get_ident() == self._thread:
            self._pass_time()
            self._stack.append(_NAMES.get(stage, stage))

    def left(self, stage: str, arguments: Sequence[object], result: object) -> None:
        if threading.get_ident() != self._thread:
            return
        self._pass_time()
        name = self._stack.pop()
        if self._shows is None:
            return
        # Loops and calls run stages on their bodies, inside a stage on the whole program. Only the latter is shown.
        if name in _MODULES and result is not None and not _MODULES.keys() & set(self._stack):
            self._shows(name, str(_MODULES[name](arguments, result)))
        elif name.startswith(_IREE):
            self._shows(name, str(arguments[0]))
        self._last = time.perf_counter()  # no stage includes the time of printing

    def _pass_time(self) -> None:
        now = time.perf_counter()
        if self._stack:
            self._seconds[self._stack[-1]] = self._seconds.get(self._stack[-1], 0.0) + now - self._last
        self._last = now

    def report(self) -> str:
        """Returns the times in the form of MLIR's report."""
        total = time.perf_counter() - self._begin
        times = {**self._seconds, "Rest": total - sum(self._seconds.values()), "Total": total}
        title = "... Execution time report ...".center(79).rstrip()
        lines = [RULE, title, RULE, f"  Total Execution Time: {total:.4f} seconds", ""]
        lines.append("  ----Wall Time----  ----Name----")
        lines += [f"  {s:>8.4f} ({s / total:>6.1%})  {name}" for name, s in times.items()]
        return "\n".join([*lines, ""])


def print_dump(name: str, text: str) -> None:
    """Prints IR to standard error, under the heading that MLIR's tools print."""
    print(f"// -----// IR Dump After {name} //----- //\n{text}\n", file=sys.stderr)


def watched(iree_passes: Sequence[str] = ()) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Returns a decorator that adds the options of this file to a command, and watches the stages of the command.

    IR and times are printed to standard error. `iree_passes` are the names of the passes for IREE, if the command runs
    such passes.
    """
    return functools.partial(_watched, [*_MODULES, *iree_passes])


def _watched(names: Sequence[str], command: Callable[..., R]) -> Callable[..., R]:
    @click.option(
        "--mlir-print-ir-after-all", "after_all", is_flag=True, help="Print the IR after each stage."
    )
    @click.option(
        "--mlir-print-ir-after",
        "after",
        multiple=True,
        type=click.Choice(names),
        metavar="STAGE",
        help="Print the IR after this stage, such as linearize. Repeatable.",
    )
    @TIMING
    @functools.wraps(command)
    def with_options(*, after_all: bool, after: tuple[str, ...], timing: bool, **given: object) -> R:
        def shows(name: str, text: str) -> None:
            if after_all or name in after:
                print_dump(name, text)

        watch = Watch(shows if after_all or after else None, progress.started())
        with progress.watched(watch) if timing or after_all or after else nullcontext():
            result = command(**given)
        if timing:
            print(watch.report(), file=sys.stderr, end="")
        return result

    return with_options
