"""The options of MLIR's tools that print IR, times and statistics while passes run."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import click

from tiduc.cli.watching import TIMING
from tiduc.opt.observe import Observe, Printing

R = TypeVar("R")

_PRINTED = (
    click.option(
        "--mlir-print-ir-before-all", "before_all", is_flag=True, help="Print the IR before each pass."
    ),
    click.option(
        "--mlir-print-ir-after-all", "after_all", is_flag=True, help="Print the IR after each pass."
    ),
    click.option(
        "--mlir-print-ir-before",
        "before",
        multiple=True,
        metavar="PASS",
        help="Print the IR before this pass. Repeatable.",
    ),
    click.option(
        "--mlir-print-ir-after",
        "after",
        multiple=True,
        metavar="PASS",
        help="Print the IR after this pass. Repeatable.",
    ),
    click.option(
        "--mlir-print-ir-after-change",
        "after_change",
        is_flag=True,
        help="Print the IR after each pass that changes it.",
    ),
    click.option(
        "--mlir-print-ir-after-failure",
        "after_failure",
        is_flag=True,
        help="Print the IR after a pass that fails.",
    ),
    click.option(
        "--mlir-print-ir-module-scope",
        "module_scope",
        is_flag=True,
        help="Print the whole module, for passes on functions too.",
    ),
    click.option(
        "--mlir-print-ir-tree-dir",
        "tree_dir",
        metavar="DIR",
        type=click.Path(),
        help="Write the IR to files in this directory instead: after each pass, unless other options select passes.",
    ),
    click.option(
        "--mlir-pass-statistics",
        "statistics",
        is_flag=True,
        help="Print the number of ops before and after each pass.",
    ),
    click.option(
        "--mlir-pass-pipeline-crash-reproducer",
        "reproducer",
        metavar="FILE",
        type=click.Path(),
        help="If the pipeline fails or crashes, write a file that --run-reproducer runs.",
    ),
    click.option("--dump-pass-pipeline", "dump_pipeline", is_flag=True, help="Print the pipeline that runs."),
    click.option("--verify-each/--no-verify-each", default=True, help="Verify the module after each pass."),
)
_FORM = (
    click.option("--mlir-print-op-generic", "generic", is_flag=True, help="Print ops in generic form."),
    click.option("--mlir-print-debuginfo", "debuginfo", is_flag=True, help="Print locations."),
    click.option(
        "--mlir-elide-elementsattrs-if-larger",
        "elide_if_larger",
        type=click.IntRange(0),
        metavar="N",
        help="Print '...' for constants of more than N elements; such text cannot be read back.",
    ),
)


def observed(command: Callable[..., R]) -> Callable[..., R]:
    """Adds the options of this file to a command. The command receives their values as `observe`.

    IR and reports are printed to standard error.
    """

    @functools.wraps(command)
    def with_options(*, generic: bool, debuginfo: bool, elide_if_larger: int | None, **given: Any) -> R:
        names = Observe.__dataclass_fields__.keys() - {"printing"}
        chosen = {name: given.pop(name) for name in names}
        printing = Printing(generic, debuginfo, elide_if_larger)
        return command(observe=Observe(printing=printing, **chosen), **given)

    function: Callable[..., R] = with_options
    for option in reversed((*_PRINTED, TIMING, *_FORM)):
        function = option(function)
    return function
