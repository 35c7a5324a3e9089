"""compile, run: compile programs, and run them on arrays."""

import functools
import math
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from tiduc.backends.backend import ENGINES, LAPACK, LOOPS, Options, Runnable, compile_program, find_backend
from tiduc.backends.iree.compile import Source, compile_modules, compile_source
from tiduc.backends.iree.targets import TARGETS
from tiduc.cli.diagnostics import about, report, waiting, warnings_reported
from tiduc.cli.files import ENTRY, FILE, PATH, read_input, write, write_binary, writes
from tiduc.cli.models import model_options
from tiduc.cli.rules import RULES, read_with
from tiduc.dialect.errors import InputError, RequestError, TiducError
from tiduc.models import parameters as lifted
from tiduc.passes.rules import OPSET
from tiduc.passes.rules.registry import OpSet
from tiduc.program import Program, from_module
from tiduc.runtime.arrays import Array, format_array, parse_inputs, restored, summary, write_npz
from tiduc.runtime.checks import check_arguments
from tiduc.runtime.process import Limits
from tiduc.runtime.run import Executable
from tiduc.runtime.signature import Signature, Value
from tiduc.runtime.weights import read_weights

SHOWN = 1000  # results with more elements are printed as a summary


def _targets(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Completions for shells: targets, or after a colon the variants of a target."""
    names = [name for name in TARGETS if ":" not in incomplete]
    names += [
        f"{name}:{variant}" for name, of in TARGETS.items() for variant in of.variants if ":" in incomplete
    ]
    return [name for name in names if name.startswith(incomplete)]


TARGET = click.option(
    "--target",
    default="cpu",
    shell_complete=_targets,
    show_default=True,
    metavar="TARGET",
    help=f"Target: {', '.join(TARGETS)}; cuda:sm_86 names an architecture; see 'tiduc targets'.",
)
FACTORIZING = click.option(
    "--lapack",
    type=click.Choice(LAPACK),
    default=LOOPS,
    show_default=True,
    help="How to factorize matrices: with loops, or with NumPy (CPUs only; tiduc.runtime must load the "
    "module).",
)
ENGINE = click.option(
    "--engine",
    type=click.Choice(ENGINES),
    default="iree",
    show_default=True,
    help="; ".join(f"{name}: {find_backend(name).description}" for name in ENGINES) + ".",
)
FAST = click.option(
    "--fast/--no-fast",
    default=True,
    show_default=True,
    help="Rewrite for speed, for IREE, ops that it computes correctly but slowly.",
)
INPUTS = click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="ARRAY",
    help="An argument, in order: 4xf32=1,2,3,4 or 1,2,3,4, @x.npy, @all.npz (all its arrays), "
    "@all.npz:name, @all.npz:x.* (* is any text), random, zeros. "
    "A single random or zeros stands for all arguments.",
)
WEIGHTS = click.option(
    "--weights",
    metavar="FILE",
    help="A file of arrays (.safetensors, .npz or .irpa) that supplies the inputs of the same names; --input "
    "supplies the others.",
)
PARAMETERS = click.option(
    "--parameters",
    metavar="FILE",
    type=PATH,
    help="An archive (.irpa or .safetensors) with the arrays of some inputs: the module reads them when it "
    "is loaded, instead of taking them as arguments.",
)
SEED = click.option(
    "--seed",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    metavar="INTEGER",
    help="Seed of random inputs.",
)


def arguments(texts: Sequence[str], inputs: Sequence[Value], seed: int) -> list[Array]:
    """The arrays that `--input` options give."""
    if len(texts) == 1 and texts[0] in ("random", "zeros"):
        texts = [texts[0]] * len(inputs)
    return parse_inputs(texts, inputs, seed)


def with_weights(
    weights: str | None, texts: Sequence[str], inputs: Sequence[Value], seed: int
) -> list[Array]:
    """The arrays of `--weights`, by input name, and those of `--input` for the other inputs, in order."""
    if weights is None:
        return arguments(texts, inputs, seed)
    arrays, expected = read_weights(weights), {value.name: value.type for value in inputs}
    if unknown := [name for name in arrays if name not in expected]:
        raise InputError(f"there is no input {unknown[0]!r}; there are: {', '.join(expected)}", weights)
    others = [value for value in inputs if value.name not in arrays]
    given = arguments(texts, others, seed)
    if len(given) != len(others):
        listed = ", ".join(map(str, others)) or "none"
        raise InputError(f"expected {len(others)} inputs beside the weights ({listed}), got {len(given)}")
    rest = iter(given)
    named = {name: restored(array, expected[name]) for name, array in arrays.items()}
    return [named[value.name] if value.name in named else next(rest) for value in inputs]


def compiling(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds limits of the compiler and the use of the cache to a command.

    The command gets these as `options`, together with its options `--target`, `--lapack` and `--fast`.
    """

    @click.option(
        "--compile-timeout",
        type=click.FloatRange(min=0),
        default=Limits.seconds,
        show_default=True,
        metavar="SECONDS",
        help="Time limit of the compiler for each program; 0 means no limit.",
    )
    @click.option(
        "--compile-memory",
        type=click.IntRange(min=0),
        metavar="MIB",
        help="Memory limit of the compiler for each program; 0 means no limit.  [default: half of the "
        "machine's memory]",
    )
    @click.option(
        "--cache/--no-cache",
        "cached",
        default=True,
        help="Read and write the cache of compiled modules; see 'tiduc cache'.",
    )
    @functools.wraps(command)
    def with_options(
        *, compile_timeout: float, compile_memory: int | None, cached: bool, **given: Any
    ) -> Any:
        if math.isnan(compile_timeout):
            raise click.BadParameter("nan is not a number of seconds", param_hint="--compile-timeout")
        memory = Limits.mebibytes if compile_memory is None else compile_memory
        chosen = {name: given.pop(name) for name in ("target", "lapack", "fast") if name in given}
        options = Options(limits=Limits(compile_timeout, memory), cached=cached, **chosen)
        with warnings_reported():
            return command(options=options, **given)

    return with_options


@click.command("compile")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=PATH)
@model_options
@ENTRY
@RULES
@TARGET
@FACTORIZING
@FAST
@PARAMETERS
@compiling
@writes("The file to write, or, for several FILEs, the folder for NAME.vmfb of each NAME.mlir.")
def _compile(
    files: tuple[str, ...],
    entry: str | None,
    opset: OpSet,
    parameters: str | None,
    options: Options,
    output: str,
) -> int:
    """Compile programs with IREE, into modules (.vmfb) that 'tiduc run' and IREE's runtime load.

    A module carries the names, shapes and element types of inputs and outputs. Several programs compile at once.
    """
    if len(files) > 1:
        if parameters is not None:
            raise RequestError("--parameters needs a single FILE: compile the files one by one")
        return _compile_all(_places(files, output), entry, opset, options)
    (file,) = files
    with about(file):
        program = _program(file, entry, opset)
        with waiting(f"compiling {file} for {options.target}"):
            weights = None if parameters is None else read_weights(parameters)
            vmfb = compile_source(_source(program, weights, options), options.limits, options.cached)
    write_binary(vmfb, output)
    return 0


