"""Seeds of random numbers: the option `--seed`, and the remarks on programs that draw random numbers."""

from collections.abc import Sequence

import click

from tiduc.cli.diagnostics import remark
from tiduc.program import Program
from tiduc.runtime.arrays import Array
from tiduc.runtime.random_seed import MOST, drawn, is_random_seed, random_seed
from tiduc.runtime.signature import Signature, SignatureValue

SEED = click.option(
    "--seed",
    type=click.IntRange(0, MOST),
    metavar="INTEGER",
    help="Seed of random inputs, by default 0, and of the random numbers that the program draws. By default, 'run' "
    "chooses the latter seed at random.",
)


def remark_on_seeds(file: str, program: Program) -> None:
    """Prints a remark with the inputs from which the program draws its random numbers, if it draws any."""
    names = [value.name for value in seeds_among(program.signature.inputs)]
    if names:
        remark(
            file, f"draws random numbers from the input {' and '.join(names)}: equal seeds give equal numbers"
        )


def seeds_among(inputs: Sequence[SignatureValue]) -> list[SignatureValue]:
    """Returns the inputs that are seeds of random numbers."""
    return [value for value in inputs if is_random_seed(value)]


def seeds_of(file: str, signature: Signature, number: int | None) -> dict[str, Array]:
    """Returns the random seeds of a program, by input name. They are derived from `number`.

    If `number` is None, draws a number and prints it in a remark.
    """
    seeds = seeds_among(signature.inputs)
    if seeds and number is None:
        number = drawn()
        remark(file, f"draws random numbers; --seed {number} repeats them")
    return {value.name: random_seed(number or 0, i) for i, value in enumerate(seeds)}
