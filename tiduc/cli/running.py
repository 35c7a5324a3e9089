"""run: runs programs and compiled modules on arrays."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial

import click

from tiduc.backends.backend import LOOPS, Options, Runnable, compile_program
from tiduc.backends.iree.build import build
from tiduc.backends.iree.memory_check import check_memory
from tiduc.cli.derivatives import MEMORY
from tiduc.cli.diagnostics import about, waiting
from tiduc.cli.execution import (
    ENGINE,
    FACTORIZING,
    FAST,
    INPUTS,
    PARAMETERS,
    TARGET,
    WEIGHTS,
    compiling,
    program_in,
    with_weights,
)
from tiduc.cli.files import ENTRY, FILE, JSON, read_input
from tiduc.cli.models import is_model
from tiduc.cli.processes import PROCESSES, OnProcesses, run_on_processes
from tiduc.cli.random_seeds import SEED, seeds_of
from tiduc.cli.results import write_results
from tiduc.cli.rules import RULES
from tiduc.dialect.errors import RequestError
from tiduc.distributed.checkpoints import SUFFIX
from tiduc.models.parameters import parameters_of, signature_with_parameters
from tiduc.passes.rules import OPSET
from tiduc.passes.rules.registry import OpSet
from tiduc.runtime.arrays import Array
from tiduc.runtime.checks import check_arguments
from tiduc.runtime.run import Executable
from tiduc.runtime.signature import Signature
from tiduc.runtime.weights import read_weights


@click.command("run")
@FILE
@ENTRY
@RULES
@TARGET
@FACTORIZING
@FAST
@MEMORY
@INPUTS
@WEIGHTS
@PARAMETERS
@SEED
@ENGINE
@PROCESSES
@compiling
@JSON
@click.option(
    "--check-memory",
    "checked",
    is_flag=True,
    help="Check where arrays lie in memory (CPUs only): run the program in memory that holds a pattern, and compare "
    "the results, bit for bit, with those of a program whose arrays IREE places.",
)
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
    memory: str,
    inputs: tuple[str, ...],
    weights: str | None,
    parameters: str | None,
    seed: int | None,
    engine: str,
    processes: int | None,
    options: Options,
    as_data: bool,
    checked: bool,
    output: str,
) -> int:
    """Run a program, or a module that 'tiduc compile' wrote, on arrays.

    Results are printed one per line, in the form that --input reads. For a large result, only a summary is printed.
    """
    if processes is not None:
        if engine != "xla" or checked or parameters is not None or memory:
            raise RequestError(
                "--processes needs --engine xla, without --memory, --parameters and --check-memory"
            )
        asked = OnProcesses(file, entry, opset, options, inputs, weights, seed, as_data, output)
        return run_on_processes(asked, processes)
    _refuse_saved_states(output, weights or "")
    with about(file):
        if checked and (engine != "iree" or parameters is not None):
            raise RequestError("--check-memory is for programs that IREE runs, with all inputs as arguments")
        if engine == "iree":
            chosen = _by_iree(file, entry, opset, memory, parameters, options)
        elif parameters is not None:
            raise RequestError(
                "--parameters needs the engine iree: other engines take each input as an argument"
            )
        else:
            program = program_in(file, entry, opset).rematerialize(memory)
            chosen = _Chosen(
                program.name,
                program.signature,
                lambda: compile_program(program.lower(), engine, options),
            )
    # A large program compiles for minutes, so wrong arguments are reported first.
    seeds = partial(seeds_of, file, chosen.signature, seed)
    arrays = with_weights(weights, inputs, chosen.signature.inputs, seed or 0, seeds)
    check_arguments(chosen.entry, chosen.signature, arrays)
    with about(file), waiting(f"compiling {file} for {options.target}"):
        executable = chosen.checked if checked else chosen.executable()
        if executable is None:
            raise RequestError(
                "--check-memory is for programs only: the memory of a compiled module is fixed"
            )
    with about(file) if checked else nullcontext():
        results = executable(*arrays)
    named = dict(zip([value.name for value in chosen.signature.outputs], results, strict=True))
    write_results(named, as_data, output)
    return 0


def _refuse_saved_states(*names: str) -> None:
    """Raises `RequestError` for a name of a saved state, which only programs on several processes read and write."""
    for name in names:
        if name.endswith(SUFFIX):
            raise RequestError("a saved state needs --engine xla and --processes N; N may be 1", name)


@dataclass(frozen=True)
class _Chosen:
    """The function to run, its signature, and a function that compiles or loads it."""

    entry: str
    signature: Signature
    executable: Callable[[], Runnable]
    checked: Callable[..., tuple[Array, ...]] | None = None  # runs the program and checks its memory


def _by_iree(
    file: str, entry: str | None, opset: OpSet, memory: str, parameters: str | None, options: Options
) -> _Chosen:
    contents = read_input(file)
    # A compiled module is a flatbuffer, mostly inside a zip archive. A .pt2 file is a zip archive, too.
    if not is_model(file) and (contents.startswith(b"PK\x03\x04") or contents[4:8] == b"IREE"):
        if options.lapack != LOOPS:
            raise RequestError(
                "--lapack is for programs only: a compiled module already contains this choice"
            )
        if not options.fast:
            raise RequestError(
                "--no-fast is for programs only: a compiled module already contains this choice"
            )
        if memory:
            raise RequestError("--memory is for programs only: the memory of a compiled module is fixed")
        if opset is not OPSET:
            raise RequestError("--rules is for programs only: a compiled module has no custom ops left")
        loaded = Executable(contents, options.target, entry, "<stdin>" if file == "-" else file, parameters)
        return _Chosen(loaded.entry, loaded.signature, lambda: loaded)
    program = program_in(file, entry, opset, contents).rematerialize(memory)
    weights = None if parameters is None else read_weights(parameters)

    def compiled() -> Executable:
        names = [] if weights is None else parameters_of(program, weights)
        vmfb = build(program.lower(), options, parameters=names)
        return Executable(vmfb, options.target, program.name, parameters=parameters)

    signature = program.signature if weights is None else signature_with_parameters(program, weights)
    return _Chosen(
        program.name, signature, compiled, lambda *arrays: check_memory(program.lower(), options, arrays)
    )


COMMANDS = {"run": _run}