def _program(file: str, entry: str | None, opset: OpSet, contents: bytes | None = None) -> Program:
    return from_module(read_with(opset, file, contents), entry, opset)


def _source(program: Program, weights: Mapping[str, Array] | None, options: Options) -> Source:
    how = options.target, options.lapack, options.fast
    return program.source(*how) if weights is None else lifted.source_with_parameters(program, weights, *how)


def _places(files: Sequence[str], output: str) -> dict[str, str]:
    """The file to write for each input file."""
    if output == "-":
        raise RequestError("several files: name a folder with -o")
    places = {file: os.path.join(output, f"{Path(file).stem}.vmfb") for file in files}
    if len(set(places.values())) < len(files):
        raise RequestError("two of the files have the same name: compile them separately")
    try:
        os.makedirs(output, exist_ok=True)
    except OSError as error:
        raise TiducError(f"cannot write: {error.strerror}", output) from None
    return places


def _compile_all(places: Mapping[str, str], entry: str | None, opset: OpSet, options: Options) -> int:
    """Compiles the files together, writes the modules that compile, reports the errors; gives the exit status."""
    sources: dict[str, Source] = {}
    failed = False

    def told(file: str, error: TiducError) -> None:
        with suppress(TiducError), about(file):  # `about` adds the file to the error
            raise error
        report(error)

    for file in places:
        try:
            with about(file):
                sources[file] = _source(_program(file, entry, opset), None, options)
        except TiducError as error:
            failed = True
            told(file, error)
    with waiting(f"compiling {len(sources)} files for {options.target}"):
        compiled = compile_modules(list(sources.values()), options.limits, options.cached)
    for file, vmfb in zip(sources, compiled, strict=True):
        if isinstance(vmfb, TiducError):
            failed = True
            told(file, vmfb)
        else:
            write_binary(vmfb, places[file])
    return int(failed)


