"""compile: compiles programs. Also has the options that compile, run and check share."""

import functools
import math
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import click

from tiduc.backends.backend import ENGINES, LAPACK, LOOPS, Lowered, Options, find_backend
from tiduc.backends.iree.build import build_all
from tiduc.backends.iree.pipeline import PIPELINE
from tiduc.backends.iree.targets import TARGETS
from tiduc.cli.derivatives import MEMORY
from tiduc.cli.diagnostics import about, report, waiting, warnings_reported
from tiduc.cli.files import (
    ENTRY,
    PATH,
    write,
    write_binary,
    writes,
)
from tiduc.cli.intermediates import dumped, observing_options, stopped
from tiduc.cli.libraries import EMIT, FINITE, MODULE, compiled_files, write_files
from tiduc.cli.models import model_options
from tiduc.cli.options import shared_options
from tiduc.cli.random_seeds import remark_on_seeds
from tiduc.cli.rules import RULES, read_with
from tiduc.cli.watching import watched
from tiduc.dialect.errors import InputError, RequestError, TiducError
from tiduc.models.parameters import parameters_of
from tiduc.passes.rules.registry import OpSet
from tiduc.program import Program, from_module
from tiduc.runtime.array_files import restored
from tiduc.runtime.arrays import Array, is_named, parse_inputs
from tiduc.runtime.files import written_together
from tiduc.runtime.process import Limits
from tiduc.runtime.random_seed import is_random_seed
from tiduc.runtime.signature import SignatureValue
from tiduc.runtime.weights import read_weights

R = TypeVar("R")
T = TypeVar("T")


