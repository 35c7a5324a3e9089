"""compile, run: a program to a compiled module, and to results."""

from collections.abc import Sequence

import click
import numpy as np

from tiduc.cli.diagnostics import about, waiting
from tiduc.cli.files import ENTRY, FILE, OUTPUT, read_input, read_module, write, write_binary
from tiduc.program import from_module
from tiduc.runtime.arrays import Array, format_array, parse_inputs, write_npz
from tiduc.runtime.run import Executable
from tiduc.runtime.signature import Value
from tiduc.runtime.targets import TARGETS

SHOWN = 1000  # elements of a result that are printed in full

TARGET = click.option(
    "--target",
    default="cpu",
    show_default=True,
    metavar="TARGET",
    help=f"What to compile for: {', '.join(TARGETS)}; cuda:sm_86 and vulkan:rdna3 name an architecture.",
)
INPUTS = click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="ARRAY",
    help="An argument, in order: 4xf32=1,2,3,4 or 1,2,3,4, @x.npy, @all.npz (each array in it), "
    "@all.npz:name, @all.npz:x.* (* is any text), random, zeros. "
    "A single random or zeros is meant for all arguments.",
)
SEED = click.option("--seed", default=0, show_default=True, help="What random inputs are drawn from.")


def arguments(texts: Sequence[str], inputs: Sequence[Value], seed: int) -> list[Array]:
    """The arrays that `--input` options name."""
    if len(texts) == 1 and texts[0] in ("random", "zeros"):
        texts = [texts[0]] * len(inputs)
    return parse_inputs(texts, inputs, seed)


@click.command("compile")
@FILE
@ENTRY
@TARGET
@OUTPUT
def _compile(file: str, entry: str | None, target: str, output: str) -> None:
    """Compile a program with IREE, into a module (.vmfb) that 'tiduc run' and IREE's runtime load.

    The module carries the names, shapes and element types of inputs and outputs.
    """
    with about(file):
        program = from_module(read_module(file), entry)
        with waiting(f"compiling {file} for {target}"):
            executable = program.compile(target)
    write_binary(executable.vmfb, output)


@click.command("run")
@FILE
@ENTRY
@TARGET
@INPUTS
@SEED
@click.option(
    "-o",
    "--output",
    default="-",
    metavar="OUT.npz",
    help="Write the results to this file instead of printing.",
)
def _run(file: str, entry: str | None, target: str, inputs: tuple[str, ...], seed: int, output: str) -> None:
    """Run a program, or a module that 'tiduc compile' made, on arrays.

    Results are printed one a line, as --input reads them; of large ones only a summary.
    """
    with about(file):
        executable = _executable(file, entry, target)
    results = executable(*arguments(inputs, executable.signature.inputs, seed))
    named = dict(zip([value.name for value in executable.signature.outputs], results, strict=True))
    if output == "-":
        write("".join(f"{name}: {_shown(array)}\n" for name, array in named.items()))
    else:
        write_npz(output, named)


def _executable(file: str, entry: str | None, target: str) -> Executable:
    contents = read_input(file)
    # What IREE writes is a flatbuffer, mostly inside a zip archive.
    if contents.startswith(b"PK\x03\x04") or contents[4:8] == b"IREE":
        return Executable(contents, target, entry, "<stdin>" if file == "-" else file)
    program = from_module(read_module(file, contents), entry)
    with waiting(f"compiling {file} for {target}"):
        return program.compile(target)


def _shown(array: Array) -> str:
    if array.size <= SHOWN:
        return format_array(array)
    kind, _, _ = format_array(array[(0,) * array.ndim]).rpartition("=")
    shape = "x".join(map(str, array.shape))
    if not np.issubdtype(array.dtype, np.floating):
        return f"{shape}x{kind} ({array.size} elements; -o keeps them)"
    low, high, mean = (float(f(array)) for f in (np.min, np.max, np.mean))
    return f"{shape}x{kind} (from {low:g} to {high:g}, mean {mean:g}; -o keeps the {array.size} elements)"


COMMANDS = {"compile": _compile, "run": _run}
