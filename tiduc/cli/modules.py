"""opt, link: transform a module, or make one of several."""

import re
from collections.abc import Iterator

import click

from tiduc.cli.diagnostics import about, report
from tiduc.cli.expected import disagreement
from tiduc.cli.files import FILE, OUTPUT, PATH, read_input, read_module, write
from tiduc.cli.rules import RULES, read_with
from tiduc.dialect.context import parse, stage
from tiduc.dialect.emit import emit
from tiduc.dialect.errors import TiducError
from tiduc.opt import run_pipeline
from tiduc.passes.driver.driver import Observe
from tiduc.passes.link import link
from tiduc.passes.rules.registry import OpSet

SPLIT = re.compile(r"^// -----\n", re.MULTILINE)


def _utf8(context: click.Context, parameter: click.Parameter, value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise click.BadParameter("not UTF-8 text", context, parameter) from None
    return value


@click.command("opt")
@FILE
@click.option(
    "--pass-pipeline",
    default="",
    metavar="PASSES",
    callback=_utf8,
    help="The pass pipeline, in MLIR's syntax: 'tidu-import,tidu-linearize{wrt=x name=L0},func.func(cse)'.",
)
@RULES
@OUTPUT
@click.option("--verify-each/--no-verify-each", default=True, help="Verify the module after each pass.")
@click.option(
    "--split-input-file", is_flag=True, help="Split the input at lines '// -----' into separate modules."
)
@click.option(
    "--verify-diagnostics",
    is_flag=True,
    help="Expect exactly the errors that comments announce: // expected-error @+1 {{unknown graph}}",
)
@click.option("--mlir-print-ir-after-all", is_flag=True, help="Print the IR to stderr after each pass.")
@click.option(
    "--mlir-timing", "--timing", "timing", is_flag=True, help="Print the time of each pass to standard error."
)
@stage
def _opt(
    file: str,
    pass_pipeline: str,
    opset: OpSet,
    output: str,
    verify_each: bool,
    split_input_file: bool,
    verify_diagnostics: bool,
    mlir_print_ir_after_all: bool,
    timing: bool,
) -> int:
    """Run passes on a module and print it, as mlir-opt does.

    Passes of tiduc (see 'tiduc passes') and of MLIR and StableHLO (canonicalize, cse, inline, symbol-dce,
    stablehlo-..., chlo-..., func.func(...)) mix in any order. Without any, the module is read and verified.
    """
    observe = Observe(mlir_print_ir_after_all, verify_each, timing)
    if not (split_input_file or verify_diagnostics):
        with about(file):
            module = read_with(opset, file)
            run_pipeline(module, pass_pipeline, observe, opset)
        write(emit(module), output)
        return 0
    contents = read_input(file).decode("utf-8", "surrogateescape")
    results, failed = [], False
    for part in _parts(contents) if split_input_file else [contents]:
        error: TiducError | None = None
        try:
            with about(file):
                module = parse(part.encode("utf-8", "surrogateescape"), dialects=opset.dialects)
                run_pipeline(module, pass_pipeline, observe, opset)
            results.append(emit(module))
        except TiducError as raised:
            error = raised
        if verify_diagnostics:
            error = disagreement(part, error, file)
        if error is not None:
            report(error)
            failed = True
    if not verify_diagnostics:
        write(b"// -----\n".join(results), output)
    return int(failed)


def _parts(contents: str) -> Iterator[str]:
    """The parts of a file, each after as many empty lines as precede it in the file, so that locations are right."""
    line = 0
    for part in SPLIT.split(contents):
        yield "\n" * line + part
        line += part.count("\n") + 1


@click.command("link")
@click.argument("files", metavar="FILES...", nargs=-1, required=True, type=PATH)
@click.option(
    "--search-path",
    multiple=True,
    metavar="DIR",
    type=click.Path(),
    help="Directory to search for NAME.mlir, for a graph or function @NAME that no file defines. Repeatable.",
)
@OUTPUT
@stage
def _link(files: tuple[str, ...], search_path: tuple[str, ...], output: str) -> None:
    """Make one module of several files, so that references between their graphs, and calls, can be followed.

    All references are checked: each leads to one value, of its type, and none in a circle.
    """
    write(emit(link([(file, read_module(file)) for file in files], search_path)), output)


COMMANDS = {"opt": _opt, "link": _link}