def _targets(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Returns completions for shells: targets or, after a colon, the variants of a target."""
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
    help="Rewrite ops that IREE computes correctly but slowly.",
)
VERBOSE = click.option(
    "--verbose",
    is_flag=True,
    help="Print to standard error which attempt to compile with IREE succeeded, and why the attempts before it failed. "
    "With --no-cache, the compiler runs even if the cache has the module.",
)
INPUTS = click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="ARRAY",
    help="An argument, in order or as NAME=ARRAY: 4xf32=1,2,3,4 or 1,2,3,4, @x.npy, @all.npz (all its arrays), "
    "@all.npz:name (for the input of this name, if there is one), @all.npz:x.* (* is any text), random, zeros. "
    "A single random or zeros stands for all arguments that are not named.",
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


def arguments(
    texts: Sequence[str], inputs: Sequence[SignatureValue], seed: int, mapped: bool = False
) -> list[Array]:
    """Returns the arrays that `--input` options give. With `mapped`, `.npy` files are mapped into memory."""
    filling = [text for text in texts if text in ("random", "zeros")]
    named = sum(is_named(text, inputs) for text in texts)
    if len(filling) == 1 and named == len(texts) - 1:
        texts = [*texts, *filling * (len(inputs) - len(texts))]
    return parse_inputs(texts, inputs, seed, mapped)


def with_weights(
    weights: str | None,
    texts: Sequence[str],
    inputs: Sequence[SignatureValue],
    seed: int,
    seeds: Callable[[], Mapping[str, Array]],
) -> list[Array]:
    """Returns an argument for each input. It is the array with the input's name in the file `weights`, if there is one.

    The other arguments are the arrays of `--input`, in order. If `--input` gives all inputs except random seeds,
    `seeds` supplies the seeds.
    """
    arrays = {} if weights is None else read_weights(weights)
    return with_named(
        arrays, weights, restored_as, inputs, lambda others: with_seeds(texts, others, seed, seeds)
    )


def restored_as(array: Array, value: SignatureValue) -> Array:
    """Returns an array of a file as the argument of an input. The file may lack the element type (bf16)."""
    return restored(array, value.type)


def with_named(
    named: Mapping[str, T],
    file: str | None,
    typed: Callable[[T, SignatureValue], T],
    inputs: Sequence[SignatureValue],
    others: Callable[[Sequence[SignatureValue]], Sequence[Array]],
) -> list[T | Array]:
    """Returns an argument for each input: `named` has those of `file`, as `typed` gives them, and `others` the others.

    Raises `InputError` for a name that is no input, and for a wrong number of other arguments.
    """
    names = [value.name for value in inputs]
    if unknown := [name for name in named if name not in names]:
        raise InputError(f"there is no input {unknown[0]!r}; the inputs are: {', '.join(names)}", file)
    left = [value for value in inputs if value.name not in named]
    given = others(left)
    if file is None:
        return [*given]
    if len(given) != len(left):
        listed = ", ".join(map(str, left)) or "none"
        raise InputError(
            f"expected {len(left)} inputs in addition to the weights ({listed}), got {len(given)}"
        )
    rest = iter(given)
    return [typed(named[value.name], value) if value.name in named else next(rest) for value in inputs]


def with_seeds(
    texts: Sequence[str],
    inputs: Sequence[SignatureValue],
    seed: int,
    seeds: Callable[[], Mapping[str, Array]],
    mapped: bool = False,
) -> list[Array]:
    """Returns the arrays for the inputs.

    If `texts` gives all inputs except random seeds, `seeds` supplies the seeds.
    """
    plain = [value for value in inputs if not is_random_seed(value)]
    given = None if len(plain) == len(inputs) else _but_seeds(texts, plain, seed, mapped)
    if given is None:
        return arguments(texts, inputs, seed, mapped)
    rest, drawn = iter(given), seeds()
    return [drawn[value.name] if is_random_seed(value) else next(rest) for value in inputs]


def _but_seeds(
    texts: Sequence[str], plain: Sequence[SignatureValue], seed: int, mapped: bool
) -> list[Array] | None:
    """Returns the arrays of all inputs except seeds. Returns None unless `texts` gives exactly these inputs."""
    try:
        given = arguments(texts, plain, seed, mapped)
    # Raised, for example, if a text also gives the seed, so that there is one array too many.
    except InputError:
        return None
    return given if len(given) == len(plain) else None


def compiling(command: Callable[..., R]) -> Callable[..., R]:
    """Adds options for the limits of the compiler and for the cache to a command.

    The command receives their values as one argument `options`, together with the values of its options `--target`,
    `--lapack`, `--fast` and `--assume-finite`.
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
        help="Read and write the cache of compiled modules and of imported models; see 'tiduc cache'.",
    )
    @functools.wraps(command)
    def with_options(*, compile_timeout: float, compile_memory: int | None, cached: bool, **given: Any) -> R:
        if math.isnan(compile_timeout):
            raise click.BadParameter("nan is not a number of seconds", param_hint="--compile-timeout")
        memory = Limits.mebibytes if compile_memory is None else compile_memory
        chosen = {name: given.pop(name) for name in ("target", "lapack", "fast", "finite") if name in given}
        options = Options(limits=Limits(compile_timeout, memory), cached=cached, **chosen)
        shared_options().imports.cached = cached
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
@MEMORY
@PARAMETERS
@EMIT
@FINITE
@compiling
@observing_options
@VERBOSE
@watched(iree_passes=list(dict.fromkeys(entry.name for entry in PIPELINE)))
@writes("The file to write, or, for several FILEs, the folder for NAME.vmfb of each NAME.mlir.")
def _compile(
    files: tuple[str, ...],
    entry: str | None,
    opset: OpSet,
    memory: str,
    parameters: str | None,
    options: Options,
    stop_after: str | None,
    iree_flags: tuple[str, ...],
    folder: str | None,
    verbose: bool,
    kind: str,
    output: str,
) -> int:
    """Compile programs with IREE, into modules (.vmfb) that 'tiduc run' and IREE's runtime load.

    A module contains the names, shapes and element types of its inputs and outputs. Several FILEs compile in parallel.
    """
    if len(files) > 1:
        for flag, value in (
            ("--parameters", parameters),
            ("--stop-after", stop_after),
            ("--dump-intermediates", folder),
            (f"--emit {kind}", kind if kind != MODULE else None),
            ("--verbose", verbose or None),
        ):
            if value is not None:
                raise RequestError(f"{flag} needs a single FILE: compile the files one by one")
        return _compile_all(_places(files, output), entry, opset, memory, options, iree_flags)
    (file,) = files
    weights = None if parameters is None else read_weights(parameters)
    with about(file), dumped(folder), waiting(f"compiling {file} for {options.target}"):
        program = program_in(file, entry, opset).rematerialize(memory)
        remark_on_seeds(file, program)

        if verbose and stop_after is not None:
            raise RequestError("--verbose needs a complete compilation: leave out --stop-after")
        names = [] if weights is None else parameters_of(program, weights)
        if stop_after is not None:
            write(stopped(program, stop_after, options, iree_flags, names), output)
            return 0
        tell = functools.partial(click.echo, err=True) if verbose else None
        made = compiled_files(program, kind, output, options, iree_flags, names, folder=folder, tell=tell)
    with written_together():
        write_files(made)
    return 0


def program_in(file: str, entry: str | None, opset: OpSet, contents: bytes | None = None) -> Program:
    return from_module(read_with(opset, file, contents), entry, opset)


def _places(files: Sequence[str], output: str) -> dict[str, str]:
    """Maps each input file to the file to write."""
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


def _compile_all(
    places: Mapping[str, str],
    entry: str | None,
    opset: OpSet,
    memory: str,
    options: Options,
    iree_flags: Sequence[str],
) -> int:
    """Compiles the files together, writes the modules of those that compile, and reports errors.

    Returns the exit status.
    """
    programs: dict[str, Lowered] = {}
    failed = False

    def told(file: str, error: TiducError) -> None:
        with suppress(TiducError), about(file):  # `about` adds the file to the error
            raise error
        report(error)

    for file in places:
        try:
            with about(file):
                program = program_in(file, entry, opset).rematerialize(memory)
                remark_on_seeds(file, program)
                programs[file] = program.lower()
        except TiducError as error:
            failed = True
            told(file, error)
    with waiting(f"compiling {len(programs)} files for {options.target}"):
        compiled = build_all([*programs.values()], options, iree_flags)
    for file, vmfb in zip(programs, compiled, strict=True):
        if isinstance(vmfb, TiducError):
            failed = True
            told(file, vmfb)
        else:
            write_binary(vmfb, places[file])
    return int(failed)


COMMANDS = {"compile": _compile}
