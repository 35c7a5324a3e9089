"""Runs a program on several processes: the option --processes of 'tiduc run'."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass

import click
import numpy as np

from tiduc.backends.backend import Options
from tiduc.backends.xla.arrays import Reader, ShardedArray
from tiduc.backends.xla.backend import compile_for_xla
from tiduc.backends.xla.executable import XlaExecutable, check_simulated
from tiduc.cli.diagnostics import about, waiting
from tiduc.cli.execution import program_in, with_named, with_seeds
from tiduc.cli.options import shared_options
from tiduc.cli.random_seeds import seeds_of
from tiduc.cli.results import write_results
from tiduc.dialect.errors import RequestError, TiducError
from tiduc.dialect.ops.shardy import partitions_of
from tiduc.distributed import Rank, join, leave, rank, restore, save
from tiduc.distributed.checkpoints import SUFFIX
from tiduc.distributed.local import run_locally
from tiduc.distributed.service import native_output_dropped
from tiduc.passes.rules.registry import OpSet
from tiduc.program import Program
from tiduc.runtime.array_files import restored
from tiduc.runtime.arrays import Array
from tiduc.runtime.signature import SignatureValue
from tiduc.runtime.weights import part_readers

PROCESSES = click.option(
    "--processes",
    type=click.IntRange(min=1),
    metavar="N",
    help="Run a sharded program on N processes, with --engine xla. Starts them on this host, unless Slurm, mpirun or "
    "Kubernetes has started them. Each process reads its own shards of .npy and .safetensors files and of saved states "
    f"(NAME{SUFFIX}), which --weights reads and -o writes.",
)


@dataclass(frozen=True)
class OnProcesses:
    """The arguments of 'tiduc run' with --processes; see the options of these names."""

    file: str
    entry: str | None
    opset: OpSet
    options: Options
    inputs: tuple[str, ...]
    weights: str | None
    seed: int | None
    as_data: bool
    output: str


def run_on_processes(asked: OnProcesses, count: int) -> int:
    """Runs the program as one of `count` processes, or starts all of them. Returns the exit status."""
    own = rank(count)
    if own is None:
        return _started(asked, count)
    with about(asked.file), waiting(f"compiling {asked.file} for {asked.options.target}"):
        program = program_in(asked.file, asked.entry, asked.opset)
        partitions = partitions_of(program.module)
        if partitions % count:
            raise RequestError(
                f"{count} processes cannot share the {partitions} devices of the program; 'tiduc shard' splits it"
            )
        if asked.options.target.startswith("cpu"):
            check_simulated(partitions // count)
        with native_output_dropped():
            join(own, partitions // count, asked.options.target)
            executable = compile_for_xla(program.lower(), asked.options)
            _run(asked, own, program, executable)
            leave()
    return 0


def _started(asked: OnProcesses, count: int) -> int:
    """Starts the command of this process in `count` processes. Returns the exit status of the first that fails."""
    if asked.file == "-":
        raise RequestError("--processes needs a file: several processes cannot read standard input")
    command = [sys.executable, "-m", "tiduc", *shared_options().arguments]
    outcome = run_locally(command, count)
    click.echo(outcome.errors, err=True, nl=False)
    if outcome.signal:
        raise TiducError(f"process {outcome.process} of {count} was killed by {outcome.signal}")
    return outcome.status


def _run(asked: OnProcesses, own: Rank, program: Program, executable: object) -> None:
    if not isinstance(executable, XlaExecutable):
        raise RequestError("--processes needs a program with static shapes")
    results = executable.keep(*_arguments(asked, executable))
    names = [value.name for value in executable.signature.outputs]
    if asked.output.endswith(SUFFIX):
        save(asked.output, dict(zip(names, results, strict=True)))
        return
    whole: dict[str, Array] = {}
    for name, result in zip(names, results, strict=True):
        array = executable.gathered(result)  # one at a time: only process 0 keeps it
        if own.index == 0:
            whole[name] = array
    if own.index == 0:
        write_results(whole, asked.as_data, asked.output)


def _arguments(asked: OnProcesses, executable: XlaExecutable) -> list[Reader | Array | ShardedArray]:
    """An argument for each input: arrays of --weights by name, and those of --input for the other inputs."""
    named: Mapping[str, Reader | ShardedArray] = {}
    if asked.weights is not None:
        saved = asked.weights.endswith(SUFFIX)
        named = restore(asked.weights, executable.shardings) if saved else part_readers(asked.weights)
    return with_named(
        named,
        asked.weights,
        _typed,
        executable.signature.inputs,
        lambda others: with_seeds(
            asked.inputs, others, asked.seed or 0, lambda: _seeds(asked, executable), mapped=True
        ),
    )


def _typed(argument: Reader | ShardedArray, value: SignatureValue) -> Reader | ShardedArray:
    """The argument. If it is a function, it returns elements of types that NumPy's format lacks (bf16) as such."""
    if not callable(argument):
        return argument
    return lambda part: restored(np.asarray(argument(part)), value.type)


def _seeds(asked: OnProcesses, executable: XlaExecutable) -> dict[str, Array]:
    """The random seeds that process 0 draws, for all processes."""
    from jax import enable_x64
    from jax.experimental import multihost_utils

    drawn = seeds_of(asked.file, executable.signature, asked.seed)
    with enable_x64(True):
        return {name: np.asarray(multihost_utils.broadcast_one_to_all(seed)) for name, seed in drawn.items()}