@click.command("run")
@FILE
@ENTRY
@RULES
@TARGET
@FACTORIZING
@FAST
@INPUTS
@WEIGHTS
@PARAMETERS
@SEED
@ENGINE
@compiling
@click.option(
    "-o",
    "--output",
    default="-",
    metavar="OUT.npz",
    help="Write the results to this file instead of printing.",
)
def _run(
    file: str,
    entry: str | None,
    opset: OpSet,
    inputs: tuple[str, ...],
    weights: str | None,
    parameters: str | None,
    seed: int,
    engine: str,
    options: Options,
    output: str,
) -> None:
    """Run a program, or a module that 'tiduc compile' made, on arrays.

    Results are printed one a line, as --input reads them; of large ones only a summary.
    """
    with about(file):
        if engine == "iree":
            chosen = _by_iree(file, entry, opset, parameters, options)
        elif parameters is not None:
            raise RequestError("--parameters is for IREE: other engines take each input as an argument")
        else:
            program = _program(file, entry, opset)
            chosen = _Chosen(
                program.name,
                program.signature,
                lambda: compile_program(program.lower(), engine, options),
            )
    # A large program compiles for minutes, so wrong arguments are reported before.
    arrays = with_weights(weights, inputs, chosen.signature.inputs, seed)
    check_arguments(chosen.entry, chosen.signature, arrays)
    with about(file), waiting(f"compiling {file} for {options.target}"):
        executable = chosen.executable()
    results = executable(*arrays)
    named = dict(zip([value.name for value in executable.signature.outputs], results, strict=True))
    if output == "-":
        write("".join(f"{name}: {_shown(array)}\n" for name, array in named.items()))
    else:
        write_npz(output, named)


@dataclass(frozen=True)
class _Chosen:
    """The function to run, its signature, and how to get its executable."""

    entry: str
    signature: Signature
    executable: Callable[[], Runnable]


def _by_iree(file: str, entry: str | None, opset: OpSet, parameters: str | None, options: Options) -> _Chosen:
    contents = read_input(file)
    # IREE writes a flatbuffer, mostly inside a zip archive.
    if contents.startswith(b"PK\x03\x04") or contents[4:8] == b"IREE":
        if options.lapack != LOOPS:
            raise RequestError(
                "--lapack is for programs only: a compiled module already contains this choice"
            )
        if not options.fast:
            raise RequestError("--no-fast is for programs: a module has been compiled already")
        if opset is not OPSET:
            raise RequestError("--rules is for programs only: a compiled module has no custom ops left")
        loaded = Executable(contents, options.target, entry, "<stdin>" if file == "-" else file, parameters)
        return _Chosen(loaded.entry, loaded.signature, lambda: loaded)
    program = _program(file, entry, opset, contents)
    weights = None if parameters is None else read_weights(parameters)

    def compiled() -> Executable:
        vmfb = compile_source(_source(program, weights, options), options.limits, options.cached)
        return Executable(vmfb, options.target, program.name, parameters=parameters)

    signature = program.signature if weights is None else lifted.signature_with_parameters(program, weights)
    return _Chosen(program.name, signature, compiled)


def _shown(array: Array) -> str:
    return format_array(array) if array.size <= SHOWN else summary(array)


COMMANDS = {"compile": _compile, "run": _run}
