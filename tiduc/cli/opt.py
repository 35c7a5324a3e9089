"""opt: runs passes on a module, with the options of mlir-opt."""

import functools
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace

import click
from torch_mlir import ir

from tiduc.cli.diagnostics import about, report
from tiduc.cli.expected import disagreement
from tiduc.cli.files import OUTPUT, PATH, read_input, write, write_binary
from tiduc.cli.models import model_options
from tiduc.cli.observing import observed
from tiduc.cli.pass_flags import PassFlags, chosen_pipeline
from tiduc.cli.rules import RULES, read_with
from tiduc.cli.user_modules import named_value, raised_at
from tiduc.dialect.errors import InvalidIR, RequestError, RuleError, TiducError
from tiduc.dialect.mlir.context import EVERY_DIALECT, available_dialects, parse, stage
from tiduc.dialect.mlir.emit import bytecode, emit, text
from tiduc.documents import list_of_passes
from tiduc.opt import Observe, Pass, run_pipeline
from tiduc.opt.observe import pipeline_of
from tiduc.passes.rules.registry import OpSet

SPLIT = re.compile(r"^// -----\n", re.MULTILINE)


def _utf8(context: click.Context, parameter: click.Parameter, value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise click.BadParameter("not UTF-8 text", context, parameter) from None
    return value


def _loaded(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> dict[str, Pass]:
    """Returns the passes of the modules that `--load-passes` names, by name."""
    passes: dict[str, Pass] = {}
    for where in value:
        module, listed, name = named_value(where, "PASSES")
        if not isinstance(listed, list | tuple) or not all(isinstance(each, Pass) for each in listed):
            raise RequestError(f"{module} has no list {name} of tiduc.opt.Pass")
        passes |= {each.name: replace(each, function=_guarded(each)) for each in listed}
    return passes


def _guarded(pass_: Pass) -> Callable[..., object]:
    """Wraps the function of a user's pass.

    Its exceptions become `RuleError`s, located where the user's code raises them.
    """

    @functools.wraps(pass_.function)
    def function(*arguments: object, **options: object) -> object:
        try:
            return pass_.function(*arguments, **options)
        except (TiducError, MemoryError):
            raise
        except Exception as error:
            message = f"pass '{pass_.name}' raised {type(error).__name__}: {error}"
            raise RuleError(message, raised_at(error)) from error

    return function


def _printing(write_it: Callable[[], str]) -> Callable[[click.Context, click.Parameter, bool], None]:
    """Returns the callback of a flag that prints a list instead of running the command."""

    def callback(context: click.Context, parameter: click.Parameter, value: bool) -> None:
        if value:
            write(write_it())
            context.exit()

    return callback


def _dialects() -> str:
    return f"Available Dialects: {', '.join(available_dialects())}\n"


@dataclass(frozen=True)
class _Request:
    """The pipeline to run on each module, the checks to make, and the form of the output."""

    pipeline: str
    observe: Observe
    opset: OpSet
    passes: dict[str, Pass]
    dialects: Collection[str]
    as_bytecode: bool
    verify_roundtrip: bool

    def result(self, module: ir.Module) -> bytes:
        """Runs the pipeline on a module and returns the output."""
        if self.verify_roundtrip:
            _check_roundtrip(module, self.dialects)
        run_pipeline(module, self.pipeline, self.observe, self.opset, self.passes)
        if self.as_bytecode:
            return emit(module, "bytecode")
        if self.observe.printing == Observe.printing:
            return emit(module)
        printed = str(module.operation.get_asm(**self.observe.printing.options))
        return (printed.rstrip("\n") + "\n").encode("utf-8", "surrogateescape")


@click.command("opt", cls=PassFlags)
@click.argument("file", metavar="[FILE]", default="-", type=PATH)
@model_options
@click.option(
    "--pass-pipeline",
    default="",
    metavar="PASSES",
    callback=_utf8,
    help="The pass pipeline, in MLIR's syntax: 'tidu-import,tidu-linearize{wrt=x name=L0},func.func(cse)'.",
)
@click.option(
    "--load-passes",
    "passes",
    multiple=True,
    metavar="MODULE",
    callback=_loaded,
    help="Python module or file whose list PASSES holds passes of your own (tiduc.opt.Pass). Repeatable.",
)
@RULES
@OUTPUT
@click.option("--emit-bytecode", "as_bytecode", is_flag=True, help="Write MLIR bytecode.")
@click.option(
    "--split-input-file", is_flag=True, help="Split the input at lines '// -----' into separate modules."
)
@click.option(
    "--verify-diagnostics",
    is_flag=True,
    help="Expect exactly the errors that comments announce: // expected-error @+1 {{unknown graph}}; in "
    "expected-error-re, inner {{...}} are regular expressions.",
)
@click.option(
    "--verify-roundtrip", is_flag=True, help="Check that the module's text and bytecode read back as equal."
)
@click.option(
    "--allow-unregistered-dialect", is_flag=True, help="Accept ops of dialects that are not loaded."
)
@click.option("--run-reproducer", is_flag=True, help="Run the pipeline that a reproducer FILE contains.")
@click.option(
    "--list-passes",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_printing(list_of_passes),
    help="List the passes of tiduc and of MLIR, and exit.",
)
@click.option(
    "--show-dialects",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_printing(_dialects),
    help="List the dialects, and exit.",
)
@observed
@stage
def _opt(
    file: str,
    pass_pipeline: str,
    passes: dict[str, Pass],
    opset: OpSet,
    observe: Observe,
    output: str,
    as_bytecode: bool,
    split_input_file: bool,
    verify_diagnostics: bool,
    verify_roundtrip: bool,
    allow_unregistered_dialect: bool,
    run_reproducer: bool,
) -> int:
    """Run passes on a module and print it, as mlir-opt does.

    Passes of tiduc (see 'tiduc passes') and of MLIR and StableHLO (canonicalize, cse, inline, symbol-dce,
    stablehlo-..., chlo-..., func.func(...)) can be combined in any order. Without a pass, the module is read and
    verified. Each pass is also a flag: --tidu-linearize='wrt=x' --cse.
    """
    dialects = EVERY_DIALECT if allow_unregistered_dialect else opset.dialects
    pipeline = chosen_pipeline(pass_pipeline)
    request = _Request(pipeline, observe, opset, passes, dialects, as_bytecode, verify_roundtrip)
    if not (split_input_file or verify_diagnostics or run_reproducer):
        with about(file):
            result = request.result(read_with(opset, file, dialects=dialects))
        (write_binary if as_bytecode else write)(result, output)
        return 0
    contents = read_input(file)
    if run_reproducer:
        pipeline, verify_each = pipeline_of(contents, "<stdin>" if file == "-" else file)
        request = replace(request, pipeline=pipeline, observe=replace(observe, verify_each=verify_each))
    written = contents.decode("utf-8", "surrogateescape")
    parts = list(_parts(written)) if split_input_file else [written]
    results, failed = _each(parts, file, request, verify_diagnostics)
    if not verify_diagnostics:
        (write_binary if as_bytecode else write)(b"// -----\n".join(results), output)
    return int(failed)


def _each(
    parts: list[str], file: str, request: _Request, verify_diagnostics: bool
) -> tuple[list[bytes], bool]:
    """Runs the pipeline on each part of a file and reports errors.

    Returns the outputs and whether a part has failed.
    """
    results, failed = [], False
    for part in parts:
        error: TiducError | None = None
        try:
            with about(file):
                module = parse(part.encode("utf-8", "surrogateescape"), dialects=request.dialects)
                results.append(request.result(module))
        except TiducError as raised:
            error = raised
        if verify_diagnostics:
            error = disagreement(part, error, file)
        if error is not None:
            report(error)
            failed = True
    return results, failed


def _parts(contents: str) -> Iterator[str]:
    """Yields the parts of a split file.

    Each part begins with empty lines, so that its line numbers are those of the file.
    """
    line = 0
    for part in SPLIT.split(contents):
        yield "\n" * line + part
        line += part.count("\n") + 1


def _check_roundtrip(module: ir.Module, dialects: Collection[str]) -> None:
    """Raises `InvalidIR` if the module's text or bytecode is read back as a different module."""
    before = text(module)
    for kind, written in (("text", before), ("bytecode", bytecode(module))):
        if text(parse(written, dialects=dialects)) != before:
            raise InvalidIR(f"the module differs after its {kind} is read back", module.operation.location)


COMMANDS = {"opt": _opt}
